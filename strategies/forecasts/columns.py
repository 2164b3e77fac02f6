"""Synthetic columns, on which plans simulate the strategies that describe tables."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.expectation import Setting
from ldp_flower.validation import Floats

from .populations import Drawn, Rng, SyntheticPopulation, alike_within, offsets_of

#: Standard deviation of a number, and the distance of its mean from the middle of the bounds, both
#: in distances of the bounds.
SPREAD = 1 / 8
# Largest number of values that are drawn; smallest and largest number of users.
_MOST_VALUES, _FEWEST, _MOST = 1_000_000, 2000, 10_000
_MOST_STAND_IN = 4000  # largest number of users who are drawn with noise at the node
_POINTS = 1025  # number of values at which a distribution function is judged
_STAND_IN = 10  # largest number of users whom one drawn user represents
# A strategy that states its standard errors states nearly the same ones in every run.
_STATED, _MEASURED = 3, 12  # numbers of runs
_MEAN, _QUARTILES = 1, slice(3, 6)  # rows of a description, as in pandas
_EVEN = "Categories are equally frequent."
HUMP_SHAPE = (
    "A column of numbers has one hump. Its standard deviation, and the distance of its mean from "
    "the middle, are an eighth of the distance of the bounds."
)
OWN_ENTRY = "Every user has an entry, and numbers are not multiples of a round step."
_ROWS = "Of the variance of rows, {:.0%} is between users."


@dataclass(frozen=True)
class Columns:
    """Entries of the users of a simulated run, by which a plan judges the run's result.

    Every user has the same weight.
    """

    entries: Mapping[str, NDArray[Any]]
    offsets: NDArray[np.int64]  # (drawn users + 1,): index of each user's first row
    users: int  # number of users whom the drawn users represent

    def variance(self, name: str) -> float:
        """Return the sampling variance of a column's mean over users.

        A mean's squared standard error for the population is that among these users plus this
        variance.
        """
        sums = np.add.reduceat(self.entries[name], self.offsets[:-1])
        return float(np.var(sums / np.diff(self.offsets))) / self.users

    def below(self, name: str, values: Floats, side: Any = "right") -> Floats:
        """Return the true share of entries that are at most each value, or (``side="left"``) less.

        Estimated quantiles and distribution functions are compared with it.
        """
        order = np.argsort(self.entries[name])
        counts = np.diff(self.offsets)
        weights = np.repeat(1 / counts, counts)[order] / len(counts)
        up_to = np.concatenate([[0.0], np.cumsum(weights)])
        return np.asarray(up_to[np.searchsorted(self.entries[name][order], values, side)])


#: A function of a result and of the columns of its users, which returns the error of the result.
Judge = Callable[[Any, Columns], float]


@dataclass(frozen=True, kw_only=True)
class ColumnUsers(SyntheticPopulation):
    """Users of a table with independent columns, on whom plans simulate descriptions of columns."""

    in_series = True
    redrawn = True

    schema: Schema
    judge: Judge  # function that returns the error of a result
    others: tuple[tuple[str, Judge], ...] = ()  # names and functions of further errors
    variance_between: float = 0.0  # share of the variance that is between users, as in Setting
    most: int = sys.maxsize  # largest number of users that are drawn; they represent the others

    def draw(self, num_users: int, stand_in: bool, rng: Rng) -> Drawn:
        """Draw users, see :meth:`SyntheticPopulation.draw`. An error is about these users."""
        offsets = offsets_of(self.rows, min(num_users, self.most), rng)
        entries = {
            name: self._column(name, offsets, stand_in, rng) for name in self.schema.columns_read
        }
        columns = Columns(entries, offsets, num_users)
        groups = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))

        def of(judge: Judge) -> Callable[[Any], float]:
            return lambda result: judge(result, columns)

        return Drawn(
            self.schema.users(entries, groups=groups),
            of(self.judge),
            {name: of(judge) for name, judge in self.others},
        )

    def _column(
        self, name: str, offsets: NDArray[np.int64], stand_in: bool, rng: Rng
    ) -> NDArray[Any]:
        kind = self.schema.kind(name)
        if not isinstance(kind, Numeric):
            declared = np.array(kind.declared, dtype=object)
            return np.asarray(declared[rng.integers(len(declared), size=offsets[-1])])
        normals = alike_within(offsets, 1, self.variance_between, rng)[:, 0]
        if stand_in:  # make the column as smooth as the column of the users whom they represent
            normals[np.argsort(normals)] = ndtri((np.arange(len(normals)) + 0.5) / len(normals))
        place = 0.5 + SPREAD * (rng.choice([-1, 1]) + normals)
        return np.asarray(np.clip(kind.low + (kind.high - kind.low) * place, kind.low, kind.high))


def column_users(
    schema: Schema,
    names: Sequence[str],
    setting: Setting,
    error: str,
    judge: Judge,
    *,
    stated: bool = True,
    stand_in: bool = False,
    **others: Any,
) -> ColumnUsers:
    """Return the users on whom a plan simulates a strategy that describes the named columns.

    stated: True if the error is a standard error that results state.
    stand_in: True if few users stand in for many, and use the mechanisms for the larger number.
    """
    numbers = [isinstance(schema.kind(name), Numeric) for name in names]
    users = ColumnUsers(
        error=error,
        dim=schema.num_features,
        rows=setting.rows_per_user,
        schema=schema,
        judge=judge,
        runs=_STATED if stated else _MEASURED,
        **others,
    )
    assumes = [HUMP_SHAPE] * any(numbers) + [_EVEN] * (not all(numbers)) + [OWN_ENTRY]
    assumes += [_ROWS.format(users.variance_between)] * (users.rows > 1)
    most = int(np.clip(_MOST_VALUES / users.size, _FEWEST, _MOST))
    limits: dict[str, Any] = {"max_users": most}
    if setting.num_nodes is not None:
        # Ranks of many more users would be finer than those of the users who stand in for them.
        # Errors by noise are assumed to fall with the number of users.
        most = min(most, _MOST_STAND_IN)
        limits = {"most": most, "max_users": _STAND_IN * most, "power": 1.0}
    elif stand_in:
        limits = {"most": most}
    return replace(users, assumes=tuple(assumes), **limits)


def error_of_means(result: Any, columns: Columns) -> float:
    """Return the planned error of means: their stated standard errors, over the bounds' distance.

    It is the root mean square over all means.
    """
    errors = result.users_std_error / _widths(result.schema, result.columns)[:, None]
    return math.sqrt(float(np.mean(errors**2)))


def error_of_shares(result: Any, columns: Columns) -> float:
    """Return the planned error of shares: root mean square of their stated standard errors."""
    return math.sqrt(float(np.mean(result.users_std_error**2)))


def error_of_drawn_shares(result: Any, columns: Columns) -> float:
    """Return the standard error of a share that a result states for the rows that users drew.

    The error by the draw of one of a user's rows is added.
    """
    share, rows = 1 / result.shares.size, np.diff(columns.offsets)
    drawn = share * (1 - share) * float(np.mean(1 - 1 / rows)) / columns.users
    return math.hypot(error_of_shares(result, columns), math.sqrt(drawn))


def error_of_description(result: Any, columns: Columns) -> float:
    """Return the largest standard error of a mean in a description, in widths of the bounds.

    Descriptions state errors for the population of which the users are a sample. The error is
    infinite if a mean is not estimated.
    """
    known = [columns.variance(name) for name in result.numbers]
    errors = np.sqrt(np.maximum(result.std_error[_MEAN] ** 2 - known, 0.0))
    found = float((errors / _widths(result.schema, result.numbers)).max())
    return math.inf if math.isnan(found) else found


def error_of_described_shares(result: Any, columns: Columns) -> float:
    """Return the planned error of a description's shares.

    It is the largest one over columns of the root mean square of a column's standard errors, among
    the users.
    """
    found = []
    for errors in result.share_errors:
        known = (1 - 1 / len(errors)) / len(errors) / columns.users
        found.append(max(float(np.mean(errors**2)) - known, 0.0))
    return math.sqrt(max(found))


def error_of_described_ranks(result: Any, columns: Columns) -> float:
    """Return the largest error of a description's quartiles, as a share of users."""
    return max(
        _rank_error(columns, name, np.array([0.25, 0.5, 0.75]), result.values[_QUARTILES, place])
        for place, name in enumerate(result.numbers)
    )


def error_of_ranks(result: Any, columns: Columns) -> float:
    """Return the planned error of quantiles: root mean square of their errors in rank.

    A rank is a share of users. A value that many users share has no error for any of its ranks.
    """
    return _rank_error(columns, result.column, result.levels, result.values)


def _rank_error(columns: Columns, name: str, levels: Floats, values: Floats) -> float:
    below, up_to = (columns.below(name, values, side) for side in ("left", "right"))
    off = np.maximum(np.maximum(below - levels, levels - up_to), 0.0)
    return math.sqrt(float(np.mean(off**2)))


def error_of_function(result: Any, columns: Columns) -> float:
    """Return the largest difference of a result's distribution function from the true one."""
    kind = result.schema.kind(result.column)
    at = np.linspace(kind.low, kind.high, _POINTS)
    return float(np.abs(result.cdf(at) - columns.below(result.column, at)).max())


def _widths(schema: Schema, names: list[str]) -> Floats:
    kinds = [schema.kind(name) for name in names]
    return np.array([kind.high - kind.low for kind in kinds if isinstance(kind, Numeric)])
