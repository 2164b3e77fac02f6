"""Run: what a protocol knows of its run. A strategy holds settings only."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from typing import Protocol as Interface

from flwr.app import ArrayRecord, ConfigRecord

from ldp_flower.refusals import TooFew

from .ask import Ask, Asked
from .population import Cohort, Part, Population
from .result import Result

#: Questions out; an Estimate, or Answers if the randomizer is not summable, back in.
Protocol = Generator[Ask, Any, Result]

#: Any messages out, and what becomes of their answers back in.
AnyProtocol = Generator[Asked, Any, Result]

A = TypeVar("A", bound=Asked)


class TooFewReports(RuntimeError):
    """A step got, or would get, too few answers to go on.

    Attributes
    ----------
    refusal : TooFew
        Why, and what would do.
    """

    def __init__(self, refusal: TooFew) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal

    @property
    def needed(self) -> int | None:
        """With how many users a run that was refused starts."""
        return self.refusal.needed


class ContradictedValue(ValueError):
    """A declared value is not what the reports say; nobody else was asked."""


def ask_on(ask: A, known: bool) -> Generator[A, Any, Any]:
    """Return the answer; None if too few came and an estimate is known, or raise TooFewReports."""
    try:
        return (yield ask)
    except TooFewReports:
        if known:
            return None
        raise


@dataclass(frozen=True)
class Arguments:
    """What Flower's signature of ``start`` gives a protocol."""

    initial_arrays: ArrayRecord | None = None
    num_rounds: int = 0
    train_config: ConfigRecord = field(default_factory=ConfigRecord)


class RunSettings(Interface):
    """What a run takes of its strategy."""

    epsilon: float
    min_reports: int

    def too_small(self, num_users: int) -> TooFew:
        """Return that so many users do not give all cohorts."""


class Run:
    """One run of a strategy: its users, what they were asked, and what was found.

    Parameters
    ----------
    settings : LdpStrategy
        The strategy, of which a run takes its settings.
    population : Population
        Whom the run may ask.
    arguments : Arguments, optional
        What ``start`` was given for the protocol.

    Attributes
    ----------
    planned_steps : int, optional
        Number of steps, where the protocol knows it. Steps beyond may follow, such as a check of
        what was found.
    num_records : int, optional
        Number of records that silos which train on them declare; None: no census was taken.
    estimate : ArrayRecord, optional
        The estimate so far, where the protocol has one before its end.
    found : Result, optional
        What the protocol has returned.
    """

    def __init__(
        self,
        settings: RunSettings,
        population: Population,
        arguments: Arguments | None = None,
    ) -> None:
        self.settings = settings
        self.population = population
        self.arguments = arguments or Arguments()
        self.planned_steps: int | None = None
        self.num_records: int | None = None
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
        """Number of users whom the run may ask."""
        return len(self.population)

    @property
    def num_unasked(self) -> int:
        """Number of users in no cohort yet."""
        return self.population.remaining

    @property
    def salt(self) -> int:
        """Public salt of the run."""
        return self.population.salt

    def cohorts(self, sizes: Sequence[int]) -> list[Cohort]:
        """Take users that have not been asked yet into disjoint random cohorts.

        Raises
        ------
        TooFewReports
            If a cohort would be smaller than ``min_reports``.
        """
        if sum(sizes) > self.num_unasked or min(sizes) < self.min_reports:
            raise TooFewReports(self.settings.too_small(self.num_users))
        return self.population.cut(sizes)

    def equal_cohorts(self, num_users: int, most: int, fewest: int = 1) -> list[Cohort]:
        """Cut so many users into equal cohorts: ``most``, or fewer of enough users each."""
        number = max(1, min(most, num_users // max(fewest, self.min_reports)))
        return self.cohorts([num_users // number + (i < num_users % number) for i in range(number)])

    def users(self, count: str) -> int:
        """Return a sum over steps of a count of users, those of one cohort counted once."""
        return 0  # nobody has been asked yet

    def part(self, size: int) -> "Run":
        """Return a run of so many of the users who are not asked yet, for a protocol within."""
        return Run(self.settings, Part(self.population, size), self.arguments)
