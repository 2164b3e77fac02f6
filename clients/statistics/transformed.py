"""Rows and values after a public map: labels of classes, standardised columns, rotations.

Every question about classes has one convention. They are 0, 1, ..., as a schema makes them of
categories; of two classes the first may also be coded -1. A row with any other target is of no
class: which one was meant is not guessed.
"""

import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee import questions as q
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats
from ldp_flower.values.public_maps import fourier_features, frequencies, project, projection, rotate


def with_places(users: Users, num_classes: int) -> Users:
    """Return the users with NaN in place of targets that are no label, and log how many."""
    targets = np.asarray(users.targets, np.float64)
    if num_classes == 2:
        targets = np.where(targets == -1, 0.0, targets)
    known = (targets >= 0) & (targets < num_classes) & (targets == np.floor(targets))
    if lost := int((~known & ~np.isnan(targets)).sum()):
        logging.getLogger(__name__).warning(
            "%d of %d rows have a label other than 0 to %d and are left out. Labels are the places "
            "of classes, 0, 1, ...: a Schema whose target is Categories makes them.",
            *(lost, len(known), num_classes - 1),
        )
    return replace(users, targets=np.where(known, targets, np.nan))


def class_labels(users: Users) -> NDArray[np.float64]:
    """Return 1 for class 1, -1 for class 0, NaN for none."""
    return np.where(np.isnan(users.targets), np.nan, np.where(users.targets > 0, 1.0, -1.0))


def with_labels(users: Users, question: q.OfClasses) -> Users:
    """Return the users that :class:`OfClasses` is about: labels are their targets."""
    return replace(users, targets=class_labels(users))


def projected(users: Users, question: q.Projected) -> Users:
    """Return the users that :class:`Projected` is about."""
    matrix = projection(question.seed, users.num_features, question.projected_dim)
    return replace(users, features=project(users.features, matrix), missing=None)


def fourier(users: Users, question: q.Fourier) -> Users:
    """Return the users that :class:`Fourier` is about."""
    drawn = frequencies(question.seed, users.num_features, question.num_features)
    features = fourier_features(users.features, drawn, question.length_scale)
    return replace(users, features=features, missing=None)


def rotated(values: Floats, question: q.Rotated) -> Floats:
    """Return what :class:`Rotated` makes of the inner question's values."""
    return rotate(values, question.signs) - question.midpoints


def rotated_bins(values: Floats, question: q.RotatedBins) -> Floats:
    """Return what :class:`RotatedBins` makes of the inner question's values."""
    values = rotate(values, question.signs)
    bins = np.floor((values / question.bound + 1) / 2 * question.num_bins)
    return np.clip(bins, 0, question.num_bins - 1)


_CLIP = 3.0  # standardised numbers lie within this distance of 0


def standardised(users: Users, question: q.Standardised) -> Users:
    """Return the users that :class:`Standardised` is about."""
    means, scales = question.means, question.scales
    features, targets = users.features.copy(), users.targets
    *moved, target = (means != 0) | (scales != 1)
    for j in np.flatnonzero(moved):
        features[:, j] = np.clip((features[:, j] - means[j]) / scales[j], -_CLIP, _CLIP)
    if target:
        targets = np.clip((targets - means[-1]) / scales[-1], -_CLIP, _CLIP)
    return replace(users, features=features, targets=targets)
