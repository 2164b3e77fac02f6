"""Statistics of classes: the targets as labels of -1 and 1, or as the classes' places.

Every question about classes has one convention. They are 0, 1, ..., as a schema makes them of
categories; of two classes the first may also be coded -1. A row with any other target is of no
class: which one was meant is not guessed.
"""

import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import (
    ClassCoefficients,
    ClassShare,
    ClassStep,
    MeanScore,
    OfClasses,
    Ranking,
)
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers.domains import directions
from ldp_flower.randomizers.elementwise import tanh
from ldp_flower.validation import Floats

from ..arithmetic.ridge import ridge_coefficients
from ..arithmetic.rows import dot, mean_over_rows, norm_over_rows
from .registry import Statistics
from .regression import weighted_coefficients


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


def class_coefficients(users: Users, question: ClassCoefficients) -> Floats:
    """Compute :class:`ClassCoefficients`."""
    residual = class_labels(users) - tanh(dot(users.features, question.theta) / 2)
    return weighted_coefficients(users, residual, question)


def with_labels(users: Users, question: OfClasses) -> Users:
    """Return the users that :class:`OfClasses` is about: labels are their targets."""
    return replace(users, targets=class_labels(users))


def _of_class(users: Users, place: float, yes: float, no: float) -> Floats:
    """Return which number each row has by its class; NaN for none, of which it is no example."""
    return np.where(np.isnan(users.targets), np.nan, np.where(users.targets == place, yes, no))


def class_step(users: Users, question: ClassStep) -> Floats:
    """Compute :class:`ClassStep`."""
    residual = _of_class(users, question.place, 1.0, -1.0) - tanh(
        dot(users.features, question.theta)
    )
    unit, length = directions(ridge_coefficients(users, users.features, residual, question.ridge))
    wanted = np.ones(len(users))
    if question.weighted:
        sizes = norm_over_rows(users, residual) / np.sqrt(np.maximum(users.num_rows, 1))
        wanted = np.minimum(sizes, 1.0)
    return np.where(length[:, None] > 0, unit * wanted[:, None], 0.0)


def class_share(users: Users, question: ClassShare) -> Floats:
    """Compute :class:`ClassShare`."""
    halves = _of_class(users, question.place, 0.5, -0.5)
    return mean_over_rows(users, halves, np.ones((len(halves), 1)))


def mean_score(users: Users, question: MeanScore) -> Floats:
    """Compute :class:`MeanScore`."""
    scores = np.clip(dot(users.features, question.theta), -1.0, 1.0)
    return mean_over_rows(users, scores, np.ones((len(scores), 1)))


def ranking(users: Users, question: Ranking) -> Floats:
    """Compute :class:`Ranking`."""
    above = _of_class(users, question.place, 1.0, 0.0) - question.share
    signs = np.sign(dot(users.features, question.theta))
    return mean_over_rows(users, above * signs, np.ones((len(signs), 1)))


CLASSES: Statistics = {
    ClassCoefficients: class_coefficients,
    ClassStep: class_step,
    ClassShare: class_share,
    MeanScore: mean_score,
    Ranking: ranking,
}
