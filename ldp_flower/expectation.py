"""Expected error of a protocol, computed from public numbers, or the reason for having none."""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from .randomizers.base import Randomizer
from .refusals import TooFew
from .validation import Count, Fraction, PlainFields, check_range


class NoPlan(ValueError):
    """Error for a protocol whose expected error is not known; the message says why."""


class WrongSetting(ValueError):
    """Error for a number of a :class:`Setting` that a plan needs, or that it does not read.

    Attributes
    ----------
    field : str
        Name of the number in :class:`Setting`.
    """

    def __init__(self, field: str, text: str) -> None:
        self.field, self._text = field, text
        super().__init__(self.about(field))

    def about(self, name: str) -> str:
        """Return the error's message with the number called ``name``, such as ``--users``."""
        return self._text.format(name)


class WouldRefuse(ValueError):
    """Error for a run that the protocol would refuse.

    Attributes
    ----------
    refusal : TooFew
        The reason for the refusal, and what would suffice.
    """

    def __init__(self, refusal: TooFew) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True, kw_only=True)
class Setting(PlainFields):
    """Public numbers about a population that has not been queried yet.

    Parameters
    ----------
    num_users : int
        Number of users.
    rows_per_user : float (default: 1)
        Mean number of rows of a user.
    num_features : int, optional
        Number of values in a row, not counting its target. For items, the number of possible items.
    quality : float, optional
        Quality of the same model without privacy: R2 of a regression, AUC of a classification.
    variance_between : float, optional
        Share of the variance of columns and residuals that lies between users (the intraclass
        correlation). It is 0 if the rows of one user differ as much as rows of different users,
        and near 1 if the rows of one user are alike. By default, this number and the quality have
        the values that the protocol's plan assumes.
    num_nodes : int, optional
        Number of nodes that hold the users, with noise at the node.
    """

    num_users: Count
    rows_per_user: float = 1
    num_features: Count | None = None
    quality: Fraction | None = None
    variance_between: float | None = None
    num_nodes: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("rows_per_user", self.rows_per_user, 1, 1e9)
        if self.variance_between is not None:
            check_range("variance_between", self.variance_between, 0, 1)

    def given(self) -> set[str]:
        """Return the names of the numbers that differ from their defaults.

        A plan refuses those of them that it would not read.
        """
        return {each.name for each in fields(self) if getattr(self, each.name) != each.default}


@dataclass(frozen=True, kw_only=True)
class Expectation(PlainFields):
    """Expected error of a protocol, with the rounds and mechanisms that it uses.

    Parameters
    ----------
    error : str
        Name of the error, with its unit: ``"R2 lost"``, ``"standard error of the mean, in
        widths of the bounds"``. A smaller error is better.
    value : float
        The error in the median run.
    low, high : float
        Range in which the error of eight runs out of ten lies.
    rounds : int
        Number of rounds. Every user answers in one round, unless a note says otherwise.
    randomizers : tuple of Randomizer
        The mechanisms of the protocol. A user answers with one of them.
    assumes : tuple of str
        The assumptions behind these numbers, apart from the setting, as whole sentences.
    notes : tuple of str
        Further advice that a careful colleague would give, as whole sentences.
    """

    error: str
    value: float
    low: float
    high: float
    rounds: Count
    randomizers: tuple[Randomizer, ...]
    assumes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.low <= self.value <= self.high < math.inf:
            raise ValueError(
                "Expected 0 <= low <= value <= high < infinity, got "
                f"{self.low}, {self.value}, {self.high}."
            )
        if not self.randomizers:
            raise ValueError("Expected at least one mechanism in randomizers, got none.")

    @property
    def report_bytes(self) -> int:
        """Size of the largest report of the mechanisms, in bytes."""
        return max(each.report_bytes for each in self.randomizers)


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """Proven lower bound on a protocol's error, up to a constant that the paper does not state.

    Parameters
    ----------
    source : str
        Paper and theorem.
    among : str
        The protocols that the theorem covers, as a relative clause for the text of the bound:
        ``"that asks everybody once and at one time"``.
    rate : str
        The lower bound on the mean squared error of the coefficients, without the constant.
    symbols : str
        Meaning of the letters in the rate.
    holds_for : str
        The data and the ranges of the numbers that the theorem covers.
    outside : tuple of str
        The conditions of the theorem that a plan's numbers do not meet, in words.
    """

    source: str
    among: str
    rate: str
    symbols: str
    holds_for: str
    outside: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the bound as a text."""
        outside = ""
        if self.outside:
            outside = f" It does not cover this plan: {'; '.join(self.outside)}."
        return (
            f"{self.source}: for every protocol {self.among} there are data with a mean squared "
            f"error of the coefficients of at least a constant times {self.rate}, with "
            f"{self.symbols}. The theorem is about {self.holds_for}.{outside} The paper does not "
            "state the constant, so that no number follows."
        )


class Plannable:
    """Base class of protocols that have a plan (a formula or a simulation of their error).

    A protocol without a plan states the reason.
    """

    #: Names of the fields of :class:`Setting` that a plan reads, apart from ``num_users``.
    plans_with: ClassVar[frozenset[str]] = frozenset()
    #: True if a strategy knows how many features a row has, so that a setting need not state it.
    sized: ClassVar[bool] = True
    #: Places where a strategy can have noise added: "user", "node", "shared".
    noises: ClassVar[tuple[str, ...]] = ("user",)
    #: Reason why there is no plan, as a whole sentence; empty if there is a plan.
    no_plan: ClassVar[str] = ""

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol for a population of which only the numbers in ``setting`` are known.

        Raises NoPlan if the protocol has no plan.
        """
        raise NoPlan(cls._why_not())

    def synthetic(self, setting: Setting) -> Any:
        """Return the population on which plans simulate the protocol, or None for a formula.

        It is a :class:`~ldp_flower.strategies.forecasts.populations.SyntheticPopulation`.
        Plans use :meth:`expect` if this method returns None. Raises NoPlan if the error is not
        known for these parameters.
        """
        return None

    def expect(self, setting: Setting) -> Expectation:
        """Return the expected error by a formula. It is used if :meth:`synthetic` returns None.

        Numbers that are not in ``plans_with`` are not read. Raises NoPlan if the error is not
        known, and WouldRefuse if a run with these numbers would be refused before any query.
        """
        raise NoPlan(self._why_not())

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return the proven lower bounds on the error of any protocol of this kind, if known."""
        return ()

    @classmethod
    def _why_not(cls) -> str:
        return cls.no_plan or f"The error to expect of {cls.__name__} is not known."
