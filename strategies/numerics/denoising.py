"""Denoising of estimates: thresholds, shrinkage, and projections on sets that contain the truth.

Further functions compute the share of a coefficient that clipping and ridge regression leave. They
assume normal numbers of mean 0, clipped at bounds in units of their standard deviation.
"""

import math

import numpy as np
from scipy.special import chdtr, chdtrc, gammaln, ndtr

from ldp_flower.validation import Floats


def keep_above(vector: Floats, threshold: Floats | float) -> Floats:
    """Return the vector, with entries of magnitude ``threshold`` or less set to zero.

    It removes the entries of an estimate that may be noise alone.
    """
    return np.where(np.abs(vector) > threshold, vector, 0.0)


def soften(vector: Floats, amount: float) -> Floats:
    """Return the vector with every entry moved towards 0 by ``amount``, and not beyond 0.

    It is the proximal map of a sum of absolute values.
    """
    return np.asarray(np.sign(vector) * np.maximum(np.abs(vector) - amount, 0.0))


def garrote(vector: Floats, threshold: float) -> Floats:
    """Set entries below ``threshold`` to zero and shrink entries that are barely above it.

    The factor ``1 - (threshold / entry)**4`` hardly changes entries of twice the threshold, and
    shrinks noise that barely exceeds the threshold. It is a garrote (Breiman, 1995) of a higher
    power.
    """
    sizes = np.maximum(np.abs(vector), max(threshold, np.finfo(float).tiny))
    return np.asarray(vector * (1 - (threshold / sizes) ** 4))


def shrink(vector: Floats, variance: float) -> Floats:
    """Return an estimate, shortened by the length that noise of ``variance`` adds on average.

    It is the estimator of James and Stein (1961).
    """
    surplus = max(len(vector) - 2, 0) * variance
    square = float(vector @ vector)
    return vector * (1 - surplus / square) if square > surplus else np.zeros_like(vector)


def project_on_simplex(vector: Floats, total: float = 1.0) -> Floats:
    """Return the closest vector of numbers >= 0 that sum to ``total``.

    Source: Duchi, Shalev-Shwartz et al., 2008.
    """
    descending = np.sort(vector)[::-1]
    amounts = (np.cumsum(descending) - total) / np.arange(1, len(vector) + 1)
    amount = amounts[np.flatnonzero(descending > amounts)[-1]]
    return np.asarray(np.maximum(vector - amount, 0.0))


def project_on_l1_ball(vector: Floats, radius: float) -> Floats:
    """Return the closest vector whose absolute values sum to at most ``radius``."""
    sizes = np.abs(vector)
    if sizes.sum() <= radius:
        return vector
    return np.asarray(np.sign(vector) * project_on_simplex(sizes, radius))


def raise_eigenvalues(matrix: Floats, least: float = 0.0) -> Floats:
    """Return the closest symmetric matrix with no eigenvalue below ``least``.

    A noisy estimate of a matrix of second moments may have negative eigenvalues.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    raised = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray((raised + raised.T) / 2)


def attenuation(bound: float) -> float:
    """Return the factor by which clipping normal numbers at ``bound`` lowers regression slopes."""
    return float(2 * ndtr(bound) - 1)


def clipped_square(bound: float) -> float:
    """Return the mean square of standard normal numbers clipped at ``bound``, over ``bound**2``.

    Solved for ``bound``, it gives the scale of numbers of which only clipped ones are known.
    """
    density = math.exp(-(bound**2) / 2) / math.sqrt(2 * math.pi)
    within = attenuation(bound) - 2 * bound * density
    return float(within / bound**2 + 2 * ndtr(-bound))


def shortened_slope(degrees: float, radius: Floats | float) -> Floats:
    """Return the factor by which shortening normal vectors to a radius reduces their mean.

    The radius is in units of the vectors' root mean square length. ``degrees`` is the dimension d.
    If the coordinates' variances differ, it is the degrees of freedom of the chi-squared
    distribution that is proportional to the squared length.

    The factor is the mean derivative ``P(|v| < R) + R (1 - 1 / d) E[1 / |v|; |v| > R]``: a vector
    shortened to the sphere follows the mean in all directions but its own.
    """
    squares = degrees * np.square(radius)
    within = chdtr(degrees, squares)
    if degrees <= 1:
        return np.asarray(within)
    log_inverse = gammaln((degrees - 1) / 2) - gammaln(degrees / 2)
    inverse = math.exp(log_inverse) * math.sqrt(degrees / 2)
    return np.asarray(within + radius * (1 - 1 / degrees) * inverse * chdtrc(degrees - 1, squares))


def ridge_moments(columns_per_row: float, ridge: float) -> tuple[float, float]:
    """Return the factor that ridge regression applies to coefficients, and their noise.

    Features are independent and of unit scale; ``columns_per_row`` is the number of features over
    the number of rows. The penalty ``ridge`` is in units of a feature's mean square. The factor is
    ``E trace(S (S + ridge I)^-1) / k`` for the k features' second moments S. The noise,
    ``E trace(S (S + ridge I)^-2) / k``, is the variance of a coefficient, times the number of rows,
    over that of the residual.

    Both follow from the law of Marchenko and Pastur (1967): ``m(z)``, the Stieltjes transform of
    the eigenvalues of S at ``z = -ridge``, solves a quadratic equation. The factor is
    ``1 - ridge m``, and the noise is the derivative of ``ridge m`` with respect to the ridge.
    """
    root = math.sqrt((1 - columns_per_row + ridge) ** 2 + 4 * columns_per_row * ridge)
    shrinkage = (root - (1 - columns_per_row + ridge)) / (2 * columns_per_row)  # ridge * m
    slope = ((1 - columns_per_row + ridge + 2 * columns_per_row) / root - 1) / 2
    return 1 - shrinkage, slope / columns_per_row


def drawn_together(values: Floats, variance: float) -> tuple[Floats, float]:
    """Return values shrunk towards their mean, and the mean square error of each.

    This is the estimator of James and Stein (1961) for noise of the given variance: the observed
    spread of the values is reduced by the part that noise contributes.
    """
    mean = float(values.mean())
    square = float(np.sum((values - mean) ** 2))
    own = max(0.0, 1 - (len(values) - 3) * variance / square) if square else 0.0
    own = min(own, 1.0)
    return mean + own * (values - mean), (own + (1 - own) / len(values)) * variance
