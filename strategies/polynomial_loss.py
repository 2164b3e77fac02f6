"""Losses whose gradient is a polynomial, by moments of the features."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.moments import contracted, num_monomials
from ldp_flower.randomizers import Estimate

from .chebyshev import fitted, largest_slope
from .fista import fista
from .least_squares import LeastSquares
from .thresholding import project_on_ball

Floats = NDArray[np.float64]

_FITS = 60  # of the polynomial to where the arguments are
_SMALLEST_SPREAD = 1e-3  # of the arguments, over their reach


@dataclass(frozen=True)
class PolynomialLoss:
    """The mean of f(<x, w>) x - y x for every polynomial f, estimated.

    Attributes
    ----------
    second : LeastSquares
        Means of x y and x x'.
    powers : mapping of int to ndarray of float64
        Means of the other tensor powers of x by their degree, packed.
    """

    second: LeastSquares
    powers: Mapping[int, Floats]

    @classmethod
    def from_moments(
        cls, answer: Estimate, dim: int, powers: Mapping[int, float], product_weight: float
    ) -> "PolynomialLoss":
        """Read the answer to a question for moments; ``powers`` has the weight of each power."""
        starts = {}
        start = dim
        for power in powers:
            starts[power] = slice(start, start + num_monomials(dim, power))
            start = starts[power].stop
        both = np.r_[0:dim, starts[2]]
        second = Estimate(answer.mean[both], answer.std_error[both], answer.count)
        return cls(
            LeastSquares.from_moments(second, dim, (product_weight, powers[2])),
            {p: answer.mean[starts[p]] / weight for p, weight in powers.items() if p != 2},
        )

    def gradient(self, polynomial: Floats, coef: Floats) -> Floats:
        """Return the mean of f(<x, w>) x - y x at w, f by its coefficients, lowest first."""
        total = -self.second.products
        for k, factor in enumerate(polynomial):
            if factor == 0:
                continue
            if k == 1:
                total = total + factor * (self.second.squares @ coef)
            else:
                total = total + factor * contracted(self.powers[k + 1], coef, k + 1)
        return np.asarray(total)

    def arguments(self, coef: Floats) -> tuple[float, float]:
        """Return mean and standard deviation of <x, w>; the mean is 0 if it was not asked for."""
        mean = float(self.powers[1] @ coef) if 1 in self.powers else 0.0
        square = float(coef @ self.second.squares @ coef)
        return mean, math.sqrt(max(square - mean**2, 0.0))

    def minimised(self, link: Floats, reach: float, degree: int) -> tuple[Floats, Floats]:
        """Return the coefficients where a generalised linear model's gradient is zero.

        Parameters
        ----------
        link : ndarray of float64
            Chebyshev coefficients of the mean function on [-reach, reach].
        reach : float
            Largest length of the coefficients, rows having length 1.
        degree : int
            Degree of the polynomial in place of the mean function.

        Returns
        -------
        coef, polynomial : ndarray of float64
            The coefficients and the last polynomial, fitted to where <x, coef> is.
        """
        curvature = self.second.largest_eigenvalue
        coef = np.zeros(len(self.second.products))
        polynomial = np.zeros(degree + 1)
        for _ in range(_FITS):
            mean, spread = self.arguments(coef)
            fit = fitted(link, reach, degree, mean, max(spread, _SMALLEST_SPREAD * reach))
            following = fista(
                lambda vector, fit=fit: self.gradient(fit, vector),  # type: ignore[misc]
                lambda vector, _: project_on_ball(vector, reach),
                max(largest_slope(fit, reach) * curvature, 1e-12),
                coef,
                300,
            )
            still = np.abs(following - coef).max() <= 1e-6 * reach
            coef, polynomial = (coef + following) / 2, fit
            if still:
                break
        return coef, polynomial
