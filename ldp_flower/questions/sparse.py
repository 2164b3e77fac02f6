"""Iterative hard thresholding on data in memory, without privacy.

Its callers may see the data: a silo that fits its records, a server that fits reports, or a
simulation that needs the non-private optimum.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..validation import Floats, check_choice, check_integer
from .links import LINKS

_MAX_HALVINGS = 40  # largest number of halvings of the normalised step


def objective(
    theta: Floats,
    features: ArrayLike,
    targets: ArrayLike,
    *,
    link: str = "identity",
    ridge: float = 0.0,
) -> float:
    """Return the number that :func:`iht` minimises, for a model with the coefficients ``theta``.

    It is the mean loss over the rows plus ``ridge / 2`` times the squared length of ``theta``.
    """
    check_choice("link", link, LINKS)
    x, y = np.asarray(features), np.asarray(targets)
    return _objective(_times(x, theta), y, theta, link, ridge)


def iht(
    features: ArrayLike,
    targets: ArrayLike,
    sparsity: int,
    *,
    link: str = "identity",
    ridge: float = 0.0,
    radius: float = np.inf,
    start: Floats | None = None,
    max_steps: int = 1000,
    tolerance: float = 1e-6,
) -> Floats:
    """Return a sparse vector that minimises a mean loss, up to a local minimum.

    Parameters
    ----------
    features : array_like, shape (rows, dim)
        One row per record.
    targets : array_like, shape (rows,)
        One number per record, 0 or 1 for the logistic link.
    sparsity : int
        Number of coefficients that may differ from zero.
    link : str (default: "identity")
        A key of :data:`~ldp_flower.questions.links.LINKS`, which selects the loss.
    ridge : float (default: 0.0)
        Weight of half the squared length of the coefficients.
    radius : float (default: infinity)
        Bound on the Euclidean norm of the coefficients.
    start : ndarray of float64, shape (dim,), optional
        Starting point, by default zero.
    max_steps : int (default: 1000)
        Largest number of steps.
    tolerance : float (default: 1e-6)
        Relative tolerance: stop if a step changes the coefficients by at most this share of their
        length.

    Returns
    -------
    ndarray of float64, shape (dim,)
        A point that no step improves: a local minimum, since the constraint is not convex.

    Notes
    -----
    Source: Blumensath & Davies, "Normalised iterative hard thresholding" (2010). The step
    size is the best one along the gradient on the current support, halved until the
    objective does not increase.
    """
    check_integer("sparsity", sparsity, 1)
    check_choice("link", link, LINKS)
    x, y = np.asarray(features), np.asarray(targets)
    theta = np.zeros(x.shape[1]) if start is None else start
    fitted = _times(x, theta)
    value = _objective(fitted, y, theta, link, ridge)
    for _ in range(max_steps):
        gradient = x.T @ LINKS[link].score(fitted, y) / max(len(y), 1) + ridge * theta
        direction = np.where(theta != 0, gradient, 0.0)
        if not direction.any():
            direction = keep_largest(gradient, sparsity)
        if not direction.any():
            break
        curve = LINKS[link].curvature * np.mean(_times(x, direction) ** 2)
        square = float(direction @ direction)
        first = square / max(float(curve) + ridge * square, np.finfo(np.float64).tiny)
        for halvings in range(_MAX_HALVINGS):  # the loop ends for all numbers, including NaN
            step = first / 2**halvings
            moved = project_on_ball(keep_largest(theta - step * gradient, sparsity), radius)
            fitted_there = _times(x, moved)
            value_there = _objective(fitted_there, y, moved, link, ridge)
            if value_there <= value:
                break
        else:
            break
        change = float(np.linalg.norm(moved - theta))
        theta, fitted, value = moved, fitted_there, value_there
        if change <= tolerance * float(np.linalg.norm(theta)):
            break
    return theta


def _times(x: NDArray[np.floating], theta: Floats) -> Floats:
    support = np.flatnonzero(theta)
    return np.asarray(x[:, support] @ theta[support], np.float64)


def _objective(fitted: Floats, y: Floats, theta: Floats, link: str, ridge: float) -> float:
    return float(np.mean(LINKS[link].loss(fitted, y)) + ridge / 2 * (theta @ theta))


def keep_largest(vector: Floats, sparsity: int) -> Floats:
    """Return the vector with all but its ``sparsity`` largest entries (by magnitude) set to 0."""
    kept = np.zeros_like(vector)
    largest = np.argsort(-np.abs(vector), kind="stable")[:sparsity]
    kept[largest] = vector[largest]
    return kept


def project_on_ball(vector: Floats, radius: float) -> Floats:
    """Return ``vector``, shortened to length ``radius`` if it is longer."""
    length = float(np.linalg.norm(vector))
    return vector if length <= radius else vector * (radius / length)
