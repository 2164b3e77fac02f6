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

        A vector that is shortened loses more of its mean than of its length where it is longer
        since it points there (Stein's lemma). Users' residuals have one length, so that with many
        rows a squared length is chi-squared, and with many features hardly varies: its logarithm
        changes with that of the features' by ``(1 + ridge - q) / (1 + ridge + q)`` for q
        features a row, about.
        """
        wanted = question.coordinates
        wanted = np.arange(len(self.coef)) if wanted is None else wanted
        rows, ridge, weights = self.rows, question.ridge, question.weights
        off = self.coef - question.theta
        rest = 1 - float(self.coef @ self.coef) + float(off @ off)
        off = off[wanted] / math.sqrt(rest)
        explained = min(float(off @ off), 1.0)
        each_row = len(wanted) / rows
        factor, noise = ridge_moments(each_row, ridge)
        mean = weights * factor * off
        left = max(factor - ridge * noise - factor**2, 0.0) / len(wanted)
        variance = weights**2 * ((1 - explained) * noise / rows + explained * left)
        varying, square = float(variance.sum()), float(mean @ mean)
        degrees = varying**2 / float(variance @ variance)
        bent = (1 + ridge - each_row) / (1 + ridge + each_row)
        width = 2 / 9 * bent**2 / degrees  # Wilson & Hilferty (1931)
        cubes = np.maximum(1 - width + math.sqrt(width) * normal_quantiles(), 0.0) ** 3
        squares = (square + varying * cubes)[:, None]
        logs = np.zeros(1)
        if question.scale is not None and question.scale_weight is not None:
            logs = question.scale_weight * np.log(self.scale / question.scale * _own_scales(rows))
        squares = squares + logs**2 + 1e-300
        factors = np.minimum(1.0, radius / np.sqrt(squares))
        less = np.where(factors < 1, bent * varying / degrees / squares, 0.0)
        mean = float(np.mean(factors * (1 - less))) * mean
        variance = float(np.mean(factors**2)) * variance
        if question.scale is None:
            return mean, variance
        told = factors * logs
        return np.append(mean, np.mean(told)), np.append(variance, np.var(told))


@lru_cache
def _own_scales(rows: float) -> Floats:
    """Return quantiles of users' root mean squares, over the common one."""
    from scipy.special import chdtri

    shares = (np.arange(_SCALES) + 0.5) / _SCALES
    return np.sqrt(chdtri(rows, 1 - shares) / rows)
