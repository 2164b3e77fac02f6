"""What the protocols share that describe columns of users' tables."""

from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from ldp_flower.data.schema import Categories, Schema
from ldp_flower.expectation import Expectation, Setting, WouldRefuse
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew

from ..forecasts.formulas import expected_share
from ..runtime import Ask, LdpStrategy, Protocol, Result, Run, TooFewReports
from .cells import MOST_CELLS, CellShares, Shares, cell_question

R = TypeVar("R", bound=Result)


@dataclass(kw_only=True, eq=False, repr=False)
class ColumnStrategy(LdpStrategy[R]):
    """Base class: users hold tables, and nobody is asked where the answer can be of no use.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
    schema : Schema
        Of the users' tables.

    Raises
    ------
    ValueError
        If there is no such column, it is of another kind, or is named twice, or too large.
    TooFewReports
        On starting, if users are too few for an answer of use, with the number that would do.
    """

    schema: Schema = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.schema, Schema):
            raise ValueError(f"Expected schema to be a Schema, got {type(self.schema).__name__}.")

    @abstractmethod
    def _asked(self, run: Run) -> Protocol:
        """Run the protocol, which is not refused."""

    @abstractmethod
    def _expected(self, setting: Setting) -> Expectation:
        """Return the error of a run that is not refused."""

    def protocol(self, run: Run) -> Protocol:
        """Ask unless users are too few."""
        if refusal := self._refusal(run.num_users):
            raise TooFewReports(refusal)
        return (yield from self._asked(run))

    def expect(self, setting: Setting) -> Expectation:
        """Return the error to expect."""
        if refusal := self.refusal(setting.num_users):
            raise WouldRefuse(refusal)
        return self._expected(setting)


#: Standard error of a share beyond which nothing is asked.
USEFUL_SHARE = 0.1


@dataclass(kw_only=True, eq=False, repr=False)
class CellStrategy(ColumnStrategy[R]):
    """Base class: users report, once, in which cell of some columns of categories they are.

    Other parameters are those of :class:`ColumnStrategy`.
    """

    plans_with = frozenset({"rows_per_user", "num_features"})
    _share_of: ClassVar[str]  # what a plan calls a cell

    def _set_cells(self, columns: Sequence[str], num_cells: int) -> None:
        CellShares(self.epsilon, 2).noise(1000)  # refuses a bad epsilon now
        self._question = cell_question(self.schema, columns)
        self._shares = CellShares(self.epsilon, num_cells)

    def _found(self, run: Run) -> Generator[Ask, Estimate, Shares]:
        """Ask in which cell users fall."""
        cohorts = run.cohorts(self._shares.sizes(run.num_users, self.min_reports))
        return (yield from self._shares.estimate(cohorts, self._question))

    def _refusal(self, num_users: int) -> TooFew | None:
        return too_few(self, num_users, self._shares.noise(num_users), USEFUL_SHARE, "a share")

    def _expected(self, setting: Setting) -> Expectation:
        """Return the standard error of a share, the square root of the mean of their squares."""
        waves = self._shares.waves(setting.num_users, self.min_reports)
        return expected_share(waves, self._shares.num_cells, setting, f"{self._share_of}'s share")


def categories_of(schema: Schema, argument: str, column: str) -> list[str]:
    """Return a column's categories; raise ValueError if it has none or too many."""
    kind = schema.kind(column)
    if not isinstance(kind, Categories):
        raise ValueError(f"Expected {argument} to be a column of categories, got {column!r}.")
    if len(kind.values) >= MOST_CELLS:
        raise ValueError(
            f"Expected {argument} of at most {MOST_CELLS - 1} categories, got "
            f"{len(kind.values)} in {column!r}: HeavyHitters is for more."
        )
    return [str(value) for value in kind.values]


def too_few(
    strategy: LdpStrategy[Any], num_users: int, variance: float, useful: float, what: str
) -> TooFew | None:
    """Return that users are too few for a standard error that is of use; None if they are not."""
    if refusal := strategy._too_few(num_users):
        return refusal
    if (error := (variance / num_users) ** 0.5) <= useful:
        return None
    return TooFew(
        f"With {num_users:,} users at epsilon {strategy.epsilon:g} the standard error of {what} "
        f"would be {error:.2g}. Nobody has been asked.",
        "noise",
    )
