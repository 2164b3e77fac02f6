"""Means of features, and how far they are from a centre."""

from collections.abc import Mapping

import numpy as np

from ldp_flower.elementwise import row_dots, row_norms
from ldp_flower.messages import Arrays
from ldp_flower.users import Users

from .rows import Floats, mean_over_rows, sum_over_rows
from .scale import SCALE_PARAMS, scale_bins
from .selection import largest
from .statistic import Params, Statistic, feature_set_size, one, per_coordinate

_BORROWED = 4.0  # rows


def mean(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's mean row of features minus ``arrays["centre"]``.

    ``arrays["coordinates"]`` (optional): the coordinates wanted, by default all. Without
    rows it is not a number, which a randomizer takes for the centre of its domain.
    """
    ones = np.ones(len(users.features))
    means = mean_over_rows(users, ones, users.features) - arrays["centre"]
    means[users.num_rows == 0] = np.nan
    return means[:, arrays["coordinates"]] if "coordinates" in arrays else means


def weighted_mean(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return ``arrays["weights"]`` times :func:`mean`, one weight a wanted coordinate."""
    return mean(users, arrays, params) * arrays["weights"]


def outstanding_features(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return the features whose means stand out most, shape (users, ``set_size``).

    A mean is compared with the root mean square of the user's own rows, which is drawn
    towards that of all features as if by four more rows.
    """
    squares = np.square(users.features)
    ones = np.ones(len(squares))
    sums = sum_over_rows(users, ones, users.features)
    own = sum_over_rows(users, ones, squares)
    rows = np.maximum(users.num_rows, 1)[:, None]
    typical = row_dots(own, np.ones(1))[:, None] / (rows * users.num_features)
    size = np.sqrt((own + _BORROWED * typical) / (rows + _BORROWED))
    return largest(sums / np.where(size > 0, size, 1.0), int(params["set_size"]))


def distance_scale(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return the bin of the distance of :func:`mean` from 0, shape (users, 1).

    For the bins see :func:`~.scale.scale_bins`.
    """
    return scale_bins(row_norms(mean(users, arrays, {})), params)


MEANS: Mapping[str, Statistic] = {
    "mean": Statistic(mean, per_coordinate, vectors=frozenset({"centre"}), coordinates=True),
    "weighted_mean": Statistic(
        weighted_mean,
        per_coordinate,
        vectors=frozenset({"centre"}),
        weights=frozenset({"weights"}),
        coordinates=True,
    ),
    "outstanding_features": Statistic(
        outstanding_features, feature_set_size, params=frozenset({"set_size"})
    ),
    "distance_scale": Statistic(
        distance_scale, one, vectors=frozenset({"centre"}), params=SCALE_PARAMS
    ),
}
