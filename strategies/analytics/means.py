"""Means: a strategy that estimates the means of columns of numbers, optionally by group."""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.presentation.words import number, to_error
from ldp_flower.questions import Moments
from ldp_flower.randomizers import KRandomizedResponse
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..forecasts.columns import SPREAD, ColumnUsers, column_users, error_of_means
from ..forecasts.populations import audited_users
from ..runtime import Ask, Card, Protocol, Run, guarantees
from ..runtime.at_node import AtNode
from ..subprotocols.permanent import PermanentForm
from ..sums.budget import Budget
from ..sums.statistics import GroupMeans, ask_means, users_for_means
from .base import ColumnStrategy, columns_of, hidden_by_noise, too_noisy
from .cells import cell_question
from .column import NumericColumn
from .groups import Groups, differ
from .levels import Levels
from .means_result import MeansResult

ColumnMeans = tuple[GroupMeans, GroupMeans | None]  # means by group, and of all groups together

#: A group's share must exceed zero by this many standard errors, or the group may be empty.
GROUP_Z = 3.0
_USEFUL = 0.25  # largest standard error, for numbers in [-1, 1], at which a run still starts
_USELESS = SPREAD  # error of the middle of the bounds, in their widths
_BY_CHANCE = 2.0  # an estimate is this many standard errors too low in one of 44 runs


