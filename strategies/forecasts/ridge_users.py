"""What users answer who are asked for ridge coefficients of their own few rows."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import ResidualCoefficients

from ..numerics.attenuation import ridge_moments
from .answers import normal_quantiles

Floats = NDArray[np.float64]

_SCALES = 16  # quantiles of users' own scales
_LEAST = 1e-9  # share of the targets' variance that is never explained


@dataclass(frozen=True)
class RidgeUsers:
    """Users whose targets are a linear function of independent features, plus noise.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        The coefficients, in units of the targets' scale.
    scale : float
        Root mean square of the targets.
    rows : float
        Rows of a user.
    """

    coef: Floats
    scale: float
    rows: float

    def told(self, question: ResidualCoefficients, radius: float) -> tuple[Floats, Floats]:
        """Return the mean of the users' vectors, shortened to a radius, and their variance.

        Notes
        -----
        By the law of Marchenko and Pastur ridge regression leaves ``factor`` of a coefficient,
        and variance from noise and from what it leaves of others; ``factor - ridge noise`` is
        the mean square of what is left.
        """
        wanted = question.coordinates
        wanted = np.arange(len(self.coef)) if wanted is None else wanted
        ridge, weights, each_row = question.ridge, question.weights, len(wanted) / self.rows
        off = self.coef - question.theta
        rest = max(1 - float(self.coef @ self.coef) + float(off @ off), _LEAST)
        off = off[wanted] / math.sqrt(rest)
        unexplained = max(1 - float(off @ off), _LEAST)
        factor, noise = ridge_moments(each_row, ridge)
        left = max(factor - ridge * noise - factor**2, 0.0) / len(wanted)
        variance = unexplained * noise / self.rows + (1 - unexplained) * left
        bent = (1 + ridge - each_row) / (1 + ridge + each_row)
        logs = np.zeros(1)
        if question.scale is not None and question.scale_weight is not None:
            own = self.scale / question.scale * _own_scales(self.rows)
            logs = question.scale_weight * np.log(own)
        means, variances = _shortened(
            weights * factor * off, weights**2 * variance, bent, logs, radius
        )
        wide = len(wanted) + (question.scale is not None)
        return means[:wide], variances[:wide]


def _shortened(
    mean: Floats, variance: Floats, bent: float, last: Floats, radius: float
) -> tuple[Floats, Floats]:
    """Return the mean and the variance of normal vectors, and a last value, after shortening.

    Parameters
    ----------
    mean, variance : ndarray of float64, shape (k,)
        Of the vectors.
    bent : float
        By which power of their features' length the vectors' squared length changes.
    last : ndarray of float64, shape (quantiles,)
        Quantiles of the last value.
    radius : float
        The longest that is left as it is.

    Notes
    -----
    A vector loses more of its mean than of its length where it is longer since it points there
    (Stein's lemma). As the residuals of a user have one length, a squared length is chi-squared
    with many rows, and hardly varies with many features: with q of them a row ``bent`` is about
    ``(1 + ridge - q) / (1 + ridge + q)``.
    """
    varying, square = float(variance.sum()), float(mean @ mean)
    degrees = varying**2 / float(variance @ variance)
    width = 2 / 9 * bent**2 / degrees  # Wilson & Hilferty (1931)
    cubes = np.maximum(1 - width + math.sqrt(width) * normal_quantiles(), 0.0) ** 3
    squares = (square + varying * cubes)[:, None] + last**2
    factors = np.minimum(1.0, radius / np.sqrt(squares))
    less = np.where(factors < 1, bent * varying / degrees / squares, 0.0)
    told = factors * last
    mean, variance = np.mean(factors * (1 - less)) * mean, np.mean(factors**2) * variance
    return np.append(mean, np.mean(told)), np.append(variance, np.var(told))


@lru_cache
def _own_scales(rows: float) -> Floats:
    """Return quantiles of users' root mean squares, over the common one."""
    from scipy.special import chdtri

    shares = (np.arange(_SCALES) + 0.5) / _SCALES
    return np.asarray(np.sqrt(chdtri(rows, 1 - shares) / rows))
