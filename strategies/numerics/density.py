"""Distribution over ordered cells, from counts of randomised reports about cells.

The prior prefers smooth densities. Bands come from unbiased estimates and hold for any shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logit

from ldp_flower.validation import Floats

# Candidate priors of the smooth part of the log density, which is added to a quadratic part: scale,
# and length scale along the positions.
_SMOOTHNESS = (
    *((0.1, 0.7), (0.5, 0.7), (1.0, 0.3), (2.0, 1.5), (5.0, 3.0)),
    *((3.0, 0.1), (3.0, 0.3), (3.0, 0.7)),
)
# Scale of the quadratic part, in widths of the coordinate; it is large, so any hump is likely.
_QUADRATIC = 4.0
# Share of the positions that is logistic, the rest is even: densities change most near the first
# and last cell.
_ENDS = 0.8
_ROUGH = 1e-2  # scale of the part that is not smooth
_LEVEL_SCALE, _CELL_SCALE = 1.0, 2.0  # scales of the level of all cells, and of a separate cell
_APART_SHARE = 0.02  # prior share of a separate cell
# A variance is raised as if this many more reports had the largest weight: counts may be small.
_ONE_MORE = 2.0
_NOTHING = 1e-4  # smallest variance, over this increase; a smaller one is rounding error
# Largest number of Newton steps, and the gain in log probability below which they end.
_STEPS, _STILL = 30, 1e-2


@dataclass(frozen=True)
class Counted:
    """Counts of reports, and the probabilities of reports given cells."""

    law: Floats  # (reports, cells): the probability of each report for each cell
    counts: Floats  # (reports,): number of users who sent each report


@dataclass(frozen=True)
class Prior:
    """Prior distribution of the shares of cells."""

    likely: Floats  # (cells,): the shares of ordered cells under an even density
    apart: NDArray[np.bool_]  # (cells,): separate cells, whose shares do not depend on neighbours
    # (cells,) each: coordinates. The log density is quadratic in one of them plus a smooth part
    coordinates: Sequence[Floats] = ()

    @property
    def base(self) -> Floats:
        """Prior shares of all cells and, last, of one more cell for missing values."""
        apart = np.append(self.apart, True)
        shares = np.append(self.likely, 0.0)
        ordered = np.where(apart, 0.0, shares)
        left = 1 - _APART_SHARE * apart.sum()
        return np.asarray(np.where(apart, _APART_SHARE, left * ordered / ordered.sum()))

    def roots(self) -> list[Floats]:
        """Return candidate priors of the log shares, each as its covariance's Cholesky factor."""
        ordered = np.flatnonzero(~self.apart)
        cells = len(ordered)
        even = (np.arange(cells) + 0.5) / cells
        logistic = (logit(even) / logit(even[-1]) + 1) / 2 if cells > 1 else even
        at = (1 - _ENDS) * even + _ENDS * logistic
        apart = _CELL_SCALE**2 * np.eye(len(self.apart) + 1)
        found = []
        for along in (np.zeros(len(self.apart)), *self.coordinates):
            x = along[ordered]
            hump = _QUADRATIC**2 * (np.outer(x, x) + np.outer(x**2, x**2))
            for scale, length in _SMOOTHNESS:
                far = np.sqrt(5) * np.abs(at[:, None] - at) / length
                smooth = scale**2 * (1 + far + far**2 / 3) * np.exp(-far)
                rough = _ROUGH**2 * np.eye(cells)
                covariance = apart.copy()
                covariance[np.ix_(ordered, ordered)] = smooth + hump + _LEVEL_SCALE**2 + rough
                found.append(np.asarray(np.linalg.cholesky(covariance), np.float64))
        return found


