"""Quantiles: a few quantiles of a column of numbers, by a search that asks one bit of each user."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Expectation, Setting
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import counted, to_error
from ldp_flower.questions import Cell, SharesBelow
from ldp_flower.randomizers import (
    KRandomizedResponse,
    RandomizedResponse,
    Randomizer,
    SampledCoordinate,
)
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..forecasts.formulas import expected_quantiles
from ..forecasts.populations import table_users
from ..numerics.value_scale import ValueScale, multiples_within, roundest, scales_within
from ..runtime import Card, Protocol, Run, guarantees
from ..runtime.result import NORMAL, Estimates, Result, frame
from ..subprotocols.cell_search import FoundQuantile, edges_of, search_by_cells
from ..subprotocols.shares import FIRST, SPREAD, search_by_thresholds
from .base import ColumnStrategy
from .column import NumericColumn, learn_step, users_for_step_estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class QuantilesResult(Result):
    """Quantiles of a column, in its units.

    Attributes
    ----------
    column : str
        Name of the column.
    levels : ndarray of float64, shape (k,)
        The shares of the users that the quantiles have below them.
    values : ndarray of float64, shape (k,)
        The quantiles. They are round numbers where that makes less of a difference than noise.
    std_error : ndarray of float64, shape (k,)
        What makes 1.96 of them reach the further end of the interval. 0 where many users share
        one value, and nothing else is in the interval.
    lower, upper : ndarray of float64, shape (k,)
        Ends of 95 % intervals, which need not lie alike on both sides: values that tests of the
        reports at thresholds do not reject. They hold whatever the distribution, with ties, gaps
        and steps: where nobody has an entry, they span the gap.
    step : float or None
        What nearly all entries are multiples of, where that was seen.
    """

    column: str
    levels: Floats
    values: Floats
    std_error: Floats
    lower: Floats
    upper: Floats
    step: float | None = None

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.levels, self.values])

    def table(self) -> "DataFrame":
        """Return the quantiles in the order asked for.

        Returns
        -------
        DataFrame
            ``quantile``, in percent of the users; the column's name, ``standard error``, ``lower``
            and ``upper``, in the column's units.
        """
        return frame(
            {
                "quantile": [f"{100 * level:.6g} %" for level in self.levels],
                self.column: self.values,
                "standard error": self.std_error,
                "lower": self.lower,
                "upper": self.upper,
            }
        )

    def estimates(self) -> Estimates:
        """Return the quantiles, for a series of collections."""
        names = [f"{self.column} {100 * level:.6g} %" for level in self.levels]
        return Estimates(names, self.values, self.std_error)

    @property
    def _height(self) -> float:
        return charts.height_of(len(self.levels))

    def _draw(self, axes: "Axes") -> None:
        places = np.arange(len(self.levels))
        spans = [self.values - self.lower, self.upper - self.values]
        axes.errorbar(self.values, places, xerr=spans, fmt="o", ms=4, lw=1.5, color=charts.GREEN)
        axes.set_yticks(places, [f"{level:.4g}" for level in self.levels])
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.set_ylabel("share below")
        axes.set_xlabel(f"{charts.label(self.column)}, with 95 % intervals")

    def _findings(self) -> list[str]:
        rows = zip(self.levels, self.values, self.lower, self.upper, strict=True)
        return [
            f"{level:.4g} of {self.column} is below {to_error(value, (upper - lower) / 4)} "
            f"(95 % interval {to_error(lower, (upper - lower) / 4)} to "
            f"{to_error(upper, (upper - lower) / 4)})"
            for level, value, lower, upper in rows
        ]


# Rounds and how they grow in users, by bits and by cells: the better the thresholds, the more are
# asked. Four rounds of cells, each twice as large, had 2 times the error for 10,000 users.
_BIT_ROUNDS, _CELL_ROUNDS = (8, 1.4), (5, 1.7)
# Times the variance of bits that cells of one and of several levels may have. A cell is about both
# ends, a bit about one; all levels share users: of three at epsilon 1.5, where it is 3.4 times,
# 4,000 users' intervals were .74 times as wide as by bits, and errors half as large.
_CELLS_ONE, _CELLS_SEVERAL = 2.0, 3.5
_MAX_LEVELS = 99
_PLANNED = (0.25, 0.5, 0.75)
_ROUNDED = 0.1  # standard errors that an estimate is moved to a round number
_MIN_Z = 2.0  # standard errors in rank that a level has to be from 0 and 1
# The largest standard error in rank: with it one quartile in ten may still lie nearly anywhere
# within the bounds at epsilon 1 and 2, and none at 4; with .125 every other one.
_MOST_ERROR = 0.05


class _Reports(NamedTuple):
    """Whether users report cells, the variance this adds to a share, and parts of the users."""

    cells: bool
    noise: float
    parts: int

    def error(self, level: float, users: int) -> float:
        """Return the error of a share of which a quantile's part of the users reports."""
        return math.sqrt((self.noise + level * (1 - level)) * self.parts / users)

    def needed(self, levels: Sequence[float]) -> int:
        """Return how many users distinguish all quantiles from the bounds, and tell where."""
        least = (
            (self.error(each, 1) / min(min(each, 1 - each) / _MIN_Z, _MOST_ERROR)) ** 2
            for each in levels
        )
        return math.ceil(max(least))