@dataclass(kw_only=True, eq=False, repr=False)
class Means(AtNode, ColumnStrategy[MeansResult]):
    """Strategy that estimates the means of columns of numbers, optionally by group.

    A user's value is the mean of its rows. With ``by``, a user draws one of its rows at random:
    this row determines the group, and the value is the mean of the user's rows in this group. All
    users have the same weight, however many rows they have. A row with a missing value in the
    column (or in ``by``) is left out for this column only. Users without any complete row also
    send a report, but do not affect a mean.

    With several columns, the users are split into equal disjoint cohorts, one for each column.

    Other parameters are those of :class:`~.base.ColumnStrategy` and
    :class:`~..runtime.at_node.AtNode`.

    Parameters
    ----------
    columns : str or sequence of str
        Columns of numbers. The target may be one of them. Values are clipped to a column's bounds.
    by : str or sequence of str, optional
        A column of categories, which defines the groups, or several columns. The groups are then
        all combinations of their categories.

    Notes
    -----
    Values are rounded at random to levels between the bounds (see
    :class:`~ldp_flower.strategies.analytics.levels.Levels`): two levels at a small epsilon, which
    is the mechanism of Duchi, Jordan & Wainwright (2018), and more levels at a larger epsilon. The
    noise is proportional to the distance of the bounds, so these should not be wider than
    necessary. A few users report how uncertain their rounding is. This separates the standard
    error among these users from that of the population. If the standard error would exceed an
    eighth of the distance of the bounds, the run sends no queries.
    """

    plans_with = frozenset({"num_features"})
    guarantee = guarantees.PER_USER
    card = Card(
        question="means of columns in their units, of groups too",
        guarantee="pure epsilon",
        rounds="2-3 a column",
        report="1-2, up to 64 with many groups",
        use_when="columns have bounds that are not far too wide",
        fails_when="for several columns at epsilon 8: each has a cohort of its own",
        page="analytics",
    )

    columns: str | Sequence[str] = field(kw_only=False)
    by: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._names = columns_of(self.schema, "columns", self.columns)
        self._numbers = [NumericColumn.of(self.schema, name, "columns") for name in self._names]
        self._bounds = np.array([(each.kind.low, each.kind.high) for each in self._numbers]).T
        self._groups = Groups.of(self.schema, self.by)
        self._levels = Levels(self.epsilon, len(self._groups.names))

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: of a mean and, if dim > 2, means by group."""
        if dim > 1:
            numbers = {f"x{i}": Numeric(-1, 1) for i in range(1, dim)}
            schema = Schema(numbers, "y", Numeric(-1, 1))
            yield cls(schema, "y", epsilon=epsilon), audited_users(schema, 6000, 2)
        if dim > 2:
            sorts = Categories([str(i) for i in range(dim - 1)])
            schema = Schema({"sort": sorts}, "y", Numeric(-1, 1))
            yield cls(schema, "y", by="sort", epsilon=epsilon), audited_users(schema, 6000)

    def _asked(self, run: Run) -> Protocol:
        """Query each column's users for levels, and its pilot users for the rounding.

        Return the means.
        """
        if self.noise != "user":
            budget, share = Budget.of(run, self.delta), 1 / len(self._names)
            return (yield from self.of_nodes(budget, share))
        levels = self._levels
        pilot, waves = self._sizes(run.num_users)
        found, totals = [], []
        for name in self._names:
            rounding, first = None, run.cohorts([pilot]) if pilot else []
            cohorts = run.cohorts(waves)
            question = cell_question(self.schema, self._groups.columns, name, levels.number)
            for cohort in first:
                rounding = float((yield from levels.uncertainty(cohort, question)).mean[0])
            shares = yield from levels.shares.estimate(cohorts, question)
            found.append(levels.means(shares, rounding, run.num_users))
            if self.by is not None:
                totals.append(levels.means(levels.joined(shares), rounding, run.num_users))
        return self._result(found, totals, run.num_users)

    def moments(self, budget: Budget, share: float) -> Generator[Ask, Any, list[ColumnMeans]]:
        """Ask all users for the moments of each column; return the columns' means.

        They are means by group and, if there are groups, of all groups, of entries that are scaled
        to [-1, 1]. A column spends ``share`` of the budget.
        """
        found = []
        for column in self._numbers:
            cells = cell_question(self.schema, self._groups.columns, column.name, 2)
            question = Moments(cells.coordinates, cells.sizes, *column.kind.ends)
            groups, whole = yield from ask_means(budget, question, share)
            found.append((_centred(groups), None if whole is None else _centred(whole)))
        return found

    def of_nodes(self, budget: Budget, share: float) -> Generator[Ask, Any, MeansResult]:
        """Ask all users for noisy sums over nodes, and return the means.

        A column spends ``share`` of the budget.
        """
        found = yield from self.moments(budget, share)
        totals = [whole for _, whole in found if whole is not None]
        return self._result([groups for groups, _ in found], totals, budget.users)

    def permanent(self) -> PermanentForm | None:
        """Return the form of the question for a series, or None if there are groups.

        A user compares its number with a random threshold, which it keeps, and reports one of the
        two bounds. If the number is missing, one half of the users reports the low bound, and the
        other half the high bound. The difference between the halves estimates the share of users
        with missing numbers.
        """
        if self.by is not None:
            return None
        flip = KRandomizedResponse(self.epsilon, 2)
        ends = np.eye(2)  # the bound that users with a missing number report
        asked = [
            replace(cell_question(self.schema, [], name, 2), instead=end)
            for name in self._names
            for end in ends
        ]
        low, width = self._bounds[0], self._bounds[1] - self._bounds[0]

        def read(found: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
            without, others = np.array(found)[:, 1].reshape(-1, 2).T
            answering = np.maximum(1 - others + without, 1e-9)
            share = without / answering
            slopes = [np.zeros((len(share), 2)) for _ in found]
            for place, scale in enumerate(width / answering):
                slopes[2 * place][place, 1] = scale * (1 - share[place])
                slopes[2 * place + 1][place, 1] = scale * share[place]
            return low + width * share, slopes

        in_the_middle = flip.covariance(np.full(2, 0.5))[0, 0]
        one_user = float(width.max()) * (len(width) * in_the_middle) ** 0.5
        useful = _USEFUL / 2 * float(width.max())
        return PermanentForm(self._names, [(each, flip) for each in asked], read, one_user, useful)

    def _sizes(self, num_users: int) -> tuple[int, list[int]]:
        """Return the number of pilot users and the sizes of the waves, for one column."""
        users = num_users // len(self._names)
        pilot = self._levels.pilot(users, self.min_reports)
        return pilot, self._levels.shares.sizes(max(users - pilot, 1), self.min_reports)

    def _refusal(self, num_users: int) -> TooFew | None:
        if self.noise != "user":
            shape = self._levels.groups, len(self._names)
            return self._few_at_node(num_users, users_for_means(self.epsilon, self.delta, *shape))
        variance = len(self._names) * self._levels.variance
        refusal = too_noisy(self, num_users, variance, _USEFUL, "a number in [-1, 1]")
        if refusal:
            return refusal
        if self.by is not None and (refusal := self._hidden_groups(num_users)):
            return refusal
        _, waves = self._sizes(num_users)
        return self.too_small(num_users) if min(waves) < self.min_reports else None

    def _hidden_groups(self, num_users: int) -> TooFew | None:
        """Return a TooFew if noise may make a group of average size look empty, or None."""
        groups, users = self._levels.groups, num_users // len(self._names)
        noise = self._levels.number * self._levels.shares.noise(users)
        error = math.sqrt((noise + (1 - 1 / groups) / groups) / users)
        if (GROUP_Z + _BY_CHANCE) * error <= 1 / groups:
            return None
        lost = f"the noise may hide a group of {self._groups.by!r} that holds 1 / {groups} of them"
        return hidden_by_noise(num_users, self.epsilon, lost)

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy that a plan uses: for ``num_features`` numbers, by default one."""
        names = [f"x{i}" for i in range(1, 1 + (setting.num_features or 1))]
        return cls(Schema({name: Numeric(0, 1) for name in names}), names, epsilon=epsilon)

    def synthetic(self, setting: Setting) -> ColumnUsers:
        """Return a population of users with columns of numbers, from which plans are simulated.

        The planned error is the standard error of a mean that a result states.
        """
        error = "standard error of a mean, in widths of the bounds"
        return column_users(
            self.schema,
            [*self._names, *self._groups.columns],
            setting,
            error,
            error_of_means,
            stand_in=self._levels.shares.is_large(setting.num_users),
            useless=_USELESS,
        )

    def _result(
        self, found: Sequence[GroupMeans], totals: Sequence[GroupMeans], num_users: int
    ) -> MeansResult:
        """Return the means in the columns' units; NaN for groups that may be empty."""
        each = _stacked(found)
        means, std_error, users_std_error = self._in_units(each)
        clear = np.isfinite(means)
        whole = [np.zeros(0)] * 3
        if totals:
            whole = [one.ravel() for one in self._in_units(_stacked(totals))]
        notes = []
        if not clear.all():
            least = GROUP_Z * each.share_error[~clear].max()
            groups = [self._groups.names[i] for i in np.flatnonzero(~clear.all(axis=0))]
            columns = [self._names[i] for i in np.flatnonzero(~clear.all(axis=1))]
            by = self._groups.by
            which = f" of these groups of {by!r}, which may be empty" if by else ""
            notes.append(
                f"{num_users:,} users at epsilon {self.epsilon:g} do not show the means{which}: "
                f"{', '.join(groups if by else columns)}. Some {100 * least:.2g} % of the "
                "users would have to have an entry there; texts, such as dates or '1,5', are no "
                "numbers."
            )
        for name, low, high, mean, error in zip(
            self._names, *self._bounds, means, std_error, strict=True
        ):
            here = np.isfinite(mean)
            if here.sum() > 1 and not differ(mean[here], error[here]):
                most = float(error[here].max())
                notes.append(
                    f"The means of {name!r} in the groups by {self._groups.by!r} do not differ by "
                    "more than noise and sampling explain. Their standard errors are up to "
                    f"{to_error(most, most)}. The bounds, {number(low)} to {number(high)}, are "
                    f"{(high - low) / most:,.0f} times as wide: narrower bounds, more users or "
                    "a larger epsilon would show smaller differences."
                )
        return MeansResult(
            columns=self._names,
            groups=self._groups.names,
            by=self._groups.by,
            keys=self._groups.keys,
            means=means,
            std_error=std_error,
            users_std_error=users_std_error,
            shares=each.share,
            share_errors=each.share_error,
            totals=whole[0],
            totals_std_error=whole[1],
            users_totals_std_error=whole[2],
            notes=notes,
        )

    def _in_units(self, found: GroupMeans) -> tuple[Floats, Floats, Floats]:
        """Return three arrays in the columns' units: means, their errors, errors among the users.

        They are NaN for groups that may be empty.
        """
        clear = found.share > GROUP_Z * found.share_error
        low, high = self._bounds[:, :, None]
        half, middle = (high - low) / 2, (high + low) / 2
        return (
            np.where(clear, middle + half * found.mean, np.nan),
            np.where(clear, half * found.population_std_error, np.inf),
            np.where(clear, half * found.std_error, np.inf),
        )


def _stacked(found: Sequence[GroupMeans]) -> GroupMeans:
    """Return the means of all columns in arrays of shape (columns, groups)."""
    return GroupMeans(*map(np.array, zip(*found, strict=True)))


def _centred(found: GroupMeans) -> GroupMeans:
    """Return the means of numbers in [0, 1] as means of numbers in [-1, 1]."""
    mean, std_error, population_std_error, *shares = found
    return GroupMeans(2 * mean - 1, 2 * std_error, 2 * population_std_error, *shares)
