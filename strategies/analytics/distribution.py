"""Distribution: a strategy that estimates the distribution of a column of numbers."""

import logging
import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Expectation, Setting, WouldRefuse
from ldp_flower.questions import Cell
from ldp_flower.randomizers import DiscreteSquareWave, NarrowSquareWave, RandomizedResponse
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..forecasts.columns import Columns, ColumnUsers, column_users, error_of_function
from ..forecasts.formulas import expected_function
from ..forecasts.populations import table_users
from ..numerics.density import (
    Counted,
    DistributionEstimates,
    Prior,
    draw_densities,
    linear_estimates,
)
from ..numerics.value_scale import ValueScale
from ..runtime import Answers, Ask, Card, Protocol, Run, TooFewReports, guarantees
from ..runtime.at_node import AtNode
from ..runtime.population import fewest_users
from ..runtime.prints import LATER
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
from .column_cells import ATOM, ColumnCells, cells_of
from .distribution_result import DistributionResult
from .group_distributions import GroupDistributionsResult
from .group_functions import GroupFunctions, audited_groups
from .groups import Groups

logger = logging.getLogger("flwr")

_EARLY = (0.1, 0.2)  # shares of the users in the first two rounds, which place the later cells
# Limits on the number of cells. Between them, a cell's share is about two standard errors of a
# share below a threshold.
_MIN_CELLS, _MAX_CELLS = 16, 96
# Limit on the square wave's window, as part of the cells. By its own rule the window is .51 at
# epsilon 1, which cannot resolve two modes. Largest error, mean over columns and worst column: five
# columns at epsilon 1 (seeds 100-129) .073 and .084; with .25, .072 and .084; without a limit, .094
# and .113. Ten columns at epsilon .5 with 16,300 users (seeds 100-114), in the same order: .062 and
# .098, .066 and .099, .088 and .136.
_MAX_WINDOW = 1 / 3
_DRAWS = 1000  # number of draws of all estimates' errors, and of pairs from the posterior
_CONFIDENCE = 0.95  # confidence level of the band from which standard errors are computed
# Largest standard error of a share below a threshold at which an estimate is still attempted.
_USEFUL = 0.1
# Privacy noise of a share below a threshold from which on the smooth posterior hides shapes. The
# largest errors of eleven columns were .12 at noise .0152, and up to .7 at .0177, with the square
# wave's own window.
_SHARP = 0.0155