@dataclass(kw_only=True, eq=False, repr=False)
class Quantiles(ColumnStrategy[QuantilesResult]):
    """A few quantiles of one column, with intervals that hold whatever the distribution.

    Every user reports once: at a large epsilon the cell that its entry lies in, otherwise one bit,
    whether it is above a threshold. Few are asked at first, all over the bounds; the more is known,
    the more are asked, nearer to the quantiles. Of bits each of k quantiles has ``1 / k``.

    All users weigh the same, however many rows they have: a quantile is that of an entry drawn
    at random from a user drawn at random. Who has no entry in the column counts in nothing.

    Other parameters are those of :class:`~.base.ColumnStrategy`.

    Parameters
    ----------
    column : str
        A column of numbers, the target included. Its bounds are public, and may be generous.
    levels : sequence of float
        What shares of the users the quantiles have below them, distinct, within (0, 1); at most 99.

    Notes
    -----
    At a large epsilon (from 1.5 on for three levels, 2.2 for one), unless users are too few, every
    user reports, by k-ary randomised response, in which cell its entry lies, or that it has none.
    Cells end within the intervals that former rounds leave of all quantiles, so that each user
    informs about both ends of all. See :func:`~..numerics.cell_quantiles.estimated`.

    Otherwise one bit is about one threshold of one quantile: noisy binary search with monotonic
    probabilities, Gretta & Price (2023); Aamand et al. (2025) for its use under local privacy.
    Thresholds come on both sides of what a posterior (:func:`~..numerics.crossing.believed`)
    estimates. Users without an entry report "below" with the probability of the level sought: at
    the quantile of all others that is what these do together. In the first round they report 0 or
    1 as they are asked, which estimates how many they are. The limit of a quantile's error in
    rank, ``sqrt(e^eps / (e^eps - 1)^2 / n)``, is that of all n users asked at the right threshold.

    Intervals come by inversion of tests, which need monotonicity alone: they hold with ties, gaps
    and steps. Those of bits are some three times as wide as those of a known density. Where up to
    5 % of the users say that nearly all entries are multiples of a step, estimates and ends are
    multiples.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column = NumericColumn.of(self.schema, self.column)
        self.levels = _checked(self.levels)
        RandomizedResponse(self.epsilon)  # refuses a bad epsilon now

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield quantiles of a feature, and of the target where all users have the same."""
        schema, users = table_users(max(dim, 2))
        yield cls(schema, "x1", [0.25, 0.75], epsilon=epsilon), users
        yield cls(schema, "y", [0.5], epsilon=epsilon), users

    def _asked(self, run: Run) -> Protocol:
        """Search all quantiles at once."""
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

    def _cell(self, edges: Floats) -> Cell:
        """Return the question for the cell of an entry."""
        return Cell(self._column.coordinates, self._column.standardised(edges))

    def _bit(self, thresholds: Floats, asked: Floats) -> SharesBelow:
        """Return the question whether entries are at most a threshold."""
        return SharesBelow(self._column.coordinates, self._column.standardised(thresholds), asked)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol for the quartiles of a column."""
        return cls(Schema({"column": Numeric(0, 1)}), "column", _PLANNED, epsilon=epsilon)

    def _expected(self, setting: Setting) -> Expectation:
        """Return the errors of the quantiles in rank, their root mean square."""
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
        """Of the cells around all levels, and for who has no entry."""
        edges = len(self.levels) * edges_of(len(self.levels), self.epsilon)
        return KRandomizedResponse(self.epsilon, edges + 2)

    def _reports(self, users: int) -> _Reports:
        """Return whether users report cells: if these inform more, and users are not too few."""
        oracle, bit = self._oracle, RandomizedResponse(self.epsilon).variance / 4
        number = len(self.levels)
        cell = 0.25 / float(oracle.own - oracle.other) ** 2  # near half of the cells
        cells, bits = _Reports(True, cell - 0.25, 1), _Reports(False, bit - 0.25, number)
        better = cell <= (_CELLS_ONE if number == 1 else _CELLS_SEVERAL) * number * bit
        return cells if better and users >= cells.needed(self.levels) else bits

    def _refusal(self, num_users: int) -> TooFew | None:
        """Return why so many users are not asked; None if quantiles stand out from the bounds."""
        needed = self._reports(num_users).needed(self.levels)
        if num_users >= needed or num_users < self.min_reports:
            return self._too_few(num_users)
        return TooFew(
            f"With {num_users:,} users {counted(len(self.levels), 'quantile')} may lie nearly "
            f"anywhere within the bounds at epsilon {self.epsilon:g}.",
            "noise",
            advice="Fewer and less extreme levels take fewer.",
        )

    def _sizes(self, reports: _Reports, users: int) -> list[int]:
        """Return how many users each round asks."""
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
            else:  # of the noise, and not of who the users are
                part = math.sqrt(noise / (noise + level * (1 - level)))
                moved = _ROUNDED * part * (upper - lower) / 2 / NORMAL
                reach = (lower, upper) if shared else (value - moved, value + moved)
                value = roundest(max(reach[0], lower), min(reach[1], upper), value)
            rows.append((value, lower, upper))
        table = np.sort(np.array(rows), axis=0)  # increasing levels have no decreasing quantiles
        order = np.argsort(np.argsort(self.levels))
        values, lower_ends, upper_ends = table[order].T
        kind = self._column.kind
        wide = upper_ends - lower_ends > (kind.high - kind.low) / 2
        return QuantilesResult(
            column=self.column,
            levels=np.array(self.levels),
            values=values,
            std_error=np.maximum(upper_ends - values, values - lower_ends) / NORMAL,
            lower=lower_ends,
            upper=upper_ends,
            step=step,
            notes=[_WIDE.format(self.column, level) for level in np.array(self.levels)[wide]],
        )


_HARDLY_ANY = (
    "Hardly any user may have an entry in {!r}: then the quantiles are of noise and nothing else. "
    "Texts, such as dates or '1,5', are no numbers."
)
_WIDE = (
    "The quantile of {!r} at {:g} may lie nearly anywhere within the bounds: more users or a "
    "larger epsilon are needed."
)


def _checked(levels: object) -> tuple[float, ...]:
    given = np.asarray(levels)
    if given.ndim != 1 or given.dtype.kind not in "iuf" or not 1 <= len(given) <= _MAX_LEVELS:
        raise ValueError(f"Expected levels to be 1 to {_MAX_LEVELS} numbers, got {levels!r}.")
    for level in given.tolist():
        if not 0 < level < 1:
            raise ValueError(f"Expected levels within (0, 1), got {level!r}.")
    if len(np.unique(given)) < len(given):
        raise ValueError(f"Expected distinct levels, got {levels!r}.")
    return tuple(float(level) for level in given)
