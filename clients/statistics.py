"""Statistics: what a query may ask about each user, computed for all users at once.

A statistic is a pure function of the users and of the query's public arrays and
numbers; row i of its result depends on user i's rows alone. It may be wrong about
its own user without harm (the randomizer brings any value into its domain), but
never mix users: rows are reduced by operations whose result for one user does not
depend, to the last bit, on which other users are in the batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ldp_flower.messages import Arrays, MessageError
from ldp_flower.users import Users

Floats = NDArray[np.float64]
Params = Mapping[str, float]


def mean_over_rows(users: Users, weights: Floats, rows: NDArray[Any]) -> Floats:
    """Return each user's mean of ``weights[r] * rows[r]``, zero without rows.

    The product with a sparse matrix adds up a user's rows one after the other,
    which keeps users apart and needs no copy of the rows.
    """
    num_rows = len(weights)
    sums = csr_array((weights, np.arange(num_rows), users.offsets), (len(users), num_rows)) @ rows
    return np.asarray(sums / np.maximum(users.num_rows, 1)[:, None], np.float64)


def _dot(rows: NDArray[Any], vector: Floats) -> Floats:
    """Return ``rows @ vector``, column by column where the vector is not zero.

    Elementwise operations only: in BLAS and einsum the order in which one row is
    added up can depend on how many rows there are, which is another user's secret.
    """
    total = np.zeros(len(rows))
    for column in np.flatnonzero(vector):
        total += rows[:, column] * vector[column]
    return total


def gradient(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's mean gradient of the squared loss at ``theta``.

    ``arrays["theta"]``, shape (num_features,); ``arrays["coordinates"]`` (optional):
    the coordinates wanted, by default all. ``params["feature_bound"]`` clips features
    to ``[-bound, bound]``, ``params["residual_bound"]`` the residual ``<x, theta> - y``
    (both optional).
    """
    features: NDArray[Any] = users.features
    if "feature_bound" in params:
        features = np.clip(features, -params["feature_bound"], params["feature_bound"])
    residual = _dot(features, arrays["theta"]) - users.targets
    if "residual_bound" in params:
        residual = np.clip(residual, -params["residual_bound"], params["residual_bound"])
    mean = mean_over_rows(users, residual, features)
    return mean[:, arrays["coordinates"]] if "coordinates" in arrays else mean


def gradient_norm(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return log(norm of the mean gradient / ``centre``) / ``log_range``, shape (users, 1)."""
    gradients = gradient(users, arrays, {})
    norms = np.sqrt(np.einsum("ij,ij->i", gradients, gradients))
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(norms, tiny) / params["centre"]) / params["log_range"]
    return np.asarray(logs[:, None])


def curvature(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return the mean of min(<x, direction>**2, ``cap``), moved to [-1, 1], shape (users, 1)."""
    squares = np.minimum(_dot(users.features, arrays["direction"]) ** 2, params["cap"])
    return mean_over_rows(users, squares, np.ones((len(squares), 1))) / (params["cap"] / 2) - 1


@dataclass(frozen=True)
class Statistic:
    """A statistic and what a query for it must and may contain.

    Attributes
    ----------
    compute : callable
        The function ``(users, arrays, params) -> values``, values of shape (users, width).
    vectors : frozenset of str
        Required arrays with one number per feature.
    params, optional_params : frozenset of str
        Numbers, all positive.
    scalar : bool
        Whether the value is one number; otherwise one per wanted coordinate.
    """

    compute: Callable[[Users, Arrays, Params], Floats]
    vectors: frozenset[str]
    params: frozenset[str] = frozenset()
    optional_params: frozenset[str] = frozenset()
    scalar: bool = False

    def check(self, num_features: int, arrays: Arrays, params: Params, width: int) -> None:
        """Raise MessageError unless arrays, params and the randomizer's width fit."""
        coordinates = arrays.get("coordinates")
        optional = set() if self.scalar else {"coordinates"}
        if set(arrays) - optional != self.vectors:
            raise MessageError(f"Expected the arrays {sorted(self.vectors)}, got {sorted(arrays)}.")
        for name in self.vectors:
            if arrays[name].shape != (num_features,) or arrays[name].dtype != np.float64:
                raise MessageError(f"Expected {num_features} floats in {name}.")
        if not self.params <= set(params) <= self.params | self.optional_params:
            raise MessageError(f"Expected the numbers {sorted(self.params)}, got {sorted(params)}.")
        if any(value <= 0 for value in params.values()):
            raise MessageError("Expected positive numbers.")
        expected = 1 if self.scalar else num_features
        if coordinates is not None:
            expected = len(_checked_coordinates(coordinates, num_features))
        if width != expected:
            raise MessageError(f"Expected a randomizer of {expected} coordinates, got {width}.")


def _checked_coordinates(coordinates: NDArray[Any], num_features: int) -> NDArray[Any]:
    if coordinates.ndim != 1 or coordinates.dtype != np.int64 or not len(coordinates):
        raise MessageError("Expected a list of coordinates.")
    if coordinates.min() < 0 or coordinates.max() >= num_features:
        raise MessageError(f"Expected coordinates from 0 to {num_features - 1}.")
    if len(np.unique(coordinates)) != len(coordinates):
        raise MessageError("Expected distinct coordinates.")
    return coordinates


STATISTICS: Mapping[str, Statistic] = {
    "gradient": Statistic(
        gradient,
        vectors=frozenset({"theta"}),
        optional_params=frozenset({"feature_bound", "residual_bound"}),
    ),
    "gradient_norm": Statistic(
        gradient_norm,
        vectors=frozenset({"theta"}),
        params=frozenset({"centre", "log_range"}),
        scalar=True,
    ),
    "curvature": Statistic(
        curvature,
        vectors=frozenset({"direction"}),
        params=frozenset({"cap"}),
        scalar=True,
    ),
}
