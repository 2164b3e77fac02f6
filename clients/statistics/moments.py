"""Moments of features and targets: all that least squares, or a polynomial loss, needs."""

from collections.abc import Mapping

import numpy as np

from ldp_flower.messages import Arrays, MessageError
from ldp_flower.moments import (
    MAX_DEGREE,
    num_moments,
    num_monomials,
    packed_power,
    tensor_powers,
    tensor_weight,
)
from ldp_flower.randomizers.ball import directions
from ldp_flower.users import Users

from .rows import Floats, mean_over_rows
from .statistic import Params, Statistic

_BLOCK_ENTRIES = 1 << 22  # products held in memory at a time
MAX_WIDTH = 1 << 14  # a message can ask for it

Powers = Mapping[int, float]  # weights of tensor powers

BOUNDS = frozenset({"feature_bound", "target_bound"})


def bounded_rows(users: Users, params: Params) -> tuple[Floats, Floats]:
    """Return rows in the unit ball and targets in [-1, 1].

    Rows are divided by ``params["feature_bound"]`` and targets by
    ``params["target_bound"]``; what is longer is shortened.
    """
    unit, length = directions(users.features)
    x = unit * np.minimum(length / params["feature_bound"], 1.0)[:, None]
    return x, np.clip(users.targets / params["target_bound"], -1.0, 1.0)


def _moments(users: Users, params: Params, product_weight: float, powers: Powers) -> Floats:
    """Return the mean of x y and of tensor powers of x, each times its weight."""
    x, y = bounded_rows(users, params)
    ones = np.ones(len(x))
    parts = [product_weight * mean_over_rows(users, y, x)]
    for degree, weight in powers.items():
        step = max(1, _BLOCK_ENTRIES // max(len(x), 1))
        for start in range(0, num_monomials(x.shape[1], degree), step):
            packed = packed_power(x, degree, slice(start, start + step))
            parts.append(weight * mean_over_rows(users, ones, packed))
    return np.concatenate(parts, axis=1)


def second_moments(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's means of x y and of x x', packed, one after the other.

    x is a row over ``params["feature_bound"]``, shortened to length 1, y its target over
    ``params["target_bound"]``, clipped to [-1, 1]. The d products x y come first, times
    ``params["product_weight"]``, then the upper triangle of x x' row by row, times
    ``params["square_weight"]`` and off the diagonal sqrt(2), see
    :func:`ldp_flower.moments.packed_power`. So a value is no longer than the root of the
    sum of the weights' squares. Without rows it is zero.
    """
    return _moments(users, params, params["product_weight"], {2: params["square_weight"]})


def tensor_moments(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's means of x y and of several tensor powers of x, packed.

    x and y as in :func:`second_moments`; the powers are every ``params["stride"]``-th one up to
    ``params["degree"] + 1``. All parts have the weight that keeps a value within the unit ball.
    """
    powers = tensor_powers(int(params["degree"]), int(params["stride"]))
    weight = tensor_weight(powers)
    return _moments(users, params, weight, dict.fromkeys(powers, weight))


def _second(num_features: int, arrays: Arrays, params: Params) -> int:
    return _limited(num_moments(num_features, [2]))


def _tensor(num_features: int, arrays: Arrays, params: Params) -> int:
    degree, stride = params["degree"], params["stride"]
    if stride not in (1, 2) or degree not in range(int(stride) - 1, MAX_DEGREE + 1, int(stride)):
        raise MessageError(f"Expected stride 1 or 2 and a degree that fits, got {params}.")
    return _limited(num_moments(num_features, tensor_powers(int(degree), int(stride))))


def _limited(width: int) -> int:
    if width > MAX_WIDTH:
        raise MessageError(f"Expected at most {MAX_WIDTH} moments, got {width}.")
    return width


MOMENTS: Mapping[str, Statistic] = {
    "second_moments": Statistic(
        second_moments, _second, params=BOUNDS | {"product_weight", "square_weight"}
    ),
    "tensor_moments": Statistic(tensor_moments, _tensor, params=BOUNDS | {"degree", "stride"}),
}
