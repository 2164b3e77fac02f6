"""What a statistic is, and what a query for one must and may contain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.messages import Arrays, MessageError
from ldp_flower.users import Users

from .rows import Floats

Params = Mapping[str, float]
Compute = Callable[[Users, Arrays, Params], Floats]
Public = Callable[[Users, Params], NDArray[np.float32]]


def one(num_features: int, arrays: Arrays, params: Params) -> int:
    """Return 1: a value is one number."""
    return 1


def per_coordinate(num_features: int, arrays: Arrays, params: Params) -> int:
    """Return the number of wanted coordinates, by default of features."""
    return len(arrays["coordinates"]) if "coordinates" in arrays else num_features


def set_size(num_features: int, arrays: Arrays, params: Params) -> int:
    """Return ``params["set_size"]``: a value is so many item numbers."""
    return int(params["set_size"])


def feature_set_size(num_features: int, arrays: Arrays, params: Params) -> int:
    """Return ``params["set_size"]`` if there are so many features: a value is a set of them."""
    return min(int(params["set_size"]), num_features)


@dataclass(frozen=True)
class Statistic:
    """A statistic and what a query for it must and may contain.

    Attributes
    ----------
    compute : callable
        The function ``(users, arrays, params) -> values``, values of shape (users, width).
        Whatever it is given, it sees rows of float64 that lie one after the other, and
        so do its values: which type a node keeps is decided by all of its users, and
        rounding would tell one of another.
    width : callable
        The function ``(num_features, arrays, params) -> width``.
    vectors : frozenset of str
        Required arrays with one number per feature.
    weights : frozenset of str
        Required arrays with one number per wanted coordinate.
    columns : frozenset of str
        Required arrays with one number per feature of the users' rows and one for the target.
    outputs : frozenset of str
        Required arrays with one number per coordinate of the value.
    optional_outputs : frozenset of str
        Further such arrays that a query may have.
    params, optional_params : frozenset of str
        Numbers, all positive.
    coordinates : bool
        Whether the query may name the coordinates that are wanted.
    public : callable, optional
        The function ``(users, params) -> block`` of what is sent as it is beside the
        reports, float32 with the users first. Its operator must have declared it public.
    mapped : callable, optional
        The function ``(num_features, params) -> num_features`` of a public map that the
        features go through first; by default there is none.
    """

    compute: Compute
    width: Callable[[int, Arrays, Params], int]
    vectors: frozenset[str] = frozenset()
    weights: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    optional_outputs: frozenset[str] = frozenset()
    params: frozenset[str] = frozenset()
    optional_params: frozenset[str] = frozenset()
    coordinates: bool = False
    public: Public | None = None
    mapped: Callable[[int, Params], int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "compute", _in_doubles(self.compute))
        if self.public is not None:
            object.__setattr__(self, "public", _of_doubles(self.public))

    def check(self, num_features: int, arrays: Arrays, params: Params, width: int) -> None:
        """Raise MessageError unless arrays, params and the randomizer's width fit."""
        required = self.vectors | self.weights | self.columns | self.outputs
        optional = self.optional_outputs | ({"coordinates"} if self.coordinates else set())
        if not required <= set(arrays) <= required | optional:
            raise MessageError(f"Expected the arrays {sorted(required)}, got {sorted(arrays)}.")
        if not self.params <= set(params) <= self.params | self.optional_params:
            raise MessageError(f"Expected the numbers {sorted(self.params)}, got {sorted(params)}.")
        if any(value <= 0 for value in params.values()):
            raise MessageError("Expected positive numbers.")
        num_columns, users_have = num_features + 1, f"the node's users have {num_features} features"
        if self.mapped is not None:
            num_features = self.mapped(num_features, params)
        if "coordinates" in arrays:
            _check_coordinates(arrays["coordinates"], num_features, users_have)
        wanted = per_coordinate(num_features, arrays, params)
        expected = self.width(num_features, arrays, params)
        given = self.outputs | (self.optional_outputs & set(arrays))
        lengths = (
            (self.vectors, num_features),
            (self.weights, wanted),
            (self.columns, num_columns),
            (given, expected),
        )
        for names, length in lengths:
            for name in names:
                array = arrays[name]
                if array.ndim != 1 or array.dtype != np.float64:
                    raise MessageError(f"Expected {length} floats in {name}.")
                if len(array) != length:
                    raise MessageError(
                        f"Expected {length} floats in {name}, got {len(array)}: {users_have}."
                    )
        if width != expected:
            raise MessageError(
                f"Expected a randomizer of {expected} coordinates, got {width}: {users_have}."
            )


def _doubles(array: NDArray[Any]) -> Floats:
    return np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])


def _with_doubles(users: Users) -> Users:
    features, targets = _doubles(users.features), _doubles(users.targets)
    if features is users.features and targets is users.targets:
        return users
    return replace(users, features=features, targets=targets)


def _in_doubles(compute: Compute) -> Compute:
    """Return the same function of users with rows of float64, with values of float64.

    No number is an error on the way: that would be one user's, and cost all their values.
    """

    @wraps(compute)
    def computed(users: Users, arrays: Arrays, params: Params) -> Floats:
        with np.errstate(all="ignore"):
            return _doubles(compute(_with_doubles(users), arrays, params))

    return computed


def _of_doubles(public: Public) -> Public:
    """Return the same function of users with rows of float64."""

    @wraps(public)
    def block(users: Users, params: Params) -> NDArray[np.float32]:
        with np.errstate(all="ignore"):
            return public(_with_doubles(users), params)

    return block


def _check_coordinates(coordinates: NDArray[Any], num_features: int, users_have: str) -> None:
    if coordinates.ndim != 1 or coordinates.dtype != np.int64 or not len(coordinates):
        raise MessageError("Expected a list of coordinates.")
    if coordinates.min() < 0 or coordinates.max() >= num_features:
        raise MessageError(f"Expected coordinates from 0 to {num_features - 1}: {users_have}.")
    if len(np.unique(coordinates)) != len(coordinates):
        raise MessageError("Expected distinct coordinates.")
