"""Base classes of the strategies that describe columns of users' tables."""

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from ldp_flower.data.schema import Categories, Schema
from ldp_flower.expectation import Setting
from ldp_flower.randomizers import Estimate, RandomizedResponse
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..forecasts.columns import (
    ColumnUsers,
    column_users,
    error_of_drawn_shares,
    error_of_shares,
)
from ..numerics.sample import sampling
from ..runtime import Ask, LdpStrategy, Protocol, Result, Run, TooFewReports
from ..runtime.at_node import AtNode, honest_nodes
from ..runtime.run import Arguments
from ..sums.budget import Budget, too_few_at_nodes
from ..sums.statistics import users_for_cells
from .cells import MOST_CELLS, ShareEstimates, ShareEstimator, ask_nodes, cell_question

R = TypeVar("R", bound=Result)
_LARGEST_EPSILON = 16  # largest epsilon that a refusal proposes


@dataclass(kw_only=True, eq=False, repr=False)
class ColumnStrategy(LdpStrategy[R]):
    """Base class of strategies on users' tables; a run with too few users sends no queries.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
    schema : Schema
        Schema of the users' tables.

    Raises
    ------
    ValueError
        If a column does not exist, has the wrong kind, is named twice or has too many categories.
    TooFewReports
        When the run starts, if there are too few users for a useful result. The error states
        how many users would be enough.
    """

    schema: Schema = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.schema, Schema):
            raise ValueError(f"Expected schema to be a Schema, got {type(self.schema).__name__}.")
        RandomizedResponse(self.epsilon)  # raises an error now if epsilon is invalid

    @property
    def _shared(self) -> dict[str, Any]:
        """Arguments that a strategy for a part of this one's question shares with it."""
        names = ("epsilon", "min_reports", "noise", "delta", "honest")
        return {name: getattr(self, name) for name in names}

    @abstractmethod
    def _asked(self, run: Run) -> Protocol:
        """Ask the protocol's questions and return its result; enough users have been found."""

    def refusal(
        self, num_users: int, arguments: Arguments | None = None, num_nodes: int = 1
    ) -> TooFew | None:
        """Return why a run does not start, with the users and the epsilon that are enough, or None.

        The epsilon is the smallest, to two decimals and up to 16, at which ``num_users`` users are
        enough.
        """
        few = super().refusal(num_users, arguments, num_nodes)
        if few is None or few.reason != "noise" or few.epsilon is not None:
            return few
        steps = range(math.floor(100 * self.epsilon) + 1, 100 * _LARGEST_EPSILON + 1)

        def starts(step: int) -> bool:
            own = replace(self, epsilon=step / 100)
            return own._tried(num_users, arguments, num_nodes) is None

        place = bisect_left(steps, True, key=starts)
        return replace(few, epsilon=steps[place] / 100) if place < len(steps) else few

    def check_census(self, run: Run) -> None:
        """Raise TooFewReports if there are too few users, or too few for their number of nodes."""
        if refusal := LdpStrategy._too_few(self, run.num_users) or self._refused(run):
            raise TooFewReports(refusal)

    def protocol(self, run: Run) -> Protocol:
        """Ask the protocol's questions; raise TooFewReports first if there are too few users."""
        if refusal := self._refused(run):
            raise TooFewReports(refusal)
        return (yield from self._asked(run))

    def _refused(self, run: Run) -> TooFew | None:
        """Return a TooFew with the reason if a run has too few users, or None."""
        if self.noise == "user":
            return self._refusal(run.num_users)
        nodes = run.population.num_nodes
        # The sums of K nodes together have the square root of K times as much noise as one sum.
        times = math.sqrt(nodes / run.share / honest_nodes(run))
        refusal = self._refusal(math.floor(run.num_users / times))
        if refusal is None or times == 1:
            return refusal
        needed = math.ceil((refusal.needed or 0) * times)
        return self._few_at_node(run.num_users, needed, nodes)

    def _few_at_node(self, num_users: int, needed: int, nodes: int = 1) -> TooFew | None:
        """Return a TooFew if ``num_users`` users are too few with noise at the node, or None.

        They are too few if they are less than ``needed`` on ``nodes`` nodes.
        """
        least = max(needed, self.min_reports)
        what = "show the estimate above noise"
        return too_few_at_nodes(what, least, num_users, nodes, self.epsilon, self.noise)


#: Largest standard error of a share at which a run still starts.
USEFUL_SHARE = 0.1


