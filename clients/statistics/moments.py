"""Moments of features and targets: all that least squares, or a polynomial loss, needs."""

from collections.abc import Mapping, Sequence

import numpy as np

from ldp_flower.messages import Arrays, MessageError
from ldp_flower.moments import num_moments, num_monomials, packed_power
from ldp_flower.randomizers.ball import directions
from ldp_flower.users import Users

from .rows import Floats, mean_over_rows
from .statistic import Params, Statistic

_BLOCK_ENTRIES = 1 << 22  # products held in memory at a time
_MAX_WIDTH = 1 << 14  # a message can ask for it

_BOUNDS = frozenset({"feature_bound", "target_bound"})


def bounded_rows(users: Users, params: Params) -> tuple[Floats, Floats]:
    """Return rows in the unit ball and targets in [-1, 1].

    Rows are divided by ``params["feature_bound"]`` and targets by
    ``params["target_bound"]``; what is longer is shortened.
    """
    unit, length = directions(np.asarray(users.features, np.float64))
    x = unit * np.minimum(length / params["feature_bound"], 1.0)[:, None]
    return x, np.clip(users.targets / params["target_bound"], -1.0, 1.0)


def _moments(users: Users, params: Params, weights: Sequence[float]) -> Floats:
    """Return ``weights[0]`` times mean x y, ``weights[i]`` times the mean 2i-th power of x."""
    x, y = bounded_rows(users, params)
    ones = np.ones(len(x))
    parts = [weights[0] * mean_over_rows(users, np.asarray(y, np.float64), x)]
    for number, weight in enumerate(weights[1:], 1):
        width = num_monomials(x.shape[1], 2 * number)
        step = max(1, _BLOCK_ENTRIES // max(len(x), 1))
        for start in range(0, width, step):
            powers = packed_power(x, 2 * number, slice(start, start + step))
            parts.append(weight * mean_over_rows(users, ones, powers))
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
    return _moments(users, params, [params["product_weight"], params["square_weight"]])


def tensor_moments(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's means of x y and of the even tensor powers of x, packed.

    x and y as in :func:`second_moments`; powers up to ``params["degree"] + 1`` for an odd
    degree. All parts have the weight that keeps a value within the unit ball.
    """
    parts = (int(params["degree"]) + 3) // 2
    return _moments(users, params, [parts**-0.5] * parts)


def _second(num_features: int, arrays: Arrays, params: Params) -> int:
    return _limited(num_moments(num_features, 1))


def _tensor(num_features: int, arrays: Arrays, params: Params) -> int:
    if params["degree"] not in (1, 3, 5, 7):
        raise MessageError(f"Expected degree 1, 3, 5 or 7, got {params['degree']}.")
    return _limited(num_moments(num_features, int(params["degree"])))


def _limited(width: int) -> int:
    if width > _MAX_WIDTH:
        raise MessageError(f"Expected at most {_MAX_WIDTH} moments, got {width}.")
    return width


MOMENTS: Mapping[str, Statistic] = {
    "second_moments": Statistic(
        second_moments, _second, params=_BOUNDS | {"product_weight", "square_weight"}
    ),
    "tensor_moments": Statistic(tensor_moments, _tensor, params=_BOUNDS | {"degree"}),
}
