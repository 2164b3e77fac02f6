"""Quantiles from several cohorts' shares of cells: estimates, and intervals by test inversion."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import isotonic_regression

from ldp_flower.validation import Floats

# Smallest estimated share of users whose value is not missing; distributions are divided by it.
_MIN_HELD = 0.02
_RISE = 1e-9  # added to each step of a distribution function, so that it can be inverted


@dataclass(frozen=True)
class CellReports:
    """Estimated shares of cells, from the k-ary randomised responses of one cohort."""

    edges: Floats  # (cells - 1,): increasing; a cell includes its upper edge
    shares: Floats  # (cells + 1,): unbiased estimates; the last one is of missing values
    count: int  # number of users
    # Probabilities that a user reports the own cell, and any given other cell
    own: float
    other: float

    def excess(self, level: float) -> tuple[Floats, Floats]:
        """Return unbiased estimates of F - level at the edges, and their variances.

        F is the distribution function, so the signs show on which side of a quantile the edges lie.
        The estimates are multiplied by the share ``held``.
        """
        weights = np.tri(len(self.edges), len(self.shares)) - level
        weights[:, -1] = 0
        gap = self.own - self.other
        reported = np.maximum(self.other + gap * self.shares, 0.0)
        # One report is added to each cell: a variance estimated from few reports is too small.
        square = weights**2 @ (reported + 1 / self.count) - (weights @ reported) ** 2
        return weights @ self.shares, square / gap**2 / self.count

    def precision(self, level: float) -> Floats:
        """Return the weight of this cohort at each edge, when cohorts are averaged near ``level``.

        It is the precision (inverse variance) of the estimated distribution function.
        """
        return np.asarray(self.held**2 / self.excess(level)[1])

    @property
    def held(self) -> float:
        """Share of users whose value is not missing."""
        return max(float(self.shares[:-1].sum()), _MIN_HELD)

    @property
    def below(self) -> Floats:
        """Estimated share of the values (without missing ones) below each edge, not decreasing."""
        shares = np.cumsum(self.shares[:-2]) / self.held
        return np.asarray(np.clip(np.maximum.accumulate(shares), 0, 1))


@dataclass(frozen=True)
class LocalFunction:
    """An estimated distribution function that is most precise near one level."""

    level: float  # level of the quantile
    # Increasing values, bounds included, and the function at these values
    values: Floats
    below: Floats
    error: float  # standard error at the level

    def at(self, values: Floats) -> Floats:
        """Return the distribution function's value at each of ``values``."""
        return np.asarray(np.interp(values, self.values, self.below))

    def inverse(self, below: Floats | float) -> Floats:
        """Return the value at which the distribution function reaches each share in ``below``."""
        return np.asarray(np.interp(below, self.below, self.values))

    def straight(self, lower: float, upper: float) -> "LocalFunction":
        """Return a copy that is a straight line between the values ``lower`` and ``upper``.

        It is used where reports do not show the function's shape.
        """
        within = (self.values > lower) & (self.values < upper)
        ends = np.array([lower, upper])
        line = np.interp(self.values, ends, self.at(ends))
        return replace(self, below=np.where(within, line, self.below))


def estimated(
    cohorts: Sequence[CellReports], level: float, low: float, high: float, z: float
) -> tuple[LocalFunction, tuple[float, float]]:
    """Estimate the distribution function near a quantile; return it with the quantile's interval.

    The values of all users lie between the bounds ``low`` and ``high``. A first pass gives a
    preliminary interval, in which the data do not show the function's shape. In the second pass,
    the function is therefore interpolated along a straight line there. ``z`` is the half-width of
    intervals in standard errors.
    """
    function = _pooled(cohorts, _isotonic(cohorts, level, low, high))
    ends = inverted(cohorts, function, z)
    function = _pooled(cohorts, function.straight(*ends))
    return function, inverted(cohorts, function, z)


def _isotonic(
    cohorts: Sequence[CellReports], level: float, low: float, high: float
) -> LocalFunction:
    """Return the increasing function that best fits all cohorts' shares at their edges."""
    edges = np.concatenate([each.edges for each in cohorts])
    order = np.argsort(edges, kind="stable")
    fit = isotonic_regression(
        np.concatenate([each.below for each in cohorts])[order],
        weights=np.concatenate([each.precision(level) for each in cohorts])[order],
    ).x
    values = np.concatenate([[low], edges[order], [high]])
    return LocalFunction(level, values, np.concatenate([[0.0], fit, [1.0]]), math.inf)


def _pooled(cohorts: Sequence[CellReports], path: LocalFunction) -> LocalFunction:
    """Return the average of all cohorts' functions, weighted by their precision at the level.

    Each function is interpolated along ``path``. Since all cohorts are averaged at every value, it
    matters little which users were asked about which edges.
    """
    rise = _RISE * np.arange(len(path.values))
    places = path.below + rise
    found, precision = np.zeros(len(places)), 0.0
    for each in cohorts:
        own = np.interp(each.edges, path.values, places)
        function = np.interp(
            places,
            np.concatenate([places[:1], own, places[-1:]]),
            np.concatenate([[0.0], each.below, [1.0]]),
        )
        weight = each.precision(path.level)[np.argmin(np.abs(own - path.level))]
        found, precision = found + weight * function, precision + weight
    below = np.maximum.accumulate(found / precision) + rise
    return replace(path, below=below, error=1 / math.sqrt(precision))


def inverted(
    cohorts: Sequence[CellReports], function: LocalFunction, z: float
) -> tuple[float, float]:
    """Return the ends of a quantile's confidence interval, by inversion of tests.

    A value is below the interval only if reports show that the distribution function is below the
    level there, by ``z`` standard errors. For this test each cohort contributes its first edge at
    or above the value, where the function can only be higher. The other side is tested likewise.
    Values are tested from the bounds inwards, and the interval ends at the first value that is not
    rejected. So each end is wrong with the error probability of one test. A cohort's weight is the
    estimated distance of the function at its edge from the level, over its variance. If the two
    ends cross, a cohort was asked around a wrong place. Then the tests are repeated with 1.5 ``z``.
    """
    lower, upper = _ends(cohorts, function, z)
    return (lower, upper) if lower <= upper else inverted(cohorts, function, 1.5 * z)


def _ends(cohorts: Sequence[CellReports], function: LocalFunction, z: float) -> tuple[float, float]:
    edges = np.unique(np.concatenate([each.edges for each in cohorts]))
    ends = []
    for side in (-1, 1):
        total, variance = np.zeros(len(edges)), np.zeros(len(edges))
        for each in cohorts:
            if side < 0:
                place = np.searchsorted(each.edges, edges, side="left")
            else:
                place = np.searchsorted(each.edges, edges, side="right") - 1
            there = (place >= 0) & (place < len(each.edges))
            place = np.where(there, place, 0)
            excess, spread = (of_edge[place] for of_edge in each.excess(function.level))
            off = side * (function.at(each.edges) - function.level)[place]
            weight = np.where(there, np.maximum(off, 0.0) / spread, 0.0)
            total += weight * side * excess
            variance += weight**2 * spread
        kept = (total <= z * np.sqrt(variance)) | (variance <= 0)
        inwards = slice(None, None, -side)
        first = int(np.argmax(np.append(kept[inwards], True)))
        bound = function.values[0 if side < 0 else -1]
        ends.append(float(np.concatenate([[bound], edges[inwards]])[first]))
    return ends[0], ends[1]
