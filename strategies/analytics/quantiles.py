"""Quantiles: a strategy that searches a few quantiles of a column of numbers in rounds."""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Expectation, Setting, WouldRefuse
from ldp_flower.questions import Cell, SharesBelow
from ldp_flower.randomizers import (
    KRandomizedResponse,
    RandomizedResponse,
    Randomizer,
    SampledCoordinate,
)
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..forecasts.columns import ColumnUsers, column_users, error_of_ranks
from ..forecasts.formulas import expected_quantiles
from ..forecasts.populations import table_users
from ..numerics.value_scale import ValueScale, multiples_within, roundest, scales_within
from ..runtime import Ask, Card, Protocol, Run, guarantees
from ..runtime.at_node import AtNode
from ..runtime.prints import LATER
from ..runtime.result import HALF_WIDTH_95
from ..subprotocols.cell_search import FoundQuantile, edges_of, search_by_cells
from ..subprotocols.shares import FIRST, SPREAD, search_by_thresholds
from ..sums.budget import Budget
from ..sums.tree import Function, ask_function, users_for_ranks
from .base import ColumnStrategy, hidden_by_noise
from .column import (
    STEP_SHARE,
    NumericColumn,
    learn_step,
    learn_step_at_node,
    users_for_step_estimate,
)
from .group_functions import GroupFunctions, audited_groups
from .groups import Groups
from .quantiles_result import QuantilesResult

# Number of rounds, and growth of their size from one to the next, with bits and with cells. Later
# rounds have better thresholds, so they are larger. With four rounds of cells, each twice as large,
# the error for 10,000 users was 2 times as large.
_BIT_ROUNDS, _CELL_ROUNDS = (8, 1.4), (5, 1.7)
# Users report cells if the variance is at most this multiple of the variance with bits, for one
# level and for several. A cell informs about both ends of an interval and about all levels, a bit
# about one end of one level. With three levels at epsilon 1.5, where the multiple is 3.4, intervals
# of 4,000 users were .74 times as wide as with bits, and errors half as large.
_CELLS_ONE, _CELLS_SEVERAL = 2.0, 3.5
_MAX_LEVELS = 99
_RANK_AT_NODE = 0.05  # largest error in rank by noise at which a run still starts
_PLANNED = (0.25, 0.5, 0.75)
# An estimate moves to a round number by at most this many standard errors.
_ROUNDED = 0.1
_MIN_Z = 2.0  # smallest distance of a level from 0 and 1, in standard errors of its rank
# Largest standard error of a rank. At this limit one quartile in ten may still lie nearly anywhere
# within the bounds at epsilon 1 and 2, and none at 4; with .125, every other quartile.
_MOST_ERROR = 0.05


class _Reports(NamedTuple):
    """Kind of the users' reports, and the resulting precision."""

    cells: bool  # True if users report cells, False if they report bits
    noise: float  # variance that the randomizer adds to a share, per report
    parts: int  # number of equal parts into which the quantiles split the users

    def error(self, level: float, users: int) -> float:
        """Return the standard error of the share of users below a quantile's estimate.

        ``users`` is the number of all users; the quantile at ``level`` gets its part of them.
        """
        return math.sqrt((self.noise + level * (1 - level)) * self.parts / users)

    def needed(self, levels: Sequence[float]) -> int:
        """Return the number of users needed to find all quantiles within the column's bounds."""
        least = (
            (self.error(each, 1) / min(min(each, 1 - each) / _MIN_Z, _MOST_ERROR)) ** 2
            for each in levels
        )
        return math.ceil(max(least))


