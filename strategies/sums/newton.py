"""One step of Newton's method by noisy normal equations, with its covariance."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.questions import NormalEquations
from ldp_flower.questions.model_sums import EQUATIONS
from ldp_flower.randomizers import Estimate
from ldp_flower.validation import Floats

from ..runtime import Ask
from .budget import Budget

_BOUND = 3.0  # bound on scores, in units of the residuals' size and a weighted row's largest length
_CLEAR = 2.0  # norms of the noise that eigenvalues of the users' matrix have to exceed


@dataclass(frozen=True)
class NewtonStep:
    """A step from coefficients to the least squares coefficients, and its covariance.

    Both have an entry for each chosen feature, in units of the feature's scale. The last entry is
    for the constant, if features are centred at their means. ``is_known`` is False if noise hides
    an eigenvalue of the users' matrix.
    """

    move: Floats
    covariance: Floats
    is_known: bool


def ask_step(
    budget: Budget,
    model: tuple[Floats, float],
    place: tuple[Floats, Floats],
    chosen: NDArray[np.int64],
    size: float,
    share: float,
) -> Generator[Ask, Any, NewtonStep]:
    """Return the step to the least squares coefficients, where unusually long rows weigh less.

    ``model`` has coefficients and an offset, ``size`` is the size of the model's residuals, and
    ``place`` has the features' means and scales. The covariance covers the known noise and the
    sampling of users from a population. The second part is estimated from users' squared scores,
    so it holds for any distribution of residuals.
    """
    columns = len(chosen) + 1
    bounds = np.array([_BOUND * size * math.sqrt(columns), columns, 1.0])
    bounds[2] = bounds[0] ** 2
    question = NormalEquations(*model, *place, chosen, bounds[1], bounds[0])
    mechanism = budget.ball(columns * (columns + 2), NormalEquations.radius, share)
    found: Estimate = yield budget.ask(question, mechanism)
    units = bounds / EQUATIONS
    noise = float(found.std_error[0]) * units
    vector, *triangles = np.split(found.mean, [columns, columns * (columns + 3) // 2])
    score = units[0] * vector
    matrix, squares = (
        unit * symmetric(entries, columns)
        for unit, entries in zip(units[1:], triangles, strict=True)
    )
    values, vectors = np.linalg.eigh(matrix)
    least = _CLEAR * _norm(noise[1], columns)
    inverse = vectors @ np.diag(1 / np.maximum(values, least)) @ vectors.T
    move = inverse @ score
    spreads, axes = np.linalg.eigh(squares / max(found.count, 1))
    sampling = axes @ np.diag(np.maximum(spreads, 0.0)) @ axes.T
    # An entry off the diagonal has half the variance of an entry on the diagonal.
    by_matrix = noise[1] ** 2 / 2 * (move @ move * np.eye(columns) + np.outer(move, move))
    middle = sampling + noise[0] ** 2 * np.eye(columns) + by_matrix
    return NewtonStep(move, inverse @ middle @ inverse, bool(values[0] > least))


def noise_of_matrix(budget: Budget, columns: int, share: float) -> float:
    """Return the smallest eigenvalue of the users' matrix that noise does not hide.

    Below it no step to least squares is taken, and the coefficients have no intervals.
    """
    mechanism = budget.ball(columns * (columns + 2), NormalEquations.radius, share)
    return _CLEAR * _norm(budget.error(mechanism) * columns / EQUATIONS[1], columns)


def _norm(noise: float, columns: int) -> float:
    """Return about half the largest eigenvalue of a symmetric matrix of noise.

    ``noise`` is an entry's standard deviation, and ``columns`` the matrix's size.
    """
    return noise * math.sqrt(columns / 2)


def symmetric(entries: Floats, columns: int) -> Floats:
    """Return the symmetric matrix with this upper triangle.

    In ``entries``, the entries off the diagonal are multiplied by the root of 2.
    """
    upper = np.zeros((columns, columns))
    upper[np.triu_indices(columns)] = entries
    upper = (upper + upper.T) / math.sqrt(2)
    upper[np.diag_indices(columns)] /= math.sqrt(2)
    return np.asarray(upper)
