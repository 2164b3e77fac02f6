"""Statistics of classes: the targets as labels of -1 and 1."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import ClassCoefficients, OfClasses
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers.elementwise import tanh

from ..arithmetic.rows import Floats, dot
from .registry import Statistics
from .regression import weighted_coefficients


def class_labels(users: Users) -> NDArray[np.float64]:
    """Return 1 for a positive target, -1 for another, NaN for a missing one."""
    return np.where(np.isnan(users.targets), np.nan, np.where(users.targets > 0, 1.0, -1.0))


def class_coefficients(users: Users, question: ClassCoefficients) -> Floats:
    """Compute :class:`ClassCoefficients`."""
    residual = class_labels(users) - tanh(dot(users.features, question.theta) / 2)
    return weighted_coefficients(users, residual, question)


def with_labels(users: Users, question: OfClasses) -> Users:
    """Return the users that :class:`OfClasses` is about: labels are their targets."""
    return replace(users, targets=class_labels(users))


CLASSES: Statistics = {ClassCoefficients: class_coefficients}
