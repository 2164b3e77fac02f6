"""Targets alone, for protocols that protect nothing else: the features are public."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.messages import Arrays
from ldp_flower.users import Users

from .rows import Floats
from .statistic import Params, Statistic


def labels(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's first ``params["labels_per_user"]`` targets, zero where there are fewer.

    They are clipped to ``[-label_bound, label_bound]``.
    """
    bound = params["label_bound"]
    found = np.zeros((len(users), int(params["labels_per_user"])))
    rows, places = _places(users, found.shape[1])
    found[places] = np.clip(users.targets[rows], -bound, bound)
    return found


def labelled_features(users: Users, params: Params) -> NDArray[np.float32]:
    """Return the rows that the labels belong to, shape (users, labels_per_user, num_features).

    They are zero where there are fewer. No target has any part in this.
    """
    shape = (len(users), int(params["labels_per_user"]), users.num_features)
    block = np.zeros(shape, np.float32)
    rows, places = _places(users, shape[1])
    block[places] = users.features[rows]
    return block


def _places(users: Users, most: int) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...]]:
    """Return the first rows of every user, and their places: (user, number of the row)."""
    kept = np.arange(most) < users.num_rows[:, None]
    places = np.nonzero(kept)
    return users.offsets[places[0]] + places[1], places


def _labels_per_user(num_features: int, arrays: Arrays, params: Params) -> int:
    return int(params["labels_per_user"])


LABELS: Mapping[str, Statistic] = {
    "labels": Statistic(
        labels,
        _labels_per_user,
        params=frozenset({"labels_per_user", "label_bound"}),
        public=labelled_features,
    ),
}
