"""Features after a public map or standardisation, and values after a public rotation."""

from dataclasses import replace

import numpy as np

from ldp_flower.guarantee.questions import Fourier, Projected, Rotated, RotatedBins, Standardised
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats
from ldp_flower.values.public_maps import fourier_features, frequencies, project, projection, rotate


def projected(users: Users, question: Projected) -> Users:
    """Return the users that :class:`Projected` is about."""
    matrix = projection(question.seed, users.num_features, question.projected_dim)
    return replace(users, features=project(users.features, matrix), missing=None)


def fourier(users: Users, question: Fourier) -> Users:
    """Return the users that :class:`Fourier` is about."""
    drawn = frequencies(question.seed, users.num_features, question.num_features)
    features = fourier_features(users.features, drawn, question.length_scale)
    return replace(users, features=features, missing=None)


def rotated(values: Floats, question: Rotated) -> Floats:
    """Return what :class:`Rotated` makes of the inner question's values."""
    return rotate(values, question.signs) - question.midpoints


def rotated_bins(values: Floats, question: RotatedBins) -> Floats:
    """Return what :class:`RotatedBins` makes of the inner question's values."""
    values = rotate(values, question.signs)
    bins = np.floor((values / question.bound + 1) / 2 * question.num_bins)
    return np.clip(bins, 0, question.num_bins - 1)


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
