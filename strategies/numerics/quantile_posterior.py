"""Where an increasing function crosses a level, from noisy measurements of it.

A posterior finds it; an interval by inversion of tests holds whatever the function is like.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from ldp_flower.validation import Floats

_PLACES, _SLOPES, _ZOOMS = 81, 17, 3  # points of a grid, which is refined as often
_NARROWEST, _WIDEST = 1e-7, 2.0  # scales of the function, in units of the whole range
_LOST = 2e-4  # of the posterior, beyond the range that is looked at more closely
_NOBODY = 1e-3  # answers, where there are none
_FREEDOM = 6.0  # degrees of freedom of a measurement's error
# What the function may differ from the curve, at a distance from the level: linear, quadratic.
_BEND = (0.1, 1.0)
_NEAR = 0.15  # the distance from the level up to which measurements count fully in the end


@dataclass(frozen=True)
class Crossing:
    """What is believed about a crossing."""

    # Places from 0 to 1 at equal distances, and the posterior probability of each
    places: Floats
    weights: Floats
    level: float
    scale: float  # of the logistic curve through the level that is nearest to the function
    # Logarithm of how likely the measurements were: of some scales on which places can be reported,
    # the one is best on which they were likeliest
    evidence: float

    def quantile(self, share: ArrayLike) -> Floats:
        """Return the places below which the crossing lies with these probabilities."""
        half = (self.places[1] - self.places[0]) / 2
        below = np.concatenate([[0.0], np.cumsum(self.weights)])
        edges = np.concatenate([[self.places[0] - half], self.places + half])
        found = np.interp(np.asarray(share, np.float64), below, edges)
        return np.asarray(np.clip(found, 0.0, 1.0))

    def curve(self, places: Floats, at: float) -> Floats:
        """Return the curve that crosses the level at a place."""
        return np.asarray(expit(logit(self.level) + (places - at) / self.scale))

    def slope(self) -> float:
        """Return the slope of the curve at the level."""
        return self.level * (1 - self.level) / self.scale


def believed(
    places: Floats, values: Floats, counts: Floats, noise: float, level: float
) -> Crossing:
    """Return the posterior of where a function crosses ``level``.

    It was measured at ``places`` from 0 to 1, shape (m,): ``values`` are means of ``counts``
    answers, and ``noise`` is an answer's variance beside that of a bit, which is one with the
    function's probability.

    The function is a logistic curve through the level, of unknown place and scale, as far as it is
    near the level: a measurement far from it may be off the curve by ``0.1 r + r**2``, r the
    distance, so that it says hardly more than on which side it lies. Errors have the tails of a
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
    """Return the range of a grid that holds all but so much, and some steps more."""
    below = np.cumsum(weights)
    first = int(np.searchsorted(below, lost))
    last = min(int(np.searchsorted(below, 1 - lost)), len(grid) - 1)
    step = grid[1] - grid[0]
    return float(grid[first] - more * step), float(grid[last] + more * step)


def pooled(belief: Crossing, places: Floats, values: Floats, counts: Floats) -> float:
    """Return the crossing with which measurements near it agree on average, by their counts."""
    centre, at = logit(belief.level), float(belief.quantile(0.5))
    first, last = belief.quantile([0.03, 0.97]).tolist()
    for _ in range(2):
        off = np.abs(expit(centre + (places - at) / belief.scale) - belief.level)
        shares = counts / (1 + (off / _NEAR) ** 4)
        candidates = np.linspace(first, last, 401)
        curves = expit(centre + (places[:, None] - candidates) / belief.scale)
        excess = shares @ (values[:, None] - curves)
        at = float(np.interp(0.0, excess, candidates))
    return min(max(at, 0.0), 1.0)


def inverted(
    excess: Floats, variance: Floats, shared: Floats, curve: Floats, z: float
) -> tuple[int, int]:
    """Return the places of the thresholds between which a quantile lies; -1 and k are the bounds.

    A value is below the interval only if reports at thresholds from it on say that the distribution
    function is below the level there, which monotonicity forbids for all of them alike; above it,
    likewise. Values are tested from the bounds inwards, each by one test at ``z`` standard errors,
    and the first one that is not rejected ends the interval: each end is wrong with the probability
    of one test. Nothing is assumed of the distribution, which may have ties, gaps and steps.

    excess, variance: Estimates of the function less the level, shape (k,), and their variances.
    shared: Standard deviation of an error that all of them share, times which each has it.
    curve: What the excess may be. Reports are weighed by it: a good guess gives short intervals, a
        bad one long ones, and neither wrong ones.
    """
    lower = _first_kept(-excess, variance, shared, np.maximum(-curve, 0.0), z) - 1
    above = np.maximum(curve, 0.0)
    upper = len(excess) - _first_kept(excess[::-1], variance[::-1], shared[::-1], above[::-1], z)
    return min(lower, upper), max(lower, upper)


def _first_kept(
    deficit: Floats, variance: Floats, shared: Floats, weights: Floats, z: float
) -> int:
    """Return the first place from which on reports do not say that there is a deficit."""

    def onwards(terms: Floats) -> Floats:
        return np.asarray(np.cumsum(terms[::-1])[::-1])

    precise = weights / variance
    found = onwards(precise * deficit)
    spread = np.sqrt(onwards(precise * weights) + onwards(precise * shared) ** 2)
    return int(np.argmax(np.append((found < z * spread) | (spread <= 0), True)))
