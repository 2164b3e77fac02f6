"""What takes noise off an estimate: thresholds, shortening, sets that the truth lies in.

And how much of a coefficient clipping and ridge regression leave. Clipping is of normal numbers of
mean 0, with bounds in units of their standard deviation.
"""

import math

import numpy as np
from scipy.special import chdtr, chdtrc, gammaln, ndtr

from ldp_flower.validation import Floats


def keep_above(vector: Floats, threshold: Floats | float) -> Floats:
    """Set the entries whose magnitude is at most ``threshold`` to zero."""
    return np.where(np.abs(vector) > threshold, vector, 0.0)


def soften(vector: Floats, amount: float) -> Floats:
    """Move every entry towards 0 by ``amount``, the proximal map of a sum of absolute values."""
    return np.asarray(np.sign(vector) * np.maximum(np.abs(vector) - amount, 0.0))


def garrote(vector: Floats, threshold: float) -> Floats:
    """Set what is below ``threshold`` to zero and shrink what is barely above.

    The factor ``1 - (threshold / entry)**4`` leaves entries of twice the threshold almost as they
    are, and makes noise that happens to stand out small (a garrote, Breiman 1995, of a higher
    power).
    """
    sizes = np.maximum(np.abs(vector), max(threshold, np.finfo(float).tiny))
    return np.asarray(vector * (1 - (threshold / sizes) ** 4))


def shrink(vector: Floats, variance: float) -> Floats:
    """Shorten an estimate by what noise of this variance adds to it (James and Stein, 1961)."""
    surplus = max(len(vector) - 2, 0) * variance
    square = float(vector @ vector)
    return vector * (1 - surplus / square) if square > surplus else np.zeros_like(vector)


def project_on_simplex(vector: Floats, total: float = 1.0) -> Floats:
    """Return the closest numbers >= 0 of this sum (Duchi, Shalev-Shwartz et al., 2008)."""
    descending = np.sort(vector)[::-1]
    amounts = (np.cumsum(descending) - total) / np.arange(1, len(vector) + 1)
    amount = amounts[np.flatnonzero(descending > amounts)[-1]]
    return np.asarray(np.maximum(vector - amount, 0.0))


def project_on_l1_ball(vector: Floats, radius: float) -> Floats:
    """Return the closest vector whose absolute values add up to at most ``radius``."""
    sizes = np.abs(vector)
    if sizes.sum() <= radius:
        return vector
    return np.asarray(np.sign(vector) * project_on_simplex(sizes, radius))


def raise_eigenvalues(matrix: Floats, least: float = 0.0) -> Floats:
    """Return the closest symmetric matrix with no eigenvalue below ``least``."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    raised = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray((raised + raised.T) / 2)


def kept(bound: float) -> float:
    """Return how much of their slope in anything numbers keep that are clipped at ``bound``."""
    return float(2 * ndtr(bound) - 1)


def clipped_square(bound: float) -> float:
    """Return the mean square of numbers clipped at ``bound``, over its square."""
    density = math.exp(-(bound**2) / 2) / math.sqrt(2 * math.pi)
    within = kept(bound) - 2 * bound * density
    return float(within / bound**2 + 2 * ndtr(-bound))


def shortened_slope(degrees: float, radius: Floats | float) -> Floats:
    """Return how much a mean keeps when normal vectors around it are shortened to a radius.

    The radius is over the root mean square of their length. Where coordinates' variances differ,
    ``degrees`` is that of the chi-square that the squared length is in proportion to.

    The mean derivative ``P(|v| < R) + R (1 - 1 / d) E[1 / |v|; |v| > R]``: a vector on the sphere
    follows its mean in all directions but its own.
    """
    squares = degrees * np.square(radius)
    within = chdtr(degrees, squares)
    if degrees <= 1:
        return np.asarray(within)
    log_inverse = gammaln((degrees - 1) / 2) - gammaln(degrees / 2)
    inverse = math.exp(log_inverse) * math.sqrt(degrees / 2)
    return np.asarray(within + radius * (1 - 1 / degrees) * inverse * chdtrc(degrees - 1, squares))


def ridge_moments(columns_per_row: float, ridge: float) -> tuple[float, float]:
    """Return the factor that ridge regression applies to coefficients, and its noise.

    Features are independent and of unit scale, so many per row; the penalty is in units of a
    feature's mean square. The factor is ``E trace(S (S + ridge I)^-1) / k`` for the k features'
    second moments S. The noise, ``E trace(S (S + ridge I)^-2) / k``, is the variance of a
    coefficient, times the number of rows, over that of the residual.

    By the law of Marchenko and Pastur (1967): ``m(z)``, the Stieltjes transform of the eigenvalues
    of S at ``z = -ridge``, solves a quadratic equation. The factor is ``1 - ridge m`` and the noise
    the derivative of ``ridge m`` with respect to the ridge.
    """
    root = math.sqrt((1 - columns_per_row + ridge) ** 2 + 4 * columns_per_row * ridge)
    shrinkage = (root - (1 - columns_per_row + ridge)) / (2 * columns_per_row)  # ridge * m
    slope = ((1 - columns_per_row + ridge + 2 * columns_per_row) / root - 1) / 2
    return 1 - shrinkage, slope / columns_per_row