def draw_densities(parts: Sequence[Counted], prior: Prior, normals: Floats) -> Floats:
    """Return draws from the posterior of the shares of cells, shape (cells + 1, draws).

    The reports' laws have one cell more than the prior, the last, for missing values. The draws are
    made from ``normals``, independent standard normal numbers of shape (cells + 1, draws / 2).

    The logarithm of the shares over ``base`` is a Gaussian process. Its covariance is Matern's of
    order 5/2 along the cells, with larger distances at the first and last cells, plus a quadratic
    function of one of the coordinates or of none. Even, normal and lognormal densities are
    therefore the smoothest (Silverman, 1982). The priors are averaged by their evidence. Each
    posterior is approximated by a normal distribution of the shares around its mode (Laplace). A
    normal distribution of their logarithms would put too many users into nearly empty cells. Draws
    come in pairs on both sides of the mode, so their mean is the mode.
    """
    law = np.concatenate([part.law for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    base = prior.base
    fits = [_fitted(law, counts, base, root) for root in prior.roots()]
    evidence = np.array([fit.evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    ends = np.rint(normals.shape[1] * np.cumsum(weights) / weights.sum()).astype(np.int64)
    drawn = []
    for part, fit in zip(np.split(normals, ends[:-1], axis=1), fits, strict=True):
        if part.size:
            off = fit.root @ solve_triangular(fit.precision.T, np.hstack([part, -part]))
            drawn.append(_around(_shares(base, fit.root @ fit.mode), off))
    return np.concatenate(drawn, axis=1)


def _around(mode: Floats, off: Floats) -> Floats:
    """Return draws of shares around a mode, from deviations ``off`` of their logarithms.

    The shares are linear in the deviations, except the last one's odds, which are exponential.
    """
    ordered = mode[:-1, None] / mode[:-1].sum()
    mean = (ordered * off[:-1]).sum(axis=0)
    odds = mode[-1] / mode[:-1].sum() * np.exp(off[-1] - mean)
    return np.vstack([ordered * (1 + off[:-1] - mean) / (1 + odds), odds / (1 + odds)])


@dataclass(frozen=True)
class _LaplaceFit:
    """Normal approximation of the posterior under one prior, around the mode (Laplace)."""

    evidence: float  # logarithm of the prior's evidence
    mode: Floats  # mode of the independent normal numbers that ``root`` maps to the process
    precision: Floats  # Cholesky factor of the precision
    root: Floats  # matrix that maps independent normal numbers to the process


def _shares(base: Floats, logs: Floats) -> Floats:
    raised = base * np.exp(logs - logs.max(axis=0))
    return np.asarray(raised / raised.sum(axis=0))


def _fitted(law: Floats, counts: Floats, base: Floats, root: Floats) -> _LaplaceFit:
    """Find the posterior mode by Newton's method; steps that overshoot are damped."""

    def surprise(white: Floats) -> tuple[float, Floats, Floats]:
        shares = _shares(base, root @ white)
        chances = law @ shares
        return float(white @ white / 2 - counts @ np.log(chances)), shares, chances

    def curvature(shares: Floats, chances: Floats) -> tuple[Floats, Floats]:
        slopes = (law * shares - np.outer(chances, shares)) @ root
        return slopes, (slopes.T * (counts / chances**2)) @ slopes + np.eye(len(base))

    white, damping = np.zeros(len(base)), 0.0
    lowest, shares, chances = surprise(white)
    slopes, bend = curvature(shares, chances)
    for _ in range(_STEPS):
        factor = cho_factor(bend + damping * np.eye(len(base)))
        there = white - cho_solve(factor, white - slopes.T @ (counts / chances))
        found, *rest = surprise(there)
        if not found <= lowest:
            damping = max(10 * damping, 1.0)
            continue
        gain, lowest, white, (shares, chances) = lowest - found, found, there, rest
        slopes, bend = curvature(shares, chances)
        damping = damping / 10 if damping > _STILL else 0.0
        if gain < _STILL:
            break
    precision = np.asarray(np.linalg.cholesky(bend), np.float64)
    return _LaplaceFit(-lowest - float(np.log(np.diag(precision)).sum()), white, precision, root)


@dataclass(frozen=True)
class DistributionEstimates:
    """Unbiased estimates of averages of a distribution function."""

    # (estimates,): the first and last edge of each average. An average lies between the values of
    # the function at these edges.
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    # (estimates, 3): the estimate as a share of all users, its variance, and its covariance with
    # the share of users whose value is not missing
    values: Floats
    held: Floats  # (2,): the share of users whose value is not missing, and its variance
    # (draws,): sorted draws of the largest deviation over all estimates, in standard errors
    deviations: Floats

    def band(self, level: float, edges: int) -> tuple[Floats, Floats]:
        """Return lower and upper bounds at all edges, which jointly hold with this probability."""
        z = float(np.quantile(self.deviations, level))
        below, above = self._intervals(z)
        lower, upper = np.zeros(edges), np.ones(edges)
        np.maximum.at(lower, self.last, below)
        np.minimum.at(upper, self.first, above)
        lower[-1], upper[0] = 1.0, 0.0
        return np.maximum.accumulate(lower), np.minimum.accumulate(upper[::-1])[::-1]

    def _intervals(self, z: float) -> tuple[Floats, Floats]:
        """Return two ends of intervals for the ratios of shares below edges to the share present.

        The intervals are those of Fieller (1954).
        """
        share, variance, covariance = self.values.T
        held, held_variance = self.held
        square = held**2 - z**2 * held_variance
        if not square > 0:  # all values may be missing
            return np.zeros(len(share)), np.ones(len(share))
        middle = share * held - z**2 * covariance
        rest = share**2 - z**2 * variance
        reach = np.sqrt(np.maximum(middle**2 - square * rest, 0))
        return np.clip((middle - reach) / square, 0, 1), np.clip((middle + reach) / square, 0, 1)


def linear_estimates(counted: Counted, likely: Floats, normals: Floats) -> DistributionEstimates:
    """Return estimates of averages of the distribution function over 1, 2, 4, ... ordered cells.

    The last cell of the reports' law is for missing values. ``likely`` has approximate shares of
    all cells; more accurate ones give less noise. An average is estimated by weights of the
    reports whose expectation falls from 1 to 0 in equal steps from cell to cell. Of all such
    weights these have the least variance. Joint deviations are drawn from a normal distribution
    with the covariance that the reports' frequencies give.
    """
    law, cells = counted.law, counted.law.shape[1] - 1
    spread = law / (law @ likely)[:, None]
    weights = np.linalg.pinv(law.T @ spread, hermitian=True) @ spread.T
    first, last = _windows(cells)
    places = np.arange(cells) + 0.5
    width = np.maximum(last - first, 1e-9)[:, None]
    wanted = np.clip((last[:, None] - places) / width, 0, 1)
    ramps = np.vstack([wanted, np.ones(cells)]) @ weights[:cells]
    total = counted.counts.sum()
    frequencies = counted.counts / total
    estimates = ramps @ frequencies
    centred = ramps - estimates[:, None]
    covariance = (centred * frequencies) @ centred.T / total
    held = max(float(estimates[-1]), 1e-9)
    ratios = np.clip(estimates[:-1] / held, 0, 1)
    variances, with_held = np.diag(covariance)[:-1], covariance[:-1, -1]
    largest = np.abs(ramps[:-1] - ratios[:, None] * ramps[-1]).max(axis=1)
    more = _ONE_MORE * (largest / total) ** 2
    square = variances - 2 * ratios * with_held + ratios**2 * covariance[-1, -1]
    off = np.sqrt(np.maximum(square, _NOTHING * more))
    values, vectors = np.linalg.eigh((weights * frequencies) @ weights.T)
    root = vectors * np.sqrt(np.maximum(values, 0) / total)
    of_cells = np.column_stack([wanted - ratios[:, None], np.zeros(len(wanted))])
    drawn = np.abs(of_cells @ root @ normals) / off[:, None]
    return DistributionEstimates(
        first,
        last,
        np.column_stack([estimates[:-1], variances + more, with_held]),
        np.array([estimates[-1], covariance[-1, -1]]),
        np.sort(drawn.max(axis=0)),
    )


def _windows(cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first and last edges of half-overlapping averages over 1, 2, 4, ... cells."""
    pairs, width = [(edge, edge) for edge in range(1, cells)], 2
    while width < cells:
        pairs += [(at, at + width) for at in range(0, cells + 1 - width, width // 2)]
        width *= 2
    first, last = np.array(pairs or [(0, cells)], np.int64).T
    return first, last
