"""Least squares from private moments: what one collection gives, and what it is worth."""

import math
from dataclasses import dataclass

import numpy as np

from ldp_flower.randomizers import Estimate, GaussianRecord
from ldp_flower.validation import Floats
from ldp_flower.values.moments import unpacked_square

from ..numerics.denoising import raise_eigenvalues
from ..runtime.exchange import Answers

#: Weights in a report of x y and x x': the error of the former counts fully, that of the
#: latter times the coefficients, which are shorter than 1 where targets are.
PRODUCT_WEIGHT, SQUARE_WEIGHT = math.sqrt(2 / 3), math.sqrt(1 / 3)
#: Share of the largest eigenvalue of pure noise below which no curvature is believed. With
#: less, directions that are all noise take large coefficients; with more, all are shrunken.
_BELIEVED = 0.7


@dataclass(frozen=True)
class LeastSquares:
    """Estimates of the means of x y and x x', in the clients' units."""

    products: Floats  # (dim,): mean of x y
    squares: Floats  # (dim, dim): mean of x x', positive semidefinite
    # Variances of an entry of either (of squares, on the diagonal; half off it)
    product_variance: float
    square_variance: float

    @classmethod
    def from_moments(
        cls, answer: Estimate, dim: int, weights: tuple[float, float]
    ) -> "LeastSquares":
        """Read the answer to ``second_moments``; ``weights`` are those that were asked for.

        Noise alone gives ``squares`` eigenvalues up to the root of 2 dim times the entries'
        standard deviation (Wigner's semicircle); those that are smaller than a part of that are
        raised to it.
        """
        product_weight, square_weight = weights
        squares = unpacked_square(answer.mean[dim:]) / square_weight
        product_variance = float(np.mean(answer.std_error[:dim] ** 2)) / product_weight**2
        square_variance = float(np.mean(answer.std_error[dim:] ** 2)) / square_weight**2
        least = _BELIEVED * math.sqrt(2 * dim * square_variance)
        return cls(
            answer.mean[:dim] / product_weight,
            raise_eigenvalues(squares, least),
            product_variance,
            square_variance,
        )

    @classmethod
    def from_records(cls, answers: Answers, mechanism: GaussianRecord) -> "LeastSquares":
        """Multiply noisy records (x, y), taking off the mean of the noise's square."""
        records = answers.reports.astype(np.float64)
        x, y = records[:, :-1], records[:, -1]
        variance, count = mechanism.sigma**2, len(records)
        squares = x.T @ x / count - variance * np.eye(x.shape[1])
        return cls(
            x.T @ y / count,
            raise_eigenvalues(squares),
            float(np.var(x * y[:, None], axis=0).mean()) / count,
            float(np.var(x * x, axis=0).mean()) / count,
        )

    @property
    def largest_eigenvalue(self) -> float:
        """Largest eigenvalue of ``squares``."""
        return float(np.linalg.eigvalsh(self.squares)[-1])

    def std_error(self, coef: Floats) -> Floats:
        """Return standard deviations of the solution given its support, 0 outside it."""
        support = np.flatnonzero(coef)
        errors = np.zeros(len(coef))
        inverse = np.linalg.pinv(self.squares[np.ix_(support, support)], hermitian=True)
        own = coef[support] ** 2
        variances = self.product_variance + self.square_variance * (own.sum() + own) / 2
        errors[support] = np.sqrt((inverse**2) @ variances)
        return errors
