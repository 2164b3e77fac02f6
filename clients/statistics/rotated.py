"""Rotated statistics: a vector statistic after a public random rotation."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ldp_flower.messages import Arrays, MessageError
from ldp_flower.rotation import padded, rotate
from ldp_flower.users import Users

from .rows import Floats
from .statistic import Params, Statistic, per_coordinate


def rotated(inner: Statistic) -> Statistic:
    """Return the statistic of ``inner``'s values after a rotation, minus midpoints.

    Its queries have two more arrays: ``signs``, one for each of ``inner``'s coordinates,
    and ``midpoints``, one for each rotated coordinate, see
    :func:`ldp_flower.rotation.rotate`.
    """

    def compute(users: Users, arrays: Arrays, params: Params) -> Floats:
        values = inner.compute(users, arrays, params)
        return rotate(values, arrays["signs"]) - arrays["midpoints"]

    return replace(
        inner,
        compute=compute,
        width=_rotated_width(inner),
        weights=inner.weights | {"signs"},
        outputs=frozenset({"midpoints"}),
    )


def rotated_bins(inner: Statistic) -> Statistic:
    """Return the statistic of the bins of ``inner``'s values after a rotation.

    ``params["num_bins"]`` bins of one width cover ``[-bound, bound]``; the first and the
    last one take what is beyond. The array ``signs`` is that of :func:`rotated`.
    """

    def compute(users: Users, arrays: Arrays, params: Params) -> Floats:
        values = rotate(inner.compute(users, arrays, params), arrays["signs"])
        bins = np.floor((values / params["bound"] + 1) / 2 * params["num_bins"])
        return np.clip(bins, 0, params["num_bins"] - 1)

    return replace(
        inner,
        compute=compute,
        width=_rotated_width(inner),
        weights=inner.weights | {"signs"},
        params=inner.params | {"bound", "num_bins"},
    )


def _rotated_width(inner: Statistic) -> Callable[[int, Arrays, Params], int]:
    def width(num_features: int, arrays: Arrays, params: Params) -> int:
        own = inner.width(num_features, arrays, params)
        if own != per_coordinate(num_features, arrays, params):
            raise MessageError("Expected coordinates only: what comes with them has no sign.")
        return padded(own)

    return width
