"""The distribution over cells in order, from counts of randomised reports about cells.

A smooth density is the likeliest; bands come from unbiased estimates, whatever the shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logit

from ldp_flower.validation import Floats

# Of what the density's logarithm has beside its quadratic part: its scale, and how far along the
# places it stays about the same.
_SMOOTHNESS = (
    *((0.1, 0.7), (0.5, 0.7), (1.0, 0.3), (2.0, 1.5), (5.0, 3.0)),
    *((3.0, 0.1), (3.0, 0.3), (3.0, 0.7)),
)
_QUADRATIC = 4.0  # scale of the quadratic part, in widths of the coordinate: any hump is likely
_ENDS = 0.8  # of the places' distances are logistic: densities change most where cells end
_ROUGH = 1e-2  # scale of what is not smooth
_LEVEL, _APART = 1.0, 2.0  # scales of the level of all cells, and of that of each cell apart
_APART_SHARE = 0.02  # of a cell apart, before anything is known
_ONE_MORE = 2.0  # reports of the largest weight, added to a variance: counts may be small
_NOTHING = 1e-4  # of that: a variance that is none but for rounding
_STEPS, _STILL = 30, 1e-2  # Newton's, and the gain in log-probability at which they end


@dataclass(frozen=True)
class Counted:
    """Counts of reports, and their law."""

    law: Floats  # (reports, cells): the probability of each report for each cell
    counts: Floats  # (reports,): how many users sent each


@dataclass(frozen=True)
class Prior:
    """What is likely of the shares of cells, before anybody reports."""

    likely: Floats  # (cells,): the shares of cells in order that an even density would have
    apart: NDArray[np.bool_]  # (cells,): cells that say nothing of their neighbours
    # (cells,): in one of which the density's logarithm may be quadratic, but for a smooth rest
    coordinates: Sequence[Floats] = ()

    @property
    def base(self) -> Floats:
        """The shares of all cells, one more of which, the last, is of users without an entry."""
        apart = np.append(self.apart, True)
        shares = np.append(self.likely, 0.0)
        ordered = np.where(apart, 0.0, shares)
        left = 1 - _APART_SHARE * apart.sum()
        return np.asarray(np.where(apart, _APART_SHARE, left * ordered / ordered.sum()))

    def roots(self) -> list[Floats]:
        """Return the Cholesky factors of the covariances of the logarithms, one of each kind."""
        ordered = np.flatnonzero(~self.apart)
        cells = len(ordered)
        even = (np.arange(cells) + 0.5) / cells
        logistic = (logit(even) / logit(even[-1]) + 1) / 2 if cells > 1 else even
        at = (1 - _ENDS) * even + _ENDS * logistic
        apart = _APART**2 * np.eye(len(self.apart) + 1)
        found = []
        for along in (np.zeros(len(self.apart)), *self.coordinates):
            x = along[ordered]
            hump = _QUADRATIC**2 * (np.outer(x, x) + np.outer(x**2, x**2))
            for scale, length in _SMOOTHNESS:
                far = np.sqrt(5) * np.abs(at[:, None] - at) / length
                smooth = scale**2 * (1 + far + far**2 / 3) * np.exp(-far)
                rough = _ROUGH**2 * np.eye(cells)
                covariance = apart.copy()
                covariance[np.ix_(ordered, ordered)] = smooth + hump + _LEVEL**2 + rough
                found.append(np.asarray(np.linalg.cholesky(covariance), np.float64))
        return found


def draw_densities(parts: Sequence[Counted], prior: Prior, normals: Floats) -> Floats:
    """Return draws from the posterior of the shares of cells, shape (cells + 1, draws).

    The laws of the reports have one cell more than there are in order, apart from these.
    Independent standard normal numbers, shape (cells + 1, draws / 2), decide the draws.

    The logarithm of the shares over ``base`` is a Gaussian process: the Matern covariance of order
    5/2 along the cells, whose first and last are further apart than others, and a quadratic
    function of one of the coordinates or of none. So the smoothest densities are even, normal and
    lognormal ones (Silverman, 1982). Kinds are averaged by their evidence. Each posterior is taken
    for normal around its mode (Laplace), in the shares: in their logarithms it would put too many
    users into cells that hold hardly any. Draws come in pairs on both sides of the mode, so that
    they have it as their mean.
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
    """Return shares whose logarithms are off by a little, and the last one by any amount."""
    ordered = mode[:-1, None] / mode[:-1].sum()
    mean = (ordered * off[:-1]).sum(axis=0)
    odds = mode[-1] / mode[:-1].sum() * np.exp(off[-1] - mean)
    return np.vstack([ordered * (1 + off[:-1] - mean) / (1 + odds), odds / (1 + odds)])


