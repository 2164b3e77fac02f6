"""Describe: a strategy that estimates the statistics of pandas' ``describe`` for a table."""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as declared
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.randomizers import Estimate, RandomizedResponse
from ldp_flower.refusals import TooFew

from ..forecasts.columns import (
    SPREAD,
    ColumnUsers,
    column_users,
    error_of_described_ranks,
    error_of_described_shares,
    error_of_description,
)
from ..forecasts.populations import audited_users
from ..runtime import Ask, Card, Protocol, Result, Run, guarantees
from ..runtime.at_node import AtNode
from ..runtime.result import HALF_WIDTH_95
from ..subprotocols.scales import number_randomizer
from ..sums.budget import Budget
from .base import ColumnStrategy, categories_of, columns_of, hidden_by_noise
from .cells import ShareEstimator, cell_question
from .column import NumericColumn
from .counts import Counts
from .describe_result import STATISTICS, DescribeResult
from .levels import Levels
from .means import Means
from .means_result import MeansResult
from .quantiles import Quantiles
from .quantiles_result import QuantilesResult

_QUARTILES = (0.25, 0.5, 0.75)  # as in pandas' describe
_TYPICAL = 0.25  # assumed standard deviation, in units of half the distance of the bounds
_ALIKE = 0.5  # share of the variance of synthetic users' rows that is between users
_MEAN, _STD = STATISTICS.index("mean"), STATISTICS.index("std")
_HIDDEN = (
    "The standard deviation of {!r} is not reported: it is below some {:.2g}, which noise hides. "
    "Narrower bounds, more users or a larger epsilon would show it."
)
_OUTSIDE = (
    "The mean of {!r} is not between its quartiles. It is less than 1.96 standard errors away from "
    "them: noise may have moved it there."
)
# Users are split among the tasks as if epsilon were at most this. Above it, errors are not limited
# by noise. As the noise of means falls even further, they would get too few users.
_SETTLED = 4.5


@dataclass(frozen=True)
class _Task:
    """One statistic of one column, which is estimated from a separate part of the users."""

    column: str
    protocol: "Means | Counts | Quantiles | _SpreadTask"
    # Variance of a report, on the scale on which standard errors are made equal: tasks get users in
    # proportion to it.
    need: float


@dataclass
class _SpreadTask:
    """Task that estimates the mean of 1 - t^2, from which a standard deviation follows.

    t is a number of the column, scaled from the column's bounds to [-1, 1].
    """

    schema: Schema
    column: str
    epsilon: float

    def _refusal(self, num_users: int) -> None:
        """Return None: the other tasks need more users than this one."""

    def protocol(self, run: Run) -> Generator[Ask, Estimate, Estimate]:
        """Query the users for 1 - t^2 - 1/2, and return the estimated mean of it."""
        question = cell_question(self.schema, [], self.column, 2)
        (everyone,) = run.population.cut([run.num_users])
        asked = replace(question, one_row=True)
        return (yield from Levels(self.epsilon).uncertainty(everyone, asked))


