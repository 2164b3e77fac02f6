"""What a protocol is expected to do with public numbers, or why that is not known."""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from .randomizers.base import Randomizer
from .refusals import TooFew
from .validation import PlainFields, check_fraction, check_integer, check_number, check_range


class NoPlan(ValueError):
    """The error to expect is not known; the text says why."""


class WouldRefuse(ValueError):
    """The protocol would refuse such a run.

    Attributes
    ----------
    refusal : TooFew
        Why, and what would do.
    """

    def __init__(self, refusal: TooFew) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True, kw_only=True)
class Setting(PlainFields):
    """Public numbers about users who have not been asked anything.

    Parameters
    ----------
    num_users : int
        Number of users.
    rows_per_user : float (default: 1)
        Mean number of rows of a user.
    num_features : int, optional
        Numbers that one row has beside its target; of items, how many there are to choose from.
    quality : float, optional
        What the same model would reach without privacy: R2 of a regression, AUC of classes.
    variance_between : float, optional
        Share of the variance of columns and residuals that is between users (the intraclass
        correlation): 0 if the rows of one user differ as those of different users do, near 1 if
        they are alike. By default this and the quality are what the protocol's plan assumes.
    """

    num_users: int
    rows_per_user: float = 1
    num_features: int | None = None
    quality: float | None = None
    variance_between: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_users", self.num_users, 1)
        check_range("rows_per_user", self.rows_per_user, 1, 1e9)
        if self.num_features is not None:
            check_integer("num_features", self.num_features, 1)
        if self.quality is not None:
            check_fraction("quality", self.quality)
        if self.variance_between is not None:
            check_range("variance_between", self.variance_between, 0, 1)

    def given(self) -> set[str]:
        """Return the names of the numbers that are not left at their defaults."""
        return {each.name for each in fields(self) if getattr(self, each.name) != each.default}


@dataclass(frozen=True, kw_only=True)
class Expectation(PlainFields):
    """What a protocol is expected to do.

    Parameters
    ----------
    error : str
        Name of the error, with its unit: ``"R2 lost"``, ``"standard error of the mean, in
        widths of the bounds"``. Less is better.
    value : float
        The error in the median run.
    low, high : float
        The error of eight runs of ten lies between these.
    rounds : int
        Number of the server's questions; every user answers one, unless a note says otherwise.
    randomizers : tuple of Randomizer
        The mechanisms with one of which a user answers.
    assumes : tuple of str
        Whole sentences: the assumptions behind these numbers, beside the setting.
    notes : tuple of str
        Whole sentences: what else a careful colleague would say.
    """

    error: str
    value: float
    low: float
    high: float
    rounds: int
    randomizers: tuple[Randomizer, ...]
    assumes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "value", "high"):
            check_number(name, getattr(self, name))
        if not 0 <= self.low <= self.value <= self.high < math.inf:
            raise ValueError(
                f"Expected 0 <= low <= value <= high, got {self.low}, {self.value}, {self.high}."
            )
        check_integer("rounds", self.rounds, 1)
        if not self.randomizers:
            raise ValueError("Expected the mechanisms that users answer with, got none.")

    @property
    def report_bytes(self) -> int:
        """Bytes of the largest report."""
        return max(each.report_bytes for each in self.randomizers)


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What a paper proves that no protocol can beat, up to a constant that it does not state.

    Parameters
    ----------
    source : str
        Paper and theorem.
    among : str
        The protocols that it is about: ``"that asks everybody once and at one time"``.
    rate : str
        What the mean squared error of the coefficients is at least, times a constant.
    symbols : str
        What the letters of the rate stand for.
    holds_for : str
        The data, and the range of the numbers, that the theorem is about.
    outside : tuple of str
        Which of these a plan's numbers do not meet, in words.
    """

    source: str
    among: str
    rate: str
    symbols: str
    holds_for: str
    outside: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as a text."""
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
    """A protocol with a plan, by a formula or by simulation, or with a reason for having none."""

    #: Which numbers of a :class:`Setting` a plan reads, beside ``num_users``.
    plans_with: ClassVar[frozenset[str]] = frozenset()
    #: Whether a strategy knows by itself how many features a row has.
    sized: ClassVar[bool] = True
    #: Why there is no plan, in a whole sentence, where there is none.
    no_plan: ClassVar[str] = ""

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol as it would ask users of whom only these numbers are known.

        Raises NoPlan if the protocol has no plan.
        """
        raise NoPlan(cls._why_not())

    def synthetic(self, setting: Setting) -> Any:
        """Return the population that plans simulate the protocol on; None: they use a formula.

        It is a :class:`~ldp_flower.strategies.forecasts.populations.Population`. Raises NoPlan if
        the error is not known for these parameters.
        """
        return None

    def expect(self, setting: Setting) -> Expectation:
        """Return the error by a formula, where :meth:`synthetic` gives no population.

        Numbers that are not in ``plans_with`` are not read. Raises NoPlan if the error is not
        known, and WouldRefuse if a run with these numbers would be refused before anybody is asked.
        """
        raise NoPlan(self._why_not())

    def lower_bounds(self, setting: Setting) -> tuple[LowerBound, ...]:
        """Return what is proved that no protocol of its kind can beat, where something is."""
        return ()

    @classmethod
    def _why_not(cls) -> str:
        return cls.no_plan or f"The error to expect of {cls.__name__} is not known."
