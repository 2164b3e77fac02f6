"""How much of a coefficient is left: of clipped numbers, and after ridge regression.

Clipping is of normal numbers of mean 0, with bounds in units of their standard deviation.
"""

import math

from scipy.special import ndtr


def kept(bound: float) -> float:
    """Return how much of their slope in anything numbers keep that are clipped at ``bound``."""
    return float(2 * ndtr(bound) - 1)


def clipped_square(bound: float) -> float:
    """Return the mean square of numbers clipped at ``bound``, over its square."""
    density = math.exp(-(bound**2) / 2) / math.sqrt(2 * math.pi)
    within = kept(bound) - 2 * bound * density
    return float(within / bound**2 + 2 * ndtr(-bound))


def ridge_moments(columns_per_row: float, ridge: float) -> tuple[float, float]:
    """Return the factor that ridge regression applies to coefficients, and its noise.

    Features are independent and of unit scale.

    Parameters
    ----------
    columns_per_row : float
        Number of features over number of rows.
    ridge : float
        Penalty, in units of a feature's mean square.

    Returns
    -------
    factor : float
        ``E trace(S (S + ridge I)^-1) / k`` for the k features' second moments S.
    noise : float
        ``E trace(S (S + ridge I)^-2) / k``: the variance of a coefficient, times the number
        of rows, over that of the residual.

    Notes
    -----
    By the law of Marchenko and Pastur (1967): ``m(z)``, the Stieltjes transform of the
    eigenvalues of S at ``z = -ridge``, solves a quadratic equation. The factor is ``1 -
    ridge m`` and the noise the derivative of ``ridge m`` with respect to the ridge.
    """
    root = math.sqrt((1 - columns_per_row + ridge) ** 2 + 4 * columns_per_row * ridge)
    shrinkage = (root - (1 - columns_per_row + ridge)) / (2 * columns_per_row)  # ridge * m
    slope = ((1 - columns_per_row + ridge + 2 * columns_per_row) / root - 1) / 2
    return 1 - shrinkage, slope / columns_per_row