@dataclass(kw_only=True, eq=False, repr=False)
class Describe(AtNode, ColumnStrategy[DescribeResult]):
    """Strategy that estimates the statistics of pandas' ``describe`` for several columns.

    These are counts, means, standard deviations and quartiles of numbers, and shares of
    categories. The users are split among the columns and their tasks, and each user sends one
    report at the whole epsilon. The number of users of a task is proportional to the variance of
    its reports, so that all standard errors are about equal. They are measured as part of the
    bounds' distance for means and standard deviations, as shares for categories, and in rank for
    quartiles, where they are 1.4 times as large. All users have the same weight, however many rows
    they have.

    With noise at the node, all users answer all tasks, which share the budget evenly. Quartiles
    and a standard deviation are one task.

    Other parameters are those of :class:`~.base.ColumnStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    columns : str or sequence of str, optional
        The columns to describe. By default all columns, including the target.
    epsilon : float (default: 4.0)
        Privacy parameter of all that one user reports.

    Notes
    -----
    Means, quartiles and shares are estimated by :class:`Means`, :class:`Quantiles` and
    :class:`Counts`. A standard deviation is that of a random row of a random user. It is estimated
    from further users, who report the squared distance of their number from the middle of the
    bounds.
    """

    plans_with = frozenset({"rows_per_user", "num_features"})
    guarantee = guarantees.PER_USER
    card = Card(
        question="count, mean, std, quartiles and shares of a table's columns",
        guarantee="pure epsilon",
        rounds="2-3 a mean, 8-9 quartiles, 1-2 others",
        report="1-2, up to 64 with many categories",
        use_when="nobody knows what a table holds",
        fails_when="for tables of 20 columns with less than some 67,000 users at epsilon 1",
        page="analytics",
    )

    columns: str | Sequence[str] | None = declared(default=None, kw_only=False)
    epsilon: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.schema.columns_read if self.columns is None else self.columns
        self._columns = columns_of(self.schema, "columns", chosen)
        self._tasks = [task for name in self._columns for task in self._tasks_of(name)]

    def _tasks_of(self, name: str) -> list[_Task]:
        """Return the tasks whose estimates make up the description of the column ``name``."""
        epsilon = min(self.epsilon, _SETTLED)
        if isinstance(self.schema.kind(name), Categories):
            cells = ShareEstimator(epsilon, len(categories_of(self.schema, "columns", name)))
            need = cells.noise(10_000) + (1 - 1 / cells.num_cells) / cells.num_cells
            return [_Task(name, Counts(self.schema, name, **self._shared), need)]
        noise = Levels(epsilon).variance + _TYPICAL**2
        # for a standard deviation of an eighth of the bounds' distance
        spread = (number_randomizer(epsilon, 0.5).variance + 2 * _TYPICAL**4) / (2 * _TYPICAL) ** 2
        bit = RandomizedResponse(epsilon).variance / 4
        return [
            _Task(name, Means(self.schema, name, **self._shared), noise / 4),
            _Task(name, _SpreadTask(self.schema, name, self.epsilon), spread / 4),
            _Task(name, Quantiles(self.schema, name, _QUARTILES, **self._shared), 1.5 * bit),
        ]

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users, for an audit: on a number and on categories."""
        schema = Schema({"x": Numeric(-1, 1)}, "kind", Categories(["a", "b"]))
        if dim != schema.num_features:
            sorts = Categories([str(i) for i in range(dim - 1)])
            schema = Schema({"sort": sorts}, "y", Numeric(-1, 1))
        yield cls(schema, epsilon=epsilon), audited_users(schema, 8000)

    def _asked(self, run: Run) -> Protocol:
        """Run all tasks in turn, each with its part of the users; return the description."""
        if self.noise != "user":
            return (yield from self._of_nodes(run))
        found: dict[str, list[Any]] = {name: [] for name in self._columns}
        for task, size in zip(self._tasks, self._sizes(run.num_users), strict=True):
            found[task.column].append((yield from task.protocol.protocol(run.part(size))))
        for parts in found.values():
            if len(parts) == 3:
                parts[:2] = parts[0], self._variance(*parts[:2])
        return self._result(found, run.num_users)

    def _of_nodes(self, run: Run) -> Generator[Ask, Any, DescribeResult]:
        """Ask all users for every statistic, each by an equal share of the budget."""
        found: dict[str, list[Any]] = {name: [] for name in self._columns}
        budget, share = Budget.of(run, self.delta), 1 / self._asks_of_nodes
        for task in self._tasks:
            if isinstance(task.protocol, Quantiles):
                function = yield from task.protocol.function(budget, share)
                variance, error = function.variance
                quartiles = task.protocol.of_function(function)
                found[task.column] += [(4 * variance, 4 * error), quartiles]
            elif not isinstance(task.protocol, _SpreadTask):
                found[task.column].append((yield from task.protocol.of_nodes(budget, share)))
        return self._result(found, run.num_users)

    @property
    def _asks_of_nodes(self) -> int:
        return sum(not isinstance(task.protocol, _SpreadTask) for task in self._tasks)

    def _refusal(self, num_users: int) -> TooFew | None:
        if self.noise != "user":
            every = [task.protocol._refusal(0) for task in self._tasks]
            alone = max(few.needed or 0 for few in every if few is not None)
            return self._few_at_node(num_users, math.ceil(alone * self._asks_of_nodes**0.5))
        sizes = self._sizes(num_users)
        fits = sum(sizes) <= num_users and not any(
            task.protocol._refusal(size) for task, size in zip(self._tasks, sizes, strict=True)
        )
        if fits or num_users < self.min_reports:
            return self._too_few(num_users)
        lost = f"each of {len(self._tasks)} tasks has too few users"
        return hidden_by_noise(num_users, self.epsilon, lost)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for ``num_features`` numbers, by default one."""
        names = [f"x{i}" for i in range(1, 1 + (setting.num_features or 1))]
        return cls(Schema({name: Numeric(0, 1) for name in names}), epsilon=epsilon)

    def synthetic(self, setting: Setting) -> ColumnUsers:
        """Return a population of users with these columns, from which plans are simulated.

        The planned error is the largest one of a mean, or of shares.
        """
        numbers = [name for name in self._columns if isinstance(self.schema.kind(name), Numeric)]
        ranks = "rank error of a quantile, root mean square of all", error_of_described_ranks
        shares = "standard error of a category's share", error_of_described_shares
        others = [ranks] * bool(numbers) + [shares] * (len(numbers) < len(self._columns))
        mean = "standard error of a mean, in widths of the bounds", error_of_description
        error, judge = mean if numbers else others.pop()
        return column_users(
            self.schema,
            self._columns,
            setting,
            error,
            judge,
            others=tuple(others),
            variance_between=_ALIKE,
            useless=SPREAD,
        )

    def _sizes(self, num_users: int) -> list[int]:
        """Return the number of users who answer each task, in the order of the tasks."""
        needs = np.array([task.need for task in self._tasks])
        least = 3 * self.min_reports
        rest = max(0, num_users - least * len(needs))
        return [least + int(part * rest) for part in needs / needs.sum()]

    def _result(self, found: dict[str, list[Any]], num_users: int) -> DescribeResult:
        """Return the result, from the findings of each column's tasks."""
        numbers = [name for name, parts in found.items() if len(parts) > 1]
        values = np.full((len(STATISTICS), len(numbers)), np.nan)
        errors = values.copy()
        hidden, outside = [], []
        for place, name in enumerate(numbers):
            values[:, place], errors[:, place] = self._of_number(num_users, name, *found[name])
            if np.isnan(values[_STD, place]) and np.isfinite(errors[_STD, place]):
                hidden.append(_HIDDEN.format(name, 2 * errors[_STD, place]))
            if _outside_by_noise(values[:, place], errors[:, place]):
                outside.append(_OUTSIDE.format(name))
        shares = [parts[0] for parts in found.values() if len(parts) == 1]
        results = [part for parts in found.values() for part in parts if isinstance(part, Result)]
        notes = [note for result in results for note in result.notes]
        return DescribeResult(
            numbers=numbers,
            values=values,
            std_error=errors,
            categorical=[each.column for each in shares],
            categories=[each.categories for each in shares],
            shares=[each.shares for each in shares],
            share_errors=[each.std_error for each in shares],
            counts=np.array([each.answering for each in shares]) * num_users,
            notes=[*notes, *hidden, *outside],
        )

    def _variance(self, mean: MeansResult, spread: Estimate) -> tuple[float, float]:
        """Return the variance of a number that is scaled to [-1, 1], and its standard error.

        Two tasks give it: the ``mean``, and the ``spread`` of :class:`_SpreadTask`.
        """
        kind = NumericColumn.of(self.schema, mean.columns[0]).kind
        half, middle = (kind.high - kind.low) / 2, (kind.high + kind.low) / 2
        error, share_error = float(mean.std_error[0, 0]), float(mean.share_errors[0, 0])
        held = max(min(float(mean.shares[0, 0]), 1.0), 1e-9)
        place = (float(mean.means[0, 0]) - middle) / half
        # The square of an estimated mean exceeds the true square by its variance, on average.
        far, far_error = float(spread.mean[0]), float(spread.std_error[0])
        of_variance = math.hypot(
            far_error / held, far / held**2 * share_error, 2 * place * error / half
        )
        return 0.5 - far / held - place**2 + (error / half) ** 2, of_variance

    def _of_number(
        self,
        num_users: int,
        name: str,
        mean: MeansResult,
        variance: tuple[float, float],
        quartiles: QuantilesResult,
    ) -> tuple[list[float], list[float]]:
        """Return all statistics of a column of numbers, and their standard errors.

        ``variance`` has the variance of the column, scaled to [-1, 1], and its standard error.
        """
        half = NumericColumn.of(self.schema, name).span / 2
        estimate, error = float(mean.means[0, 0]), float(mean.std_error[0, 0])
        share, share_error = float(mean.shares[0, 0]), float(mean.share_errors[0, 0])
        if math.isnan(estimate):  # nearly all entries may be missing
            rest = [math.nan] * (len(STATISTICS) - 1)
            return [max(num_users * share, 0.0), *rest], [num_users * share_error, *rest]
        held = max(min(share, 1.0), 1e-9)
        std, of_std = root_with_error(*variance)
        return (
            [num_users * held, estimate, half * std, *quartiles.values],
            [num_users * share_error, error, half * of_std, *quartiles.std_error],
        )


def root_with_error(variance: float, error: float) -> tuple[float, float]:
    """Return a standard deviation and its standard error; NaN if the variance is not positive.

    ``error`` is the standard error of the variance. 1.96 standard errors of the standard deviation
    reach both ends of the variance's interval, even if that begins at 0. This makes up for the
    selection of positive variances, which noise has often made larger.
    """
    if variance <= 0:
        return math.nan, math.sqrt(error)
    std, reach = math.sqrt(variance), HALF_WIDTH_95 * error
    lower, upper = math.sqrt(max(variance - reach, 0.0)), math.sqrt(variance + reach)
    return std, max(std - lower, upper - std) / HALF_WIDTH_95


def _outside_by_noise(values: NDArray[np.float64], errors: NDArray[np.float64]) -> bool:
    """Return True if noise may explain that a stated mean is outside the quartiles."""
    for end, sign in ((STATISTICS.index("25%"), -1), (STATISTICS.index("75%"), 1)):
        beyond = sign * (values[_MEAN] - values[end])
        if 0 < beyond < HALF_WIDTH_95 * math.hypot(errors[_MEAN], errors[end]):
            return True
    return False
