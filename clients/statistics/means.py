"""Means of features, and how far they are from a centre."""

from collections.abc import Mapping

import numpy as np

from ldp_flower.messages import Arrays
from ldp_flower.users import Users

from .rows import Floats, mean_over_rows
from .scale import SCALE_PARAMS, scale_bins
from .statistic import Params, Statistic, one, per_coordinate


def mean(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's mean row of features minus ``arrays["centre"]``.

    ``arrays["coordinates"]`` (optional): the coordinates wanted, by default all. Without
    rows it is not a number, which a randomizer takes for the centre of its domain.
    """
    ones = np.ones(len(users.features))
    means = mean_over_rows(users, ones, users.features) - arrays["centre"]
    means[users.num_rows == 0] = np.nan
    return means[:, arrays["coordinates"]] if "coordinates" in arrays else means


def distance_scale(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return the bin of the distance of :func:`mean` from 0, shape (users, 1).

    For the bins see :func:`~.scale.scale_bins`.
    """
    means = mean(users, arrays, {})
    return scale_bins(np.sqrt(np.einsum("ij,ij->i", means, means)), params)


MEANS: Mapping[str, Statistic] = {
    "mean": Statistic(mean, per_coordinate, vectors=frozenset({"centre"}), coordinates=True),
    "distance_scale": Statistic(
        distance_scale, one, vectors=frozenset({"centre"}), params=SCALE_PARAMS
    ),
}
