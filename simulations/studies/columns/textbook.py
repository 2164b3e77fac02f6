"""The textbook's distribution functions under local privacy, of entries in [0, 1]."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from ldp_flower.randomizers import best_frequency_oracle

Floats = NDArray[np.float64]

_FLAT, _LEAVES, _FAN_OUT, _BINS = 64, 256, 4, 256
_WAVE_LEVELS = 4  # of 4, 5, 6 and 8, with equal or falling shares of users, the best (seeds 0-2)


def flat(entries: Floats, epsilon: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Count 64 cells by the best oracle, and make their sums monotone; return edges, shares."""
    return _monotone(_shares(_cells(entries, _FLAT), _FLAT, epsilon, rng)[0])


def hierarchy(entries: Floats, epsilon: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Count a tree of fan-out 4, one level a user, and make it consistent (Hay et al., 2010)."""
    levels = round(math.log(_LEAVES, _FAN_OUT))
    of_user = rng.integers(0, levels, len(entries))
    counted = []
    for level in range(levels):
        size = _FAN_OUT ** (level + 1)
        shares, variance = _shares(_cells(entries[of_user == level], size), size, epsilon, rng)
        counted.append((shares, variance / (of_user == level).sum()))
    shares, variance = counted[-1]
    upwards = [shares]
    for own, own_variance in reversed(counted[:-1]):
        children = upwards[0].reshape(-1, _FAN_OUT).sum(axis=1)
        weight = _FAN_OUT * variance / (own_variance + _FAN_OUT * variance)
        upwards.insert(0, weight * own + (1 - weight) * children)
        variance = weight * own_variance
    parents = np.ones(1)
    for shares in upwards:
        children = shares.reshape(-1, _FAN_OUT)
        parents = (children + ((parents - children.sum(axis=1)) / _FAN_OUT)[:, None]).ravel()
    return _monotone(parents)


def wavelet(entries: Floats, epsilon: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Estimate Haar coefficients, coarse ones first, a level a user (after Zhao et al., 2025)."""
    of_user = rng.integers(0, _WAVE_LEVELS, len(entries))
    shares = np.ones(1)
    for level in range(_WAVE_LEVELS):
        size = 2 << level
        halves, _ = _shares(_cells(entries[of_user == level], size), size, epsilon, rng)
        coefficients = halves[::2] - halves[1::2]
        shares = np.column_stack([shares + coefficients, shares - coefficients]).ravel() / 2
    return _monotone(shares)


def square_wave(entries: Floats, epsilon: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Report by the square wave and read by EM with smoothing (Li et al., 2020)."""
    e = math.exp(epsilon)
    reach = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    far = 1 / (2 * reach * e + 1)
    users = len(entries)
    draw = rng.random(users)
    beyond = np.where(draw < entries, draw - reach, draw + reach)
    near = entries + reach * (2 * rng.random(users) - 1)
    reports = np.where(rng.random(users) < 2 * reach * e * far, near, beyond)
    edges = np.linspace(-reach, 1 + reach, _BINS + 1)
    counts = np.histogram(reports, edges)[0].astype(np.float64)
    middles = (np.arange(_BINS) + 0.5) / _BINS
    inside = np.clip(edges[:, None], middles - reach, middles + reach) - (middles - reach)
    law = np.diff(far * (edges[:, None] + reach) + (e - 1) * far * inside, axis=0)
    law /= law.sum(axis=0)
    shares, before = np.full(_BINS, 1 / _BINS), -math.inf
    for _ in range(10_000):
        shares = shares * (law.T @ (counts / np.maximum(law @ shares, 1e-12)))
        padded = np.concatenate([shares[:1], shares, shares[-1:]])
        shares = (padded[:-2] + 2 * shares + padded[2:]) / 4
        shares /= shares.sum()
        told = float(counts @ np.log(np.maximum(law @ shares, 1e-300)))
        if abs(told - before) < 1e-3 * e:
            break
        before = told
    return np.linspace(0, 1, _BINS + 1), np.concatenate([[0], np.cumsum(shares)])


TEXTBOOK = {
    "flat": flat,
    "hierarchy": hierarchy,
    "wavelet": wavelet,
    "square wave": square_wave,
}


def _cells(entries: Floats, size: int) -> NDArray[np.int64]:
    return np.minimum((entries * size).astype(np.int64), size - 1)


def _shares(
    cells: NDArray[np.int64], size: int, epsilon: float, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Return estimated shares of cells, and the variance of one report."""
    oracle = best_frequency_oracle(epsilon, size, len(cells))
    reports = oracle.randomize(cells[:, None], rng)
    return oracle.mean(reports), oracle.variance


def _monotone(shares: Floats) -> tuple[Floats, Floats]:
    inner = np.clip(isotonic_regression(np.cumsum(shares)[:-1]).x, 0, 1)
    return np.linspace(0, 1, len(shares) + 1), np.concatenate([[0], inner, [1]])
