"""A smooth density over cells in order, from counts of randomised reports about cells."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logit

Floats = NDArray[np.float64]

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


@dataclass(frozen=True)
class Prior:
    """What is likely of the shares of cells, before anybody reports.

    Attributes
    ----------
    likely : ndarray, shape (cells,)
        The shares of cells in order that an even density would have.
    apart : ndarray of bool, shape (cells,)
        Cells that tell nothing of their neighbours.
    coordinates : sequence of ndarray, shape (cells,)
        In one of which the density's logarithm may be quadratic, but for a smooth rest.
    """

    likely: Floats
    apart: NDArray[np.bool_]
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

    Parameters
    ----------
    parts : sequence of Counted
        All reports; their laws have one cell more than there are in order, which is apart from
        these.
    prior : Prior
        Of the cells in order.
    normals : ndarray, shape (cells + 1, draws / 2)
        Independent standard normal numbers, which decide the draws.

    Notes
    -----
    The logarithm of the shares over ``base`` is a Gaussian process: the Matern covariance of
    order 5/2 along the cells, whose first and last are further apart than others, and a quadratic
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
