"""Features after a public random map, and values after a public random rotation."""

from dataclasses import replace

import numpy as np

from ldp_flower.guarantee.questions import Fourier, Projected, Rotated, RotatedBins
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats
from ldp_flower.values.public_maps import fourier_features, frequencies, project, projection
from ldp_flower.values.rotation import rotate


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
