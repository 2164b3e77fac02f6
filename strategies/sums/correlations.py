"""Correlations of columns of numbers from noisy sums over nodes, with their intervals."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.questions import CorrelationSpread, Products
from ldp_flower.questions.sums import BESIDE
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask
from .budget import Budget
from .newton import symmetric

_CLEAR = 4.0  # standard errors by noise that a variance has to exceed
_BOUND = 6.0  # bound on a user's influence on a correlation
_NORMAL = 1.95996


@dataclass(frozen=True)
class PairCorrelations:
    """Correlations of pairs of columns, row by row of the matrix; NaN if noise hides them."""

    correlation: Floats  # (pairs,), as the other arrays
    std_error: Floats  # standard errors by noise and by sampling
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class _Moments:
    """Estimated moments of k numbers from -1 to 1, and their standard errors by noise."""

    present: float  # share of the users with rows
    means: Floats  # (k,): means over all users; users without rows count as 0
    products: Floats  # (k, k): mean products over all users, in the same way
    errors: tuple[float, float, float, float]  # errors of a share, a mean, a square, a product

    def correlations(self) -> tuple[Floats, Floats]:
        """Return each pair's correlation, and its error by noise; NaN if noise hides it."""
        p, means = self.present, self.means
        of_share, of_mean, of_square, of_product = self.errors
        scaled = p * self.products - np.outer(means, means)  # covariances times p**2
        variances = np.diag(scaled)
        # A noisy moment is the same one in both variances and in the covariance.
        errors = np.hypot(p * of_square, 2 * means * of_mean)
        errors = np.hypot(errors, np.diag(self.products) * of_share)
        hidden = (variances < _CLEAR * errors) | (p < _CLEAR * of_share)
        variances = np.where(hidden, np.nan, variances)
        first, second = np.triu_indices(len(means), 1)
        sizes = np.sqrt(variances[first] * variances[second])
        found = scaled[first, second] / sizes
        half = found / 2
        # Derivatives by the product, both squares, both means and the share, in this order.
        slopes = [
            of_product * p / sizes,
            of_square * half * p / variances[first],
            of_square * half * p / variances[second],
            of_mean * (2 * half * means[first] / variances[first] - means[second] / sizes),
            of_mean * (2 * half * means[second] / variances[second] - means[first] / sizes),
            of_share
            * (
                self.products[first, second] / sizes
                - half * self.products[first, first] / variances[first]
                - half * self.products[second, second] / variances[second]
            ),
        ]
        return found, np.sqrt(np.sum(np.square(slopes), axis=0))

    def means_and_scales(self) -> tuple[Floats, Floats]:
        """Return means and standard deviations, by which users standardise their numbers.

        They are those among users with rows. A standard deviation that noise hides is 1.
        """
        means = self.means / self.present
        variances = np.diag(self.products) / self.present - means**2
        return means, np.sqrt(np.where(variances > 0, variances, 1.0))


def _ask_moments(
    budget: Budget, columns: tuple[NDArray[np.int64], Floats, Floats], share: float
) -> Generator[Ask, Any, _Moments]:
    size = len(columns[0])
    question = Products(*columns)
    found: Estimate = yield budget.ask(question, moments_mechanism(budget, size, share))
    of_users, of_means = BESIDE[0], BESIDE[1] / math.sqrt(size)
    means = found.mean[1 : size + 1] / of_means
    products = symmetric(found.mean[size + 1 :] * size, size)
    noise = float(found.std_error[0])
    errors = noise / of_users, noise / of_means, noise * size, noise * size / math.sqrt(2)
    return _Moments(max(found.mean[0] / of_users, 1e-9), means, products, errors)


def moments_mechanism(budget: Budget, columns: int, share: float) -> Any:
    """Return the mechanism that adds noise to the sums of the columns' means and products.

    These sums spend ``share`` of the budget.
    """
    return budget.ball((columns + 1) * (columns + 2) // 2, Products.radius, share)


def ask_correlations(
    budget: Budget, columns: tuple[NDArray[np.int64], Floats, Floats], shares: tuple[float, float]
) -> Generator[Ask, Any, PairCorrelations]:
    """Ask all users for sums of the columns' products; return the correlations of all pairs.

    ``columns`` has their indices, their lower limits and their upper limits. ``shares`` has the
    shares of the budget for the moments and for the spread of users' influences.
    """
    moments = yield from _ask_moments(budget, columns, shares[0])
    found, by_noise = moments.correlations()
    likely = np.clip(np.nan_to_num(found), -1.0, 1.0)
    pairs = len(likely)
    question = CorrelationSpread(*columns, *moments.means_and_scales(), likely, _BOUND)
    mechanism = budget.ball(pairs, math.sqrt(pairs) / 2, shares[1])
    answer: Estimate = yield budget.ask(question, mechanism)
    users, present = max(answer.count, 1), min(moments.present, 1.0)
    # The spread is raised by one standard error, so that it is hardly ever too small, and it is at
    # least that of a normal distribution.
    spread = (answer.mean / present + 0.5 + answer.std_error / present) * _BOUND**2
    sampling = np.sqrt(np.maximum(spread, (1 - likely**2) ** 2) / (users * present))
    errors = np.hypot(by_noise, sampling)
    inside = np.maximum(1 - errors, 0.0)
    found = np.where(inside > 0, found, np.nan)
    centre = np.clip(found, -inside, inside)
    z, width = np.arctanh(centre), _NORMAL * errors / (1 - centre**2)
    # Noise is normal about r, and sampling about Fisher's z: the interval holds for both.
    return PairCorrelations(
        np.clip(found, -1.0, 1.0),
        np.where(np.isnan(found), np.nan, errors),
        np.clip(found - _NORMAL * errors, -1.0, np.tanh(z - width)),
        np.clip(found + _NORMAL * errors, np.tanh(z + width), 1.0),
    )


def noise_of_product(budget: Budget, columns: int, share: float) -> float:
    """Return the error by noise of the mean product of two columns scaled to [-1, 1].

    A correlation has about this error, divided by the columns' standard deviations.
    """
    return budget.error(moments_mechanism(budget, columns, share)) * columns / math.sqrt(2)
