"""Losses from private moments: least squares, and losses with a polynomial gradient.

A smooth function on [-reach, reach] is represented by the Chebyshev coefficients a_k in ``f(t) =
sum_k a_k T_k(t / reach)``. Outside the interval it has the value of the nearer end. Polynomials are
represented by their coefficients, lowest degree first.
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

#: Weights of x y and x x' in a report. An error of the former has full effect. An error of the
#: latter is multiplied by the coefficients, whose norm is below 1 if targets are.
PRODUCT_WEIGHT, SQUARE_WEIGHT = math.sqrt(2 / 3), math.sqrt(1 / 3)
#: Smallest eigenvalue of ``squares``, as part of the largest eigenvalue of pure noise. With a lower
#: value, directions of pure noise get large coefficients; with a higher one, all are shrunken.
_MIN_EIGENVALUE = 0.7


@dataclass(frozen=True)
class LeastSquares:
    """Estimated means over users of x y and x x', from which least squares follow.

    x are the features and y is the target of a user's row, both divided by their bounds.
    """

    products: Floats  # (dim,): mean of x y
    squares: Floats  # (dim, dim): mean of x x', positive semidefinite
    # Variances of an entry (for squares, on the diagonal; half as large elsewhere)
    product_variance: float
    square_variance: float

    @classmethod
    def from_moments(
        cls, answer: Estimate, dim: int, weights: tuple[float, float]
    ) -> "LeastSquares":
        """Return the estimates from an answer about second moments with these ``weights``.

        Noise alone gives ``squares`` eigenvalues up to ``sqrt(2 dim)`` times the standard deviation
        of an entry (Wigner's semicircle). Eigenvalues below a part of this limit are raised to it.
        """
        product_weight, square_weight = weights
        squares = unpacked_square(answer.mean[dim:]) / square_weight
        product_variance = float(np.mean(answer.std_error[:dim] ** 2)) / product_weight**2
        square_variance = float(np.mean(answer.std_error[dim:] ** 2)) / square_weight**2
        least = _MIN_EIGENVALUE * math.sqrt(2 * dim * square_variance)
        return cls(
            answer.mean[:dim] / product_weight,
            raise_eigenvalues(squares, least),
            product_variance,
            square_variance,
        )

    @classmethod
    def from_records(cls, answers: Answers, mechanism: GaussianRecord) -> "LeastSquares":
        """Return the moments of noisy records (x, y), without the noise's mean square in them."""
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
        """Return the standard errors of the solution ``coef``, given its support; 0 outside it."""
        support = np.flatnonzero(coef)
        errors = np.zeros(len(coef))
        inverse = np.linalg.pinv(self.squares[np.ix_(support, support)], hermitian=True)
        own = coef[support] ** 2
        variances = self.product_variance + self.square_variance * (own.sum() + own) / 2
        errors[support] = np.sqrt((inverse**2) @ variances)
        return errors


_NODES = 64  # number of quadrature nodes: exact for polynomials up to degree 127
_ZERO = 1e-9  # even coefficients up to this part of the largest are rounding errors


def interpolated(function: Callable[[Floats], Floats], reach: float) -> Floats:
    """Return the Chebyshev coefficients of a function on [-reach, reach].

    They are exact up to rounding if the function is smooth.
    """
    degree = 64 + 16 * math.ceil(reach)
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    return np.asarray(chebyshev.chebfit(points, function(reach * points), degree))


def value(coefficients: Floats, reach: float, argument: Floats) -> Floats:
    """Return a function's values at ``argument``, from its Chebyshev ``coefficients``."""
    return np.asarray(chebyshev.chebval(np.clip(argument / reach, -1, 1), coefficients))


def is_odd(coefficients: Floats) -> bool:
    """Return True if the function with these Chebyshev coefficients is odd."""
    return bool((np.abs(coefficients[::2]) <= _ZERO * np.abs(coefficients).max()).all())


def truncated(coefficients: Floats, reach: float, degree: int) -> Floats:
    """Return the polynomial of degree ``degree`` that begins a Chebyshev expansion.

    It is given by its coefficients, of increasing powers.
    """
    polynomial = chebyshev.cheb2poly(coefficients[: degree + 1])
    return np.asarray(polynomial / reach ** np.arange(float(len(polynomial))))


def fitted(coefficients: Floats, reach: float, degree: int, mean: float, spread: float) -> Floats:
    """Return the least-squares polynomial of a function of a normal argument.

    The argument has this mean and spread. For an odd function the mean is taken as 0.
    """
    nodes, weights = hermite_e.hermegauss(_NODES)
    odd = is_odd(coefficients)
    points = np.clip((0.0 if odd else mean) + spread * nodes, -reach, reach)
    powers = np.arange(1, degree + 1, 2) if odd else np.arange(degree + 1)
    # Powers of points over their size are well-conditioned at any scale.
    size = float(np.sqrt(weights @ points**2 / weights.sum()))
    root = np.sqrt(weights)
    design = root[:, None] * (points[:, None] / size) ** powers
    solved = np.linalg.lstsq(design, root * value(coefficients, reach, points))[0]
    polynomial = np.zeros(degree + 1)
    polynomial[powers] = solved / size**powers
    return polynomial


def largest_slope(polynomial: Floats, reach: float) -> float:
    """Return a bound on a polynomial's absolute slope on the interval [-reach, reach]."""
    powers = np.arange(len(polynomial))
    return float((np.abs(polynomial) * powers) @ reach ** (powers - 1.0))


_FITS = 60  # largest number of alternations between fitting the polynomial and the coefficients
_SMALLEST_SPREAD = 1e-3  # smallest spread of the arguments, over their reach
_DIFFERENCE = 1e-4  # step of numerical derivatives, over the coefficients' reach


@dataclass(frozen=True)
class PolynomialLoss:
    """Estimated moments that give the mean of f(<x, w>) x - y x for every polynomial f.

    This is the gradient of a generalised linear model with coefficients w, features x, target y and
    the mean function f.
    """

    second: LeastSquares  # means of x y and x x'
    powers: Mapping[int, Floats]  # means of the other tensor powers of x, packed, by degree

    @classmethod
    def from_moments(cls, answer: Estimate, dim: int, powers: Sequence[int]) -> "PolynomialLoss":
        """Return the moments in an answer, which has means of x y and of tensor powers of x.

        ``powers`` are the exponents of the tensor powers.
        """
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
        """Return the loss's gradient, the mean of f(<x, w>) x - y x at ``w = coef``.

        ``polynomial`` has the coefficients of f.
        """
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
        """Return the mean and the standard deviation of <x, w> over users' rows, for w ``coef``.

        The mean is taken as 0 if it was not collected.
        """
        mean = float(self.powers[1] @ coef) if 1 in self.powers else 0.0
        square = float(coef @ self.second.squares @ coef)
        return mean, math.sqrt(max(square - mean**2, 0.0))

    def polynomial(self, link: Floats, reach: float, degree: int, coef: Floats) -> Floats:
        """Return the least-squares polynomial of a function, for the distribution of <x, w>.

        ``link`` has the function's Chebyshev coefficients; ``coef`` is w.
        """
        mean, spread = self.arguments(coef)
        return fitted(link, reach, degree, mean, max(spread, _SMALLEST_SPREAD * reach))

    def minimised(self, link: Floats, reach: float, degree: int) -> Floats:
        """Return the coefficients, of norm at most ``reach``, that fit a generalised linear model.

        The model's gradient is zero there, unless the norm is ``reach``. ``link`` has the Chebyshev
        coefficients of the mean function. A polynomial of degree ``degree`` replaces the mean
        function. ``reach`` is the bound on the coefficients' norm, for rows of norm 1.
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
        """Return the standard errors of coefficients at which the gradient is zero.

        They follow from the noise of the moments and from the gradient's numerical derivatives,
        which include the change of the polynomial with the coefficients.
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
