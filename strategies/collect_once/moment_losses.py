"""Losses from private moments: least squares, and those whose gradient is a polynomial.

A smooth function on [-reach, reach] is held as the Chebyshev coefficients a_k in
``f(t) = sum_k a_k T_k(t / reach)``; beyond its interval it has the value of the closer end.
Polynomials are held as their coefficients, lowest first.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev, hermite_e

from ldp_flower.questions.moments import contracted, num_monomials, tensor_weight, unpacked_square
from ldp_flower.questions.sparse import project_on_ball
from ldp_flower.randomizers import Estimate, GaussianRecord
from ldp_flower.validation import Floats

from ..numerics.denoising import raise_eigenvalues
from ..numerics.first_order import fista
from ..runtime import Answers

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


_NODES = 64  # of a quadrature that is exact for polynomials up to degree 127
_ZERO = 1e-9  # an even coefficient below this is rounding


def interpolated(function: Callable[[Floats], Floats], reach: float) -> Floats:
    """Return the Chebyshev coefficients of a function, to rounding if it is smooth."""
    degree = 64 + 16 * math.ceil(reach)
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    return np.asarray(chebyshev.chebfit(points, function(reach * points), degree))


def value(coefficients: Floats, reach: float, argument: Floats) -> Floats:
    """Return the function's values."""
    return np.asarray(chebyshev.chebval(np.clip(argument / reach, -1, 1), coefficients))


def is_odd(coefficients: Floats) -> bool:
    """Whether the function is odd, as that of the logistic model is."""
    return bool((np.abs(coefficients[::2]) <= _ZERO * np.abs(coefficients).max()).all())


def truncated(coefficients: Floats, reach: float, degree: int) -> Floats:
    """Return the polynomial that the expansion up to ``degree`` is."""
    polynomial = chebyshev.cheb2poly(coefficients[: degree + 1])
    return np.asarray(polynomial / reach ** np.arange(float(len(polynomial))))


def fitted(coefficients: Floats, reach: float, degree: int, mean: float, spread: float) -> Floats:
    """Return the polynomial that is closest in mean square where arguments are normal.

    They have this mean and spread; for an odd function the mean is taken for 0.
    """
    nodes, weights = hermite_e.hermegauss(_NODES)
    odd = is_odd(coefficients)
    points = np.clip((0.0 if odd else mean) + spread * nodes, -reach, reach)
    powers = np.arange(1, degree + 1, 2) if odd else np.arange(degree + 1)
    # Powers of points over their size are well-conditioned, whatever their scale.
    size = float(np.sqrt(weights @ points**2 / weights.sum()))
    root = np.sqrt(weights)
    design = root[:, None] * (points[:, None] / size) ** powers
    solved = np.linalg.lstsq(design, root * value(coefficients, reach, points))[0]
    polynomial = np.zeros(degree + 1)
    polynomial[powers] = solved / size**powers
    return polynomial


def largest_slope(polynomial: Floats, reach: float) -> float:
    """Return a bound on the absolute slope of a polynomial on [-reach, reach]."""
    powers = np.arange(len(polynomial))
    return float((np.abs(polynomial) * powers) @ reach ** (powers - 1.0))


_FITS = 60  # of the polynomial to where the arguments are
_SMALLEST_SPREAD = 1e-3  # of the arguments, over their reach
_DIFFERENCE = 1e-4  # of coefficients, over their reach


@dataclass(frozen=True)
class PolynomialLoss:
    """The mean of f(<x, w>) x - y x for every polynomial f, estimated."""

    second: LeastSquares  # means of x y and x x'
    powers: Mapping[int, Floats]  # means of the other tensor powers of x by their degree, packed

    @classmethod
    def from_moments(cls, answer: Estimate, dim: int, powers: Sequence[int]) -> "PolynomialLoss":
        """Read the answer to ``tensor_moments``, of x y and these powers of x."""
        places = {}
        start = dim
        for power in powers:
            places[power] = slice(start, start + num_monomials(dim, power))
            start = places[power].stop
        weight = tensor_weight(powers)
        both = np.r_[0:dim, places[2]]
        second = Estimate(answer.mean[both], answer.std_error[both], answer.count)
        return cls(
            LeastSquares.from_moments(second, dim, (weight, weight)),
            {p: answer.mean[place] / weight for p, place in places.items() if p != 2},
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

    def polynomial(self, link: Floats, reach: float, degree: int, coef: Floats) -> Floats:
        """Return the polynomial closest to a function (Chebyshev coefficients) where <x, w> is."""
        mean, spread = self.arguments(coef)
        return fitted(link, reach, degree, mean, max(spread, _SMALLEST_SPREAD * reach))

    def minimised(self, link: Floats, reach: float, degree: int) -> Floats:
        """Return the coefficients where a generalised linear model's gradient is zero.

        ``link`` has the Chebyshev coefficients of the mean function, ``reach`` is the largest
        length of the coefficients, rows having length 1, ``degree`` that of the polynomial in place
        of the function.
        """
        curvature = self.second.largest_eigenvalue
        coef = np.zeros(len(self.second.products))
        for _ in range(_FITS):
            fit = self.polynomial(link, reach, degree, coef)
            following = fista(
                lambda vector, fit=fit: self.gradient(fit, vector),  # type: ignore[misc]
                lambda vector, _: project_on_ball(vector, reach),
                max(largest_slope(fit, reach) * curvature, 1e-12),
                coef,
                100,
            )
            still = np.abs(following - coef).max() <= 1e-6 * reach
            coef = (coef + following) / 2
            if still:
                break
        return coef

    def std_error(self, link: Floats, reach: float, degree: int, coef: Floats) -> Floats:
        """Return standard deviations of coefficients where the gradient is zero.

        From the noise of moments, and the gradient's differences: the polynomial moves with them.
        """
        step = _DIFFERENCE * reach

        def gradient(vector: Floats) -> Floats:
            return self.gradient(self.polynomial(link, reach, degree, vector), vector)

        moves = step * np.eye(len(coef))
        changes = [gradient(coef + move) - gradient(coef - move) for move in moves]
        inverse = np.linalg.pinv(np.array(changes).T / (2 * step))
        slope = float(self.polynomial(link, reach, degree, coef)[1])
        noise = self.second.square_variance * (coef @ coef + coef**2) / 2
        return np.asarray(np.sqrt(inverse**2 @ (self.second.product_variance + slope**2 * noise)))
