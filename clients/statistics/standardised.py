"""Columns that public constants have brought to about mean 0 and scale 1."""

from dataclasses import replace

import numpy as np

from ldp_flower.guarantee.questions import Standardised
from ldp_flower.guarantee.users import Users

_CLIP = 3.0  # standardised numbers lie within this distance of 0


def standardised(users: Users, question: Standardised) -> Users:
    """Return the users that :class:`Standardised` is about."""
    means, scales = question.means, question.scales
    features, targets = users.features.copy(), users.targets
    *moved, target = (means != 0) | (scales != 1)
    for j in np.flatnonzero(moved):
        features[:, j] = np.clip((features[:, j] - means[j]) / scales[j], -_CLIP, _CLIP)
    if target:
        targets = np.clip((targets - means[-1]) / scales[-1], -_CLIP, _CLIP)
    return replace(users, features=features, targets=targets)