@dataclass(kw_only=True, eq=False, repr=False)
class CellStrategy(AtNode, ColumnStrategy[R]):
    """Base class of strategies in which each user reports its cell in a contingency table, once.

    The table is that of one or more columns of categories, or of numbers that are cut into cells.
    With noise at the node, users report no cell: they count in each cell by the share of their rows
    there.

    Other parameters are those of :class:`ColumnStrategy` and :class:`~..runtime.at_node.AtNode`.
    """

    plans_with = frozenset({"rows_per_user", "num_features"})
    _share_of: ClassVar[str]  # name of a cell in a plan's text

    def _set_cells(self, columns: Sequence[str], edges: Mapping[str, Floats] | None = None) -> None:
        self._columns_asked = list(columns)
        categories = [name for name in columns if name not in (edges or {})]
        self._question = cell_question(self.schema, categories, edges=edges)
        self._shares = ShareEstimator(self.epsilon, self._question.num_cells)

    def shares_of_nodes(
        self, budget: Budget, share: float = 1.0
    ) -> Generator[Ask, Estimate, ShareEstimates]:
        """Ask all users once for a noisy histogram, and return the shares of the cells."""
        found = yield from ask_nodes(budget, self._question, share)
        return replace(found, covariance=found.covariance + sampling(found.likely, found.users))

    def _found(self, run: Run) -> Generator[Ask, Estimate, ShareEstimates]:
        """Query the users for their cells and return the estimated shares."""
        if self.noise != "user":
            return (yield from self.shares_of_nodes(Budget.of(run, self.delta)))
        cohorts = run.cohorts(self._shares.sizes(run.num_users, self.min_reports))
        return (yield from self._shares.estimate(cohorts, self._question))

    def _refusal(self, num_users: int) -> TooFew | None:
        if self.noise != "user":
            return self._few_at_node(num_users, users_for_cells(self.epsilon, self.delta))
        return too_noisy(self, num_users, self._shares.noise(num_users), USEFUL_SHARE, "a share")

    def synthetic(self, setting: Setting) -> ColumnUsers:
        """Return a population of users with columns of categories, from which plans are simulated.

        The planned error is the standard error of a share that a result states.
        """
        error = f"standard error of {self._share_of}'s share"
        judge = error_of_shares if self.noise != "user" else error_of_drawn_shares
        large = self._shares.is_large(setting.num_users)
        return column_users(self.schema, self._columns_asked, setting, error, judge, stand_in=large)


def columns_of(schema: Schema, argument: str, given: Any, fewest: int = 1) -> list[str]:
    """Return the columns that an argument names: a text, or several in a sequence or an array.

    Raise ValueError if they are fewer than ``fewest``, not distinct, or unknown.
    """
    listed = given.tolist() if hasattr(given, "tolist") else given
    names = [listed] if isinstance(listed, str) else listed
    texts = isinstance(names, Sequence) and all(isinstance(name, str) for name in names)
    if not texts or len(set(names)) < max(len(names), fewest):
        least = {1: "one", 2: "two"}[fewest]
        raise ValueError(
            f"Expected {argument} to name, of {schema.columns_read}, distinct columns, at least "
            f"{least}, got {given!r}."
        )
    for name in names:
        schema.kind(name, argument)
    return list(names)


def categories_of(schema: Schema, argument: str, column: str) -> list[str]:
    """Return the categories of ``column``; raise ValueError if it has none or too many.

    ``argument`` is the argument that named the column, for the error.
    """
    kind = schema.kind(column, argument)
    if not isinstance(kind, Categories):
        raise ValueError(f"Expected {argument} to be a column of categories, got {column!r}.")
    if len(kind.values) >= MOST_CELLS:
        raise ValueError(
            f"Expected {argument} of at most {MOST_CELLS - 1} categories, got "
            f"{len(kind.values)} in {column!r}: HeavyHitters is for more."
        )
    return [str(value) for value in kind.values]


def too_noisy(
    strategy: LdpStrategy[Any], num_users: int, variance: float, useful: float, what: str
) -> TooFew | None:
    """Return a TooFew if the standard error would exceed ``useful``, or None if it would not.

    The standard error is ``sqrt(variance / num_users)``; ``what`` names the estimate in the text.
    """
    if refusal := strategy._too_few(num_users):
        return refusal
    if (error := (variance / num_users) ** 0.5) <= useful:
        return None
    error_of = f"the standard error of {what} would be {error:.2g}"
    return hidden_by_noise(num_users, strategy.epsilon, error_of)


def hidden_by_noise(
    num_users: int, epsilon: float, lost: str, needed: int | None = None, advice: str = ""
) -> TooFew:
    """Return a TooFew for a run whose noise would be too large; ``lost`` says for what."""
    why = f"With {num_users:,} users at epsilon {epsilon:g} {lost}. Nobody has been asked."
    return TooFew(why, "noise", needed, advice=advice)
