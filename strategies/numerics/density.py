"""A smooth density over cells in order, from counts of randomised reports about cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logit

Floats = NDArray[np.float64]

# Of the density's logarithm: its size, and how far along the places it stays about the same.
_SMOOTHNESS = (
    *((0.1, 0.7), (0.5, 0.7), (1.0, 0.3), (2.0, 1.5), (5.0, 3.0)),
    *((3.0, 0.1), (3.0, 0.3), (3.0, 0.7)),
)
_ENDS = 0.8  # of the places' distances are logistic: densities change most where cells end
_ROUGH = 1e-2  # size of what is not smooth
_LEVEL, _APART = 1.0, 2.0  # sizes of the level of all cells, and of that of the last one
_APART_SHARE = 0.02  # of the last cell, before anything is known
_STEPS, _STILL = 30, 1e-2  # Newton's, and the gain in log-probability at which they end


@dataclass(frozen=True)
class Counted:
    """Counts of reports, and their law.

    Attributes
    ----------
    law : ndarray, shape (reports, cells)
        The probability of each report for each cell.
    counts : ndarray, shape (reports,)
        How many users sent each.
    """

    law: Floats
    counts: Floats


def draw_densities(parts: Sequence[Counted], likely: Floats, normals: Floats) -> Floats:
    """Return draws from the posterior of the shares of cells, shape (cells + 1, draws).

    Parameters
    ----------
    parts : sequence of Counted
        All reports; their laws have one cell more than there are in order, which is apart from
        these.
    likely : ndarray, shape (cells,)
        The shares of the cells in order that a density would have which is even in their place.
    normals : ndarray, shape (cells + 1, draws / 2)
        Independent standard normal numbers, which decide the draws.

    Notes
    -----
    The logarithm of the shares over ``likely`` is a Gaussian process with the Matern covariance of
    order 5/2, whose first and last cells are further apart than others; its size and length are
    averaged over a few by their evidence. Each posterior is taken for normal around its mode
    (Laplace), in the shares: in their logarithms it would put too many users into cells that hold
    hardly any. Draws come in pairs on both sides of the mode, so that they have it as their mean.
    """
    law = np.concatenate([part.law for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    cells = len(likely)
    base = np.append((1 - _APART_SHARE) * likely / likely.sum(), _APART_SHARE)
    fits = [_fitted(law, counts, base, _root(cells, *each)) for each in _SMOOTHNESS]
    evidence = np.array([fit.evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    ends = np.rint(normals.shape[1] * np.cumsum(weights) / weights.sum()).astype(np.int64)
    drawn = []
    for part, fit in zip(np.split(normals, ends[:-1], axis=1), fits, strict=True):
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


@lru_cache(maxsize=32)
def _root(cells: int, size: float, length: float) -> Floats:
    """Return the Cholesky factor of the process's covariance."""
    even = (np.arange(cells) + 0.5) / cells
    logistic = (logit(even) / logit(even[-1]) + 1) / 2
    at = (1 - _ENDS) * even + _ENDS * logistic
    far = np.sqrt(5) * np.abs(at[:, None] - at) / length
    covariance = np.zeros((cells + 1, cells + 1))
    smooth = size**2 * (1 + far + far**2 / 3) * np.exp(-far)
    covariance[:cells, :cells] = smooth + _LEVEL**2 + _ROUGH**2 * np.eye(cells)
    covariance[cells, cells] = _APART**2
    return np.asarray(np.linalg.cholesky(covariance), np.float64)


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
