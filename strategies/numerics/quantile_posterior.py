"""Estimate of the position where an increasing function crosses a level, from noisy measurements.

The estimate comes from a posterior. Its interval comes from inversion of tests, and holds for any
increasing function.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from ldp_flower.validation import Floats

# Numbers of positions and of scales of the grid, and number of grids, each finer than the one
# before.
_PLACES, _SLOPES, _ZOOMS = 81, 17, 3
_NARROWEST, _WIDEST = 1e-7, 2.0  # limits of the function's scale, in units of the whole range
_LOST = 2e-4  # posterior probability that is left out at each end by a finer grid
_NOBODY = 1e-3  # number of answers that stands for 0
_FREEDOM = 6.0  # degrees of freedom of a measurement's error
# Possible difference of the function from the curve: linear and quadratic coefficient, of the
# distance from the level.
_BEND = (0.1, 1.0)
_FULL_WEIGHT = 0.15  # distance from the level up to which measurements have nearly full weight


@dataclass(frozen=True)
class Crossing:
    """Posterior of the position of a crossing."""

    # Positions from 0 to 1 at equal distances, and the posterior probability of each
    places: Floats
    weights: Floats
    level: float
    scale: float  # scale of the logistic curve that is nearest to the function at the level
    # Logarithm of the marginal likelihood of the measurements. Of several scales for positions,
    # the one with the largest evidence is best
    evidence: float

    def quantile(self, share: ArrayLike) -> Floats:
        """Return the positions that the crossing is below with each probability in ``share``."""
        half = (self.places[1] - self.places[0]) / 2
        below = np.concatenate([[0.0], np.cumsum(self.weights)])
        edges = np.concatenate([[self.places[0] - half], self.places + half])
        found = np.interp(np.asarray(share, np.float64), below, edges)
        return np.asarray(np.clip(found, 0.0, 1.0))

    def curve(self, places: Floats, at: Floats | float) -> Floats:
        """Return, at ``places``, the logistic curve that crosses the level at position ``at``."""
        return np.asarray(expit(logit(self.level) + (places - at) / self.scale))

    def slope(self) -> float:
        """Return the slope with which the curve crosses the level."""
        return self.level * (1 - self.level) / self.scale


def crossing_posterior(
    places: Floats, values: Floats, counts: Floats, noise: float, level: float
) -> Crossing:
    """Return the posterior of the position where a function crosses ``level``.

    The function was measured at ``places`` from 0 to 1, shape (m,). ``values`` are means of
    ``counts`` answers. An answer is a bit, which is one with the function's probability, plus noise
    of variance ``noise``.

    Near the level the function is modelled as a logistic curve of unknown position and scale. A
    measurement at distance r from the level may be off the curve by ``0.1 r + r**2``. If it is far
    away, it therefore shows hardly more than the side of the level. Errors have the tails of a
    t-distribution.
    """
    low, high = 0.0, 1.0
    narrow, wide = np.log(_NARROWEST), np.log(_WIDEST)
    centre = logit(level)
    for _ in range(_ZOOMS):
        at, logs = np.linspace(low, high, _PLACES), np.linspace(narrow, wide, _SLOPES)
        curve = expit(centre + (places - at[:, None, None]) / np.exp(logs)[:, None])
        off = np.abs(curve - level)
        spread = (noise + curve * (1 - curve)) / np.maximum(counts, _NOBODY)
        spread += (_BEND[0] * off + _BEND[1] * off**2) ** 2
        misfit = np.log1p((values - curve) ** 2 / spread / _FREEDOM)
        likelihoods = (-(_FREEDOM + 1) / 2 * misfit - np.log(spread) / 2).sum(axis=-1)
        joint = np.exp(likelihoods - likelihoods.max())
        area = (at[1] - at[0]) * (logs[1] - logs[0])
        evidence = float(likelihoods.max() + np.log(area * joint.sum()))
        joint /= joint.sum()
        weights, by_scale = joint.sum(axis=1), joint.sum(axis=0)
        low, high = np.clip(_core(at, weights, _LOST, 2), 0.0, 1.0)
        narrow, wide = _core(logs, by_scale, 5 * _LOST, 1)
    return Crossing(at, weights, level, float(np.exp(logs @ by_scale)), evidence)


def _core(grid: Floats, weights: Floats, lost: float, more: int) -> tuple[float, float]:
    """Return the range of a grid that holds all weight except ``lost`` at each end.

    The range is extended by ``more`` steps of the grid on both sides.
    """
    below = np.cumsum(weights)
    first = int(np.searchsorted(below, lost))
    last = min(int(np.searchsorted(below, 1 - lost)), len(grid) - 1)
    step = grid[1] - grid[0]
    return float(grid[first] - more * step), float(grid[last] + more * step)


def pooled(belief: Crossing, places: Floats, values: Floats, counts: Floats) -> float:
    """Return the crossing at which the curve agrees with nearby measurements on average.

    Measurements are weighted by their counts and by their distance from the level.
    """
    at = float(belief.quantile(0.5))
    first, last = belief.quantile([0.03, 0.97]).tolist()
    for _ in range(2):
        off = np.abs(belief.curve(places, at) - belief.level)
        shares = counts / (1 + (off / _FULL_WEIGHT) ** 4)
        candidates = np.linspace(first, last, 401)
        excess = shares @ (values[:, None] - belief.curve(places[:, None], candidates))
        at = float(np.interp(0.0, excess, candidates))
    return min(max(at, 0.0), 1.0)


def enclosing_thresholds(
    excess: Floats, variance: Floats, shared: Floats, curve: Floats, z: float
) -> tuple[int, int]:
    """Return the indices of the thresholds that enclose a quantile; -1 and k are the bounds.

    A value is below the interval only if reports at the thresholds from this value on show that the
    distribution function is below the level there. If the quantile were at the value, monotonicity
    would rule this out at all these thresholds. The other side is tested likewise. Values are
    tested from the bounds inwards, each by one test at ``z`` standard errors, and the interval ends
    at the first value that is not rejected. So each end is wrong with the error probability of one
    test. The distribution is arbitrary: it may have ties, gaps and steps.

    excess, variance: Estimates of the function minus the level, shape (k,), and their variances.
    shared: Standard deviation of the error that all estimates share, times its factor in each.
    curve: Guess of the excess, which weights the reports. A good guess gives short intervals and a
        bad one long intervals, but both are valid.
    """
    lower = _first_kept(-excess, variance, shared, np.maximum(-curve, 0.0), z) - 1
    above = np.maximum(curve, 0.0)
    upper = len(excess) - _first_kept(excess[::-1], variance[::-1], shared[::-1], above[::-1], z)
    return min(lower, upper), max(lower, upper)


def _first_kept(
    deficit: Floats, variance: Floats, shared: Floats, weights: Floats, z: float
) -> int:
    """Return the first index from which on the reports together show no deficit."""

    def onwards(terms: Floats) -> Floats:
        return np.asarray(np.cumsum(terms[::-1])[::-1])

    precise = weights / variance
    found = onwards(precise * deficit)
    spread = np.sqrt(onwards(precise * weights) + onwards(precise * shared) ** 2)
    return int(np.argmax(np.append((found < z * spread) | (spread <= 0), True)))
