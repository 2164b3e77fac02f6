"""How much of a coefficient is left: of clipped numbers and vectors, after ridge regression.

Clipping is of normal numbers of mean 0, with bounds in units of their standard deviation.
"""

import math

from scipy.special import chdtr, chdtrc, gammaln, ndtr


def kept(bound: float) -> float:
    """Return how much of their slope in anything numbers keep that are clipped at ``bound``."""
    return float(2 * ndtr(bound) - 1)


def clipped_square(bound: float) -> float:
    """Return the mean square of numbers clipped at ``bound``, over its square."""
    density = math.exp(-(bound**2) / 2) / math.sqrt(2 * math.pi)
    within = kept(bound) - 2 * bound * density
    return float(within / bound**2 + 2 * ndtr(-bound))


def shortened_slope(degrees: float, radius: float) -> float:
    """Return how much a mean keeps when normal vectors around it are shortened to a radius.

    degrees: Number of coordinates, of one variance; where variances differ, the degrees of freedom
        of the chi-square that the squared length is in proportion to.
    radius: The longest that a vector may be, over the root mean square of its length.

    The mean derivative ``P(|v| < R) + R (1 - 1 / d) E[1 / |v|; |v| > R]``: a vector on the sphere
    follows its mean in all directions but its own.
    """
    within = float(chdtr(degrees, degrees * radius**2))
    if degrees <= 1:
        return within
    log_inverse = gammaln((degrees - 1) / 2) - gammaln(degrees / 2)
    inverse = math.exp(log_inverse) * math.sqrt(degrees / 2)
    beyond = inverse * float(chdtrc(degrees - 1, degrees * radius**2))
    return within + radius * (1 - 1 / degrees) * beyond


def ridge_moments(columns_per_row: float, ridge: float) -> tuple[float, float]:
    """Return the factor that ridge regression applies to coefficients, and its noise.

    Features are independent and of unit scale.

    columns_per_row: Number of features over number of rows.
    ridge: Penalty, in units of a feature's mean square.

    factor: ``E trace(S (S + ridge I)^-1) / k`` for the k features' second moments S.
    noise: ``E trace(S (S + ridge I)^-2) / k``: the variance of a coefficient, times the number of
        rows, over that of the residual.

    By the law of Marchenko and Pastur (1967): ``m(z)``, the Stieltjes transform of the
    eigenvalues of S at ``z = -ridge``, solves a quadratic equation. The factor is ``1 -
    ridge m`` and the noise the derivative of ``ridge m`` with respect to the ridge.
    """
    root = math.sqrt((1 - columns_per_row + ridge) ** 2 + 4 * columns_per_row * ridge)
    shrinkage = (root - (1 - columns_per_row + ridge)) / (2 * columns_per_row)  # ridge * m
    slope = ((1 - columns_per_row + ridge + 2 * columns_per_row) / root - 1) / 2
    return 1 - shrinkage, slope / columns_per_row
