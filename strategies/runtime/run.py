"""Run: the state of a run that its protocol can see. A strategy itself holds only settings."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from typing import Protocol as Interface

from flwr.app import ArrayRecord, ConfigRecord

from ldp_flower.refusals import TooFew

from .ask import Ask
from .asked import Asked
from .population import Cohort, Part, Population
from .result import Result

#: A generator that yields questions, receives an Estimate for each (or Answers if the randomizer
#: is not summable), and returns the result.
Protocol = Generator[Ask, Any, Result]

#: A generator that yields questions of any kind, receives their answers, and returns the result.
AnyProtocol = Generator[Asked, Any, Result]

A = TypeVar("A", bound=Asked)


class TooFewReports(RuntimeError):
    """Exception: a step got, or would get, too few answers to go on.

    Attributes
    ----------
    refusal : TooFew
        The reason, and what would be enough.
    """

    def __init__(self, refusal: TooFew) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal

    @property
    def needed(self) -> int | None:
        """Number of users with which the refused run would start."""
        return self.refusal.needed


class ContradictedValue(ValueError):
    """Exception: reports contradict a declared value. The run stops and asks no more users."""


def ask_on(ask: A, known: bool) -> Generator[A, Any, Any]:
    """Ask a question and return its answer.

    If there are too few reports, return None if an estimate is ``known``, else raise TooFewReports.
    """
    try:
        return (yield ask)
    except TooFewReports:
        if known:
            return None
        raise


@dataclass(frozen=True)
class Arguments:
    """Arguments of Flower's ``start`` that a protocol may use."""

    initial_arrays: ArrayRecord | None = None
    num_rounds: int = 0
    train_config: ConfigRecord = field(default_factory=ConfigRecord)


class RunSettings(Interface):
    """The settings of a strategy that a run uses."""

    epsilon: float
    min_reports: int
    noise: str

    def too_small(self, num_users: int) -> TooFew:
        """Return the refusal of a run whose ``num_users`` users are too few for its cohorts."""


class Run:
    """One run of a strategy: its users, its cohorts and its estimate.

    Parameters
    ----------
    settings : LdpStrategy
        The strategy, whose settings the run uses.
    population : Population
        The users that the run may query.
    arguments : Arguments, optional
        The arguments of ``start`` for the protocol.
    share : float (default: 1.0)
        Share of the budget that the run uses, with noise at the node. A series has several runs.

    Attributes
    ----------
    planned_steps : int, optional
        Number of steps, if the protocol knows it. More steps may follow, such as a check of the
        estimate.
    num_records : int, optional
        Number of records that silos declare to train on; None if no census was taken.
    num_owners : int, optional
        Number of users whom the silos' records are about; None if no census was taken.
    dishonest : int, optional
        Number of nodes that may collude, according to the most careful operator; None if none has
        said.
    estimate : ArrayRecord, optional
        The estimate so far, if the protocol has one before its end.
    found : Result, optional
        The result that the protocol has returned.
    """

    def __init__(
        self,
        settings: RunSettings,
        population: Population,
        arguments: Arguments | None = None,
        share: float = 1.0,
    ) -> None:
        self.settings = settings
        self.population = population
        self.share = share
        self.arguments = arguments or Arguments()
        self.planned_steps: int | None = None
        self.num_records: int | None = None
        self.num_owners: int | None = None
        self.dishonest: int | None = None
        self.estimate = self.arguments.initial_arrays
        self.found: Any = None

    @property
    def epsilon(self) -> float:
        """The strategy's privacy parameter."""
        return self.settings.epsilon

    @property
    def min_reports(self) -> int:
        """The strategy's ``min_reports``: the smallest cohort that :meth:`cohorts` makes."""
        return self.settings.min_reports

    @property
    def num_users(self) -> int:
        """Number of users that the run may query."""
        return len(self.population)

    @property
    def num_unasked(self) -> int:
        """Number of users that are not in a cohort yet."""
        return self.population.remaining

    @property
    def salt(self) -> int:
        """Public salt of the run."""
        return self.population.salt

    def cohorts(self, sizes: Sequence[int]) -> list[Cohort]:
        """Put users that have not been asked yet into disjoint random cohorts.

        Raises
        ------
        TooFewReports
            If too few users remain, or a cohort would be smaller than ``min_reports``.
        """
        if sum(sizes) > self.num_unasked or min(sizes) < self.min_reports:
            raise TooFewReports(self.settings.too_small(self.num_users))
        return self.population.cut(sizes)

    def equal_cohorts(self, num_users: int, most: int, fewest: int = 1) -> list[Cohort]:
        """Cut ``num_users`` users into equal cohorts.

        There are at most ``most`` cohorts, and as many as leave each at least ``fewest`` and
        ``min_reports`` users. There is always at least one.
        """
        number = max(1, min(most, num_users // max(fewest, self.min_reports)))
        return self.cohorts([num_users // number + (i < num_users % number) for i in range(number)])

    def users(self, count: str) -> int:
        """Return the sum over cohorts of one count of their steps, such as ``"reports"``."""
        return 0  # no user has been asked yet

    def part(self, size: int) -> "Run":
        """Return a run that has ``size`` of the users left, for a protocol inside another one."""
        return Run(self.settings, Part(self.population, size), self.arguments, self.share)