@dataclass(frozen=True)
class _Fit:
    evidence: float
    mode: Floats
    precision: Floats  # its Cholesky factor
    root: Floats  # what makes the process of independent normals


def _shares(base: Floats, logs: Floats) -> Floats:
    raised = base * np.exp(logs - logs.max(axis=0))
    return np.asarray(raised / raised.sum(axis=0))


def _fitted(law: Floats, counts: Floats, base: Floats, root: Floats) -> _Fit:
    """Find the mode by Newton's method, with steps made shorter where they overshoot."""

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
    return _Fit(-lowest - float(np.log(np.diag(precision)).sum()), white, precision, root)


@dataclass(frozen=True)
class LinearEstimates:
    """Unbiased estimates of averages of a distribution function."""

    # (estimates,): the edges between which each is an average: it is neither below the function at
    # the first nor above it at the last
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    # (estimates, 3): of all users: the share that is estimated, its variance, and its covariance
    # with the share of users with an entry
    values: Floats
    held: Floats  # (2,): the share of users with an entry, and its variance
    # (draws,): of the largest deviation of all at once, in standard errors: draws, in order
    deviations: Floats

    def band(self, level: float, edges: int) -> tuple[Floats, Floats]:
        """Return lower and upper ends at all edges, which hold together with this probability."""
        z = float(np.quantile(self.deviations, level))
        below, above = self._intervals(z)
        lower, upper = np.zeros(edges), np.ones(edges)
        np.maximum.at(lower, self.last, below)
        np.minimum.at(upper, self.first, above)
        lower[-1], upper[0] = 1.0, 0.0
        return np.maximum.accumulate(lower), np.minimum.accumulate(upper[::-1])[::-1]

    def _intervals(self, z: float) -> tuple[Floats, Floats]:
        """Return intervals of the ratios to the share of users with an entry (Fieller, 1954)."""
        share, variance, covariance = self.values.T
        held, held_variance = self.held
        square = held**2 - z**2 * held_variance
        if not square > 0:  # nobody may have an entry
            return np.zeros(len(share)), np.ones(len(share))
        middle = share * held - z**2 * covariance
        rest = share**2 - z**2 * variance
        reach = np.sqrt(np.maximum(middle**2 - square * rest, 0))
        return np.clip((middle - reach) / square, 0, 1), np.clip((middle + reach) / square, 0, 1)


def linear_estimates(counted: Counted, likely: Floats, normals: Floats) -> LinearEstimates:
    """Return estimates of averages over 1, 2, 4, ... cells in order, all along these.

    The last cell of the reports' law is of users without an entry; the better the likely shares of
    all cells are, the less noise there is. A weight of each report, such that the expected one
    falls from 1 to 0 in equal steps from cell to cell, estimates such an average. Of all such
    weights these have the least variance. Together they are normal with the covariance that the
    reports' frequencies give.
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
    return LinearEstimates(
        first,
        last,
        np.column_stack([estimates[:-1], variances + more, with_held]),
        np.array([estimates[-1], covariance[-1, -1]]),
        np.sort(drawn.max(axis=0)),
    )


def _windows(cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first and last edges of averages over 1, 2, 4, ... cells, each half over the next."""
    pairs, width = [(edge, edge) for edge in range(1, cells)], 2
    while width < cells:
        pairs += [(at, at + width) for at in range(0, cells + 1 - width, width // 2)]
        width *= 2
    first, last = np.array(pairs or [(0, cells)], np.int64).T
    return first, last