@dataclass(kw_only=True, eq=False, repr=False)
class Quantiles(AtNode, ColumnStrategy[QuantilesResult]):
    """Strategy that estimates a few quantiles of a column, with distribution-free intervals.

    Every user reports once: at a large epsilon the cell of its entry, otherwise one bit that
    compares the entry with a threshold. Early rounds query few users, with thresholds all over the
    bounds. Later rounds query more users, with thresholds nearer to the quantiles. With bits, each
    of k quantiles has ``1 / k`` of the users.

    All users have the same weight, however many rows they have: a quantile is that of a random
    entry of a random user. Users with missing values do not affect the quantiles.

    Other parameters are those of :class:`~.base.ColumnStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    column : str
        A column of numbers. It may be the target. Its bounds are public and need not be tight.
    levels : sequence of float
        Levels of the quantiles, that is, the shares of the users below them: at most 99 distinct
        numbers within (0, 1).
    by : str or sequence of str, optional
        A column of categories, which defines groups, or several columns. The group of a user is
        that of the row that it draws.

    Notes
    -----
    At a large epsilon (from 1.5 on for three levels, 2.2 for one), unless there are too few users,
    every user reports its entry's cell, or that the entry is missing, through k-ary randomised
    response. The cells end within the intervals that earlier rounds found for the quantiles. So
    each report informs about both ends of all intervals. See
    :func:`~..numerics.cell_quantiles.estimated`.

    Otherwise a report is one bit about one threshold of one quantile. This is a noisy binary search
    with monotonic probabilities, Gretta & Price (2023); Aamand et al. (2025) apply it under local
    privacy. Thresholds lie on both sides of the estimate of a posterior
    (:func:`~..numerics.quantile_posterior.crossing_posterior`). A user with a missing value reports
    "below" with the probability of the level sought. At the quantile, this is also the share of
    "below" among the other users. In the first round these users report 0 or 1, as the question
    says, which estimates their number. The lower limit of a quantile's error in rank is
    ``sqrt(e^eps / (e^eps - 1)^2 / n)``; it would be reached if all n users were queried about the
    right threshold.

    Intervals are inverted from tests that assume monotonicity only, so they are valid with ties,
    gaps and steps. With bits they are some three times as wide as those of a known density. Up to
    12 % of the users report whether their entries are multiples of a round step. If nearly all
    entries are, estimates and ends of intervals are multiples of the step.

    With groups, a tenth of the users report the cell of their entry, and the others report the pair
    of their group and of their entry's cell, in cells adapted to these first reports
    (:class:`~.group_functions.GroupFunctions`). The step of entries is estimated as without groups.
    An interval ends at edges of cells.
    """

    plans_with = frozenset({"rows_per_user"})
    guarantee = (
        guarantees.USER,
        f"{guarantees.ASKED_ONCE} A report is one bit, one cell or, from users who are asked how "
        "round their entries are, one set of steps.",
        guarantees.ENFORCED,
    )
    card = Card(
        question="a few quantiles of a column of numbers, in its units",
        guarantee="pure epsilon",
        rounds="5-9, of few users fewer",
        report="1, of few users up to 13",
        use_when="medians, quartiles or percentiles are wanted",
        fails_when="with many quantiles at a small epsilon: 9 have 3 times the error of one",
        page="analytics",
    )

    column: str = field(kw_only=False)
    levels: Sequence[float] = field(kw_only=False)
    by: str | Sequence[str] | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column = NumericColumn.of(self.schema, self.column)
        self._groups = Groups.of(self.schema, self.by)
        self._functions = GroupFunctions(self.schema, self._column, self._groups, self.epsilon)
        self.levels = _level_tuple(self.levels)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: on two quantiles, and on a median."""
        schema, users = table_users(max(dim, 2))
        yield cls(schema, "x1", [0.25, 0.75], epsilon=epsilon), users
        yield cls(schema, "y", [0.5], epsilon=epsilon), users
        if dim > 3:
            schema, users = audited_groups(epsilon)
            yield cls(schema, "x", [0.5], by="sort", epsilon=epsilon), users

    def _asked(self, run: Run) -> Protocol:
        """Estimate the entries' step, then search all quantiles at once; return the quantiles."""
        if self.by is not None:
            return (yield from self._of_groups(run))
        if self.noise != "user":
            budget = Budget.of(run, self.delta)
            step = yield from learn_step_at_node(budget, self._column, STEP_SHARE)
            function = yield from self.function(budget, 1 - STEP_SHARE)
            return self.of_function(function, step)
        entries = yield from learn_step(run, self._column)
        kind, users = self._column.kind, run.num_unasked
        reports = self._reports(run.num_users)
        cohorts = run.cohorts(self._sizes(reports, users))
        if reports.cells:
            scale = ValueScale(kind.low, kind.high)
            found = yield from search_by_cells(
                cohorts, self.levels, scale, entries.step, self.epsilon, self._cell
            )
        else:
            errors = [reports.error(level, users) for level in self.levels]
            scales, part = scales_within(kind.low, kind.high), RandomizedResponse(self.epsilon)
            found = yield from search_by_thresholds(
                cohorts, self.levels, errors, scales, part, self._bit
            )
        result = self._estimated(found, entries.step, reports.noise)
        if entries.hardly_any:
            result.notes = [_HARDLY_ANY.format(self.column)]
        return result

    def _of_groups(self, run: Run) -> Protocol:
        """Estimate the distribution functions of all groups, and return their quantiles."""
        functions, step = yield from self._functions.ask(run, self.delta)
        found = [self.of_function(function, step) for function in functions]
        hidden = np.repeat([function.is_hidden for function in functions], len(self.levels))
        values, error, lower, upper, noise = (
            np.where(hidden, nothing, np.concatenate([getattr(each, name) for each in found]))
            for name, nothing in (
                *(("values", np.nan), ("std_error", np.inf), ("lower", np.nan)),
                *(("upper", np.nan), ("users_std_error", np.inf)),
            )
        )
        return QuantilesResult(
            column=self.column,
            levels=np.tile(self.levels, len(found)),
            values=values,
            std_error=error,
            lower=lower,
            upper=upper,
            users_std_error=None if self.noise == "user" else noise,
            step=step,
            keys={
                name: np.repeat(categories, len(self.levels)).tolist()
                for name, categories in self._groups.keys.items()
            },
            notes=self._functions.notes(functions),
        )

    def function(self, budget: Budget, share: float = 1.0) -> Generator[Ask, Any, Function]:
        """Ask all users for noisy sums, and return the distribution function.

        The sums spend ``share`` of the budget.
        """
        ends = self._column.kind.ends
        return (yield from ask_function(budget, self._column.coordinates, ends, share))

    def of_function(self, function: Function, step: float | None = None) -> QuantilesResult:
        """Return the quantiles of a distribution function from noisy sums over nodes.

        ``step`` is the number of which nearly all entries are multiples, if there is one.
        """
        levels = np.array(self.levels)
        kind = self._column.kind
        if step is None:
            values, lower, upper = kind.restore(function.quantiles(self.levels, HALF_WIDTH_95).T)
        else:
            rising = replace(function, edges=kind.restore(function.edges)).at_multiples(step)
            values, lower, upper = rising.quantiles(self.levels, HALF_WIDTH_95).T
            ends = [multiples_within(*each, step) for each in zip(lower, upper, strict=True)]
            lower, upper = np.array(ends).T
            values = np.clip(np.round(values / step) * step, lower, upper)
        error = np.maximum(upper - values, values - lower) / HALF_WIDTH_95
        return QuantilesResult(
            column=self.column,
            levels=levels,
            values=values,
            std_error=error,
            users_std_error=function.part_of_noise(levels) * error,
            lower=lower,
            upper=upper,
            step=step,
            notes=[_HARDLY_ANY.format(self.column)] if function.is_hidden else [],
        )

    def _cell(self, edges: Floats) -> Cell:
        """Return the question for the entry's cell among those between these edges."""
        return Cell(self._column.coordinates, self._column.standardised(edges))

    def _bit(self, thresholds: Floats, asked: Floats) -> SharesBelow:
        """Return the question that compares entries with thresholds.

        ``asked`` are the answers of users with missing values: probabilities of "below".
        """
        return SharesBelow(self._column.coordinates, self._column.standardised(thresholds), asked)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol for the quartiles of a column."""
        return cls(Schema({"column": Numeric(0, 1)}), "column", _PLANNED, epsilon=epsilon)

    def synthetic(self, setting: Setting) -> ColumnUsers | None:
        """Return a population of users with the column, from which plans are simulated.

        The planned error is the root mean square of the quantiles' errors, as shares of users.
        """
        if self.noise == "user" and self.by is None:
            return None
        many = ", root mean square of all" if len(self.levels) > 1 else ""
        error = f"rank error of a quantile{many}"
        return column_users(
            *(self.schema, [self.column, *self._groups.columns], setting, error, error_of_ranks),
            stated=False,
        )

    def expect(self, setting: Setting) -> Expectation:
        """Return the expected error: root mean square over quantiles, as a share of users."""
        if refusal := self.refusal(setting.num_users):
            raise WouldRefuse(refusal)
        step = users_for_step_estimate(self, self._column, setting.num_users)
        users = setting.num_users - (step[1] if step else 0)
        reports = self._reports(setting.num_users)
        sizes = self._sizes(reports, users)
        own: Randomizer = self._oracle
        if not reports.cells:
            later = len(SPREAD) * len(self.levels) if len(sizes) > 1 else 0
            own = SampledCoordinate(RandomizedResponse(self.epsilon), max(2 * FIRST, later))
        rounds, randomizers = len(sizes) + (step is not None), [own, *([step[0]] if step else [])]
        asked = self.levels, users, setting.rows_per_user
        return expected_quantiles(randomizers, reports.noise, reports.parts, *asked, rounds)

    @property
    def _oracle(self) -> KRandomizedResponse:
        """Frequency oracle of the cells around all quantiles, and of a cell for missing values."""
        edges = len(self.levels) * edges_of(len(self.levels), self.epsilon)
        return KRandomizedResponse(self.epsilon, edges + 2)

    def _reports(self, users: int) -> _Reports:
        """Return the kind of reports to use: cells, if they are more precise and users suffice."""
        oracle, bit = self._oracle, RandomizedResponse(self.epsilon).variance / 4
        number = len(self.levels)
        # worst case: a report supports a share of about one half
        cell = 0.25 / float(oracle.own - oracle.other) ** 2
        cells, bits = _Reports(True, cell - 0.25, 1), _Reports(False, bit - 0.25, number)
        better = cell <= (_CELLS_ONE if number == 1 else _CELLS_SEVERAL) * number * bit
        return cells if better and users >= cells.needed(self.levels) else bits

    def _refusal(self, num_users: int) -> TooFew | None:
        """Return a TooFew if the users are too few to find the quantiles, or None."""
        if self.noise != "user":
            needed = users_for_ranks(self.epsilon, self.delta, _RANK_AT_NODE)
            return self._few_at_node(num_users, len(self._groups.names) * needed)
        if self.by is not None:
            return self._too_few(num_users) or self._functions.refusal(num_users)
        needed = self._reports(num_users).needed(self.levels)
        if num_users >= needed or num_users < self.min_reports:
            return self._too_few(num_users)
        lost = "a quantile may lie nearly anywhere within the bounds"
        advice = "Fewer and less extreme levels need fewer."
        return hidden_by_noise(num_users, self.epsilon, lost, advice=advice)

    def _sizes(self, reports: _Reports, users: int) -> list[int]:
        """Return the number of users in each round."""
        most, growth = _CELL_ROUNDS if reports.cells else _BIT_ROUNDS
        least = self.min_reports if reports.cells else max(self.min_reports, 2 * FIRST)
        for rounds in range(most, 1, -1):
            shares = growth ** np.arange(rounds)
            ends = np.floor(np.cumsum(shares / shares.sum()) * users).astype(int)
            ends[-1] = users
            sizes: list[int] = np.diff(ends, prepend=0).tolist()
            if min(sizes) >= least:
                return sizes
        return [users]

    def _estimated(
        self, found: list[FoundQuantile], step: float | None, noise: float
    ) -> QuantilesResult:
        """Return the quantiles in the column's units."""
        rows = []
        for level, (value, lower, upper, shared) in zip(self.levels, found, strict=True):
            if step is not None:
                lower, upper = multiples_within(lower, upper, step)
                value = min(max(round(value / step) * step, lower), upper)
            else:  # round within the part of the error that is due to randomisation
                part = math.sqrt(noise / (noise + level * (1 - level)))
                moved = _ROUNDED * part * (upper - lower) / 2 / HALF_WIDTH_95
                reach = (lower, upper) if shared else (value - moved, value + moved)
                value = roundest(max(reach[0], lower), min(reach[1], upper), value)
            rows.append((value, lower, upper))
        table = np.sort(np.array(rows), axis=0)  # quantiles must increase with their levels
        order = np.argsort(np.argsort(self.levels))
        values, lower_ends, upper_ends = table[order].T
        kind = self._column.kind
        wide = upper_ends - lower_ends > (kind.high - kind.low) / 2
        return QuantilesResult(
            column=self.column,
            levels=np.array(self.levels),
            values=values,
            std_error=np.maximum(upper_ends - values, values - lower_ends) / HALF_WIDTH_95,
            lower=lower_ends,
            upper=upper_ends,
            step=step,
            notes=[_WIDE.format(self.column, level) for level in np.array(self.levels)[wide]],
        )


_HARDLY_ANY = (
    "The share of users with an entry in {!r} is not clearly above 0. If hardly any user has one, "
    "the quantiles are nothing but noise. Texts, such as dates or '1,5', are no numbers."
)
_WIDE = (
    "The quantile of {!r} at {:g} may lie nearly anywhere within the bounds: more users or a "
    "larger epsilon are needed."
)


def _level_tuple(levels: object) -> tuple[float, ...]:
    """Return the levels as a tuple; raise ValueError if they are invalid."""
    given = np.asarray(levels)
    if given.ndim != 1 or given.dtype.kind not in "iuf" or not 1 <= len(given) <= _MAX_LEVELS:
        raise ValueError(f"Expected levels to be 1 to {_MAX_LEVELS} numbers, got {levels!r}.")
    for level in given.tolist():
        if not 0 < level < 1:
            raise ValueError(f"Expected levels within (0, 1), got {level!r}.")
    if len(np.unique(given)) < len(given):
        raise ValueError(f"Expected distinct levels, got {levels!r}.")
    return tuple(float(level) for level in given)
