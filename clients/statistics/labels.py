"""Targets alone, for protocols that protect nothing else: the features are public."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Labels
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats

from ..arithmetic.rows import dot
from .registry import Blocks, Statistics


def labels(users: Users, question: Labels) -> Floats:
    """Compute :class:`Labels`."""
    bound = question.label_bound
    found = np.zeros((len(users), question.labels_per_user))
    rows, places = _places(users, found.shape[1])
    targets = users.targets[rows]
    if question.theta is not None:
        targets = targets - dot(users.features[rows], question.theta)
    found[places] = np.where(np.isfinite(targets), np.clip(targets, -bound, bound), 0.0)
    return found


def labelled_features(users: Users, question: Labels) -> NDArray[np.float32]:
    """Return the rows that the labels belong to, shape (users, labels_per_user, num_features).

    They are zero where there are fewer. No target has any part in this.
    """
    shape = (len(users), question.labels_per_user, users.num_features)
    block = np.zeros(shape, np.float32)
    rows, places = _places(users, shape[1])
    block[places] = users.features[rows]
    return block


def _places(users: Users, most: int) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...]]:
    """Return the first rows of every user, and their places: (user, number of the row)."""
    kept = np.arange(most) < users.num_rows[:, None]
    places = np.nonzero(kept)
    return users.offsets[places[0]] + places[1], places


LABELS: Statistics = {Labels: labels}
LABELLED_FEATURES: Blocks = {Labels: labelled_features}