@dataclass(kw_only=True, eq=False, repr=False)
class Distribution(AtNode, ColumnStrategy[DistributionResult]):
    """Strategy that estimates a column's distribution: histogram, quantiles, function, bands.

    Each user reports the cell of its entry through a randomizer that makes neighbouring cells
    nearly indistinguishable. In the first round, a tenth of the users report on cells that cover
    the bounds. The next fifth of the users reports on cells that are finer where many entries
    lie, and all remaining users report on cells that are refined again. The estimate is the
    posterior mean under a smooth density, from all reports. Bands and standard errors use unbiased
    estimates instead. They are valid for every shape, also with ties, gaps and several modes.

    All users have the same weight, however many rows they have: each draws a row at random and
    reports on it. Users with a missing value report that it is missing and do not affect the
    distribution.

    With noise at the node, all users count in histograms of several widths, by the shares of their
    rows. A first sum shows whether nearly all entries are multiples of a round step. If they are
    not, each bound has a separate cell.

    Other parameters are those of :class:`~.base.ColumnStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    column : str
        A column of numbers. It may be the target. Its bounds are public and need not be tight.
    by : str or sequence of str, optional
        A column of categories, which defines groups, or several columns. The result is then a
        :class:`GroupDistributionsResult`. The group of a user is that of the row that it draws.

    Raises
    ------
    TooFewReports
        Also after the first round, if too few of its users have an entry.

    Notes
    -----
    Sources: the square wave of Li et al. (2020), here over cells and with a window of at most a
    third of them (:class:`~ldp_flower.randomizers.NarrowSquareWave`); cells of equal mass as in
    Wang et al. (2024, PriPL-Tree). The posterior comes from
    :func:`~..numerics.density.draw_densities`. It is smooth along cells of equal mass, so that its
    resolution grows with the number of users. The bands come from
    :func:`~..numerics.density.linear_estimates` and use the last round's reports only. Up to 12 %
    of the users report whether their entries are multiples of a round step. If nearly all entries
    are, cells end between multiples, and the distribution function rises at the multiples only.
    Otherwise the bounds and 0 each get a separate cell.

    With groups, a tenth of the users report the cell of their entry, and the others report the pair
    of their group and of their entry's cell, in cells adapted to these first reports
    (:class:`~.group_functions.GroupFunctions`). No density is smoothed. The step of entries is
    estimated as without groups.
    """

    plans_with = frozenset({"rows_per_user"})
    guarantee = guarantees.PER_USER
    card = Card(
        question="the distribution of a column of numbers, with bands",
        guarantee="pure epsilon",
        rounds="3 or 4",
        report="1, of few users up to 13",
        use_when="a whole distribution or more than ten quantiles are wanted",
        fails_when="where many users share a value that is neither 0, a bound nor a multiple of "
        "one step; at epsilon 0.5 below 16,300 users",
        page="analytics",
    )

    column: str = field(kw_only=False)
    by: str | Sequence[str] | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column = NumericColumn.of(self.schema, self.column)
        self._groups = Groups.of(self.schema, self.by)
        self._functions = GroupFunctions(self.schema, self._column, self._groups, self.epsilon)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users, for an audit: on the distribution of a feature."""
        schema, users = table_users(max(dim, 2))
        yield cls(schema, "x1", epsilon=epsilon), users
        if dim > 3:
            schema, users = audited_groups(epsilon)
            yield cls(schema, "x", by="sort", epsilon=epsilon), users

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol for a column."""
        return cls(Schema({"column": Numeric(0, 1)}), "column", epsilon=epsilon)

    def _asked(self, run: Run) -> Protocol:
        """Ask for equal cells, then twice for cells of equal mass; return the distribution."""
        if self.by is not None:
            return (yield from self._of_groups(run))
        if self.noise != "user":
            return (yield from self._of_nodes(run))
        notes = self._notes(run.num_users)
        for note in notes:
            logger.warning(note)
        step = (yield from learn_step(run, self._column)).step
        kind = self._column.kind
        places = np.linspace(0, 1, 1 + self._cells(run.num_users))
        edges = ValueScale(kind.low, kind.high).values(places)
        cells = cells_of(self._column, edges, step)
        early = [max(round(part * run.num_users), self.min_reports) for part in _EARLY]
        counted = yield from self._counted(run, early[0], cells)
        reports = [(counted, cells)]
        draws = draw_densities([counted], Prior(cells.uniform, cells.atoms), _normals(cells.edges))
        held, _ = linear_estimates(counted, draws.mean(axis=1), _normals(cells.edges)).held
        if self._noise(run.num_users) > _USEFUL * held:
            raise TooFewReports(
                TooFew(_STOPPED.format(max(held, 0.0), self.column, run.num_unasked), "data")
            )
        for users in (*early[1:], None):
            sketch, before = _below(draws).mean(axis=1), cells
            cells = cells_of(self._column, before.divided(sketch, places), step)
            likely = cells.likely(before, draws.mean(axis=1))
            prior = Prior(cells.uniform, cells.atoms, cells.coordinates(before.edges, sketch))
            counted = yield from self._counted(run, users or run.num_unasked, cells)
            reports.append((counted, cells))
            draws = draw_densities(
                [each.given_cells(counts, cells) for counts, each in reports],
                prior,
                _normals(cells.edges),
            )
        linear = linear_estimates(counted, likely, _normals(cells.edges))
        return self._result(cells.edges, draws, linear, step, notes)

    def _of_groups(self, run: Run) -> Generator[Ask, Any, GroupDistributionsResult]:
        """Ask all users for their cells, and return the distributions of all groups."""
        functions, step = yield from self._functions.ask(run, self.delta)
        restore = self._column.kind.restore
        return GroupDistributionsResult(
            column=self.column,
            groups=self._groups.names,
            keys=self._groups.keys,
            results=[
                self._result_of(replace(each, edges=restore(each.edges)), step)
                for each in functions
            ],
            notes=self._functions.notes(functions),
        )

    def _of_nodes(self, run: Run) -> Generator[Ask, Any, DistributionResult]:
        """Ask all users for a tree of noisy histograms, and return the distribution."""
        kind = self._column.kind
        place = self._column.coordinates
        budget = Budget.of(run, self.delta)
        step = yield from learn_step_at_node(budget, self._column, STEP_SHARE)
        found = yield from ask_function(budget, place, kind.ends, 1 - STEP_SHARE)
        found = replace(found, edges=kind.restore(found.edges))
        result = self._result_of(found, step)
        self._note_few_entries(result.linear, result.notes)
        return result

    def _result_of(self, found: Function, step: float | None) -> DistributionResult:
        """Return the result for a distribution function, moved to the column's own units."""
        if step is not None:
            found = found.at_multiples(step)
        linear = found.linear(_normals(found.edges)[:-1])
        edges = found.edges.copy()
        if step is None:
            edges[0] -= ATOM * self._column.span  # the first cell holds the lower bound
        return DistributionResult(
            column=self.column,
            edges=edges,
            below=np.clip(found.below, *linear.band(_CONFIDENCE, len(edges))),
            covariance=found.covariance + found.sampling,
            linear=linear,
            without_entry=max(1 - found.present, 0.0),
            step=step,
        )

    def _counted(
        self, run: Run, users: int, cells: "ColumnCells"
    ) -> Generator[Ask, Answers, Counted]:
        """Query ``users`` users for their cells, and return how many reports support each cell."""
        column, number = self._column, len(cells.edges) - 1
        oracle, apart = self._oracle(number)
        # a value that equals an edge belongs to the cell below the edge
        ends = column.standardised(cells.edges[1:-1] + ATOM * column.span / 2)
        beyond = column.standardised(column.kind.high) + np.arange(1, apart + 1)
        question = Cell(column.coordinates, np.concatenate([ends, beyond]))
        answer = yield Ask(run.cohorts([users])[0], question, oracle)
        counts = np.bincount(answer.reports.astype(np.int64), minlength=oracle.num_reports)
        law = np.delete(oracle.law_of_reports(), number + np.arange(apart), axis=1)
        return Counted(law, counts.astype(np.float64))

    def _oracle(self, cells: int) -> tuple[NarrowSquareWave, int]:
        """Return the mechanism, and the number of empty cells before the cell of missing values.

        Without empty cells, a missing value would look like a high entry. Half a window of empty
        cells gives averages the least variance.
        """
        widest = DiscreteSquareWave(self.epsilon, cells + 1).window
        window = min(widest, max(1, round(_MAX_WINDOW * cells)))
        apart = -(-window // 2)
        return NarrowSquareWave(self.epsilon, cells + apart + 1, window), apart

    def _error(self, num_users: int) -> float:
        """Return the standard error of the share below a threshold, if all users report on it."""
        return math.sqrt(RandomizedResponse(self.epsilon).variance / 4 / num_users)

    def _noise(self, num_users: int) -> float:
        """Return the part of the standard error of :meth:`_error` that is due to randomisation."""
        return math.sqrt((RandomizedResponse(self.epsilon).variance - 1) / 4 / num_users)

    def _notes(self, num_users: int) -> list[str]:
        """Return notes for a result: warnings if the users are enough, but few."""
        enough = math.ceil((self._noise(1) / _SHARP) ** 2)
        if num_users < enough:
            return [_BLUNT.format(num_users, self.epsilon, enough)]

        def unasked(users: int) -> bool:
            return users_for_step_estimate(self, self._column, users) is None

        if not unasked(num_users):
            return []
        return [_UNROUNDED.format(num_users, self.epsilon, fewest_users(unasked, num_users))]

    def _cells(self, num_users: int) -> int:
        """Return the number of equal cells that users are asked about in the first round."""
        return min(max(round(1 / (2 * self._error(num_users))), _MIN_CELLS), _MAX_CELLS)

    def _refusal(self, num_users: int) -> TooFew | None:
        if self.noise != "user":
            needed = users_for_ranks(self.epsilon, self.delta, _USEFUL)
            return self._few_at_node(num_users, len(self._groups.names) * needed)
        if self.by is not None:
            return self._too_few(num_users) or self._functions.refusal(num_users)
        needed = math.ceil(max(self._error(1) ** 2 / _USEFUL**2, self.min_reports / _EARLY[0]))
        if num_users >= needed or num_users < self.min_reports:
            return self._too_few(num_users)
        lost = "little of a distribution can be estimated"
        return hidden_by_noise(num_users, self.epsilon, lost)

    def synthetic(self, setting: Setting) -> ColumnUsers | None:
        """Return a population of users with the column, from which plans are simulated.

        The planned error is the largest one of the distribution function. Return None if plans use
        a formula.
        """
        if self.noise == "user" and self.by is None:
            return None
        error = "largest error of the distribution function"
        names = [self.column, *self._groups.columns]
        judge = error_of_function if self.by is None else _error_of_functions
        return column_users(self.schema, names, setting, error, judge, stated=False)

    def expect(self, setting: Setting) -> Expectation:
        """Return the expected largest error of the distribution function."""
        if refusal := self.refusal(setting.num_users):
            raise WouldRefuse(refusal)
        users = setting.num_users
        step = users_for_step_estimate(self, self._column, users)
        oracle, _ = self._oracle(self._cells(users))
        rounds, randomizers = 3 + (step is not None), (oracle, *([step[0]] if step else []))
        return expected_function(
            *(self.epsilon, users, setting.rows_per_user), rounds, randomizers, self._notes(users)
        )

    def _result(
        self,
        edges: Floats,
        draws: Floats,
        linear: DistributionEstimates,
        step: float | None,
        notes: list[str],
    ) -> DistributionResult:
        """Return the result; ``draws`` are draws from the posterior, with the linear estimates.

        ``edges`` are those of the cells, and ``step`` is that of the entries, if there is one.
        """
        below = _below(draws)
        lower, upper = linear.band(_CONFIDENCE, len(edges))
        within = (upper - lower) / 2 / np.quantile(linear.deviations, _CONFIDENCE)
        covariance = np.cov(below)
        wider = np.maximum(within / np.sqrt(np.maximum(np.diag(covariance), 1e-300)), 1.0)
        self._note_few_entries(linear, notes)
        return DistributionResult(
            column=self.column,
            edges=edges,
            below=np.clip(below.mean(axis=1), lower, upper),
            covariance=covariance * np.outer(wider, wider),
            linear=linear,
            without_entry=float(draws[-1].mean()),
            step=step,
            notes=notes,
        )

    def _note_few_entries(self, linear: DistributionEstimates, notes: list[str]) -> None:
        """Add a note if few users have an entry."""
        held, error = linear.held[0], math.sqrt(linear.held[1])
        if held < 3 * error:
            notes.append(_HARDLY_ANY.format(self.column))
        elif held < _FEW:
            notes.append(_FEW_ENTRIES.format(held, error, self.column, 1 / held))


def _error_of_functions(result: Any, columns: Columns) -> float:
    """Return the largest error of the groups' distribution functions in a simulated result."""
    return max(error_of_function(result.of(group), columns) for group in result.groups)


_BLUNT = (
    "{:,} users are few for epsilon {:g}: a smooth density hides narrow shapes, and shares may be "
    "off by more than .1, within the band. From {:,} users on, errors are seldom above .1."
)
_UNROUNDED = (
    "{:,} users are too few at epsilon {:g} to ask some of them how round their entries are: a "
    "value that many users share looks like a narrow hump, beside which shares may be off by more "
    "than .5, within the band. From {:,} users on they are asked."
)
_STOPPED = (
    "About {:.0%} of the users have an entry in {!r}, too few for a distribution. "
    "The other {:,} users have not been asked. Texts, such as dates or '1,5', are no numbers."
)
_HARDLY_ANY = (
    "The share of users with an entry in {!r} is not clearly above 0. If hardly any user has one, "
    "the distribution is nothing but noise."
)
_FEW = 0.25  # share of users with an entry below which a note says that errors are large
_FEW_ENTRIES = (
    "Only {:.0%} ± {:.0%} of the users have an entry in {!r}: errors are {:.0f} times as large as "
    "in a column in which all users have entries."
)


def _normals(edges: Floats) -> Floats:
    """Return fixed standard normal numbers for draws, shape (cells + 1, 1000).

    The additional row is for the share of users without an entry.
    """
    draws = np.arange(_DRAWS, dtype=np.uint64)
    return KeyedRandom(derive(0, draws)).normals((len(draws), len(edges))).T


def _below(draws: Floats) -> Floats:
    """Return the share of users below each edge, among users with an entry.

    The shape is (cells + 1, draws).
    """
    below = np.vstack([np.zeros(draws.shape[1]), np.cumsum(draws[:-1], axis=0)])
    return np.asarray(below / below[-1])
