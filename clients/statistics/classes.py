"""Statistics of classes: the targets as labels of -1 and 1."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldp_flower.elementwise import tanh
from ldp_flower.messages import Arrays
from ldp_flower.users import Users

from .regression import weighted_coefficients
from .rows import Floats, dot
from .selection import SELECTION
from .statistic import Params, Statistic, per_coordinate


def class_labels(users: Users) -> NDArray[np.float64]:
    """Return 1 for a positive target, -1 for another, NaN for a missing one."""
    return np.where(np.isnan(users.targets), np.nan, np.where(users.targets > 0, 1.0, -1.0))


def class_coefficients(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return ``weights`` times the ridge coefficients of what ``theta`` leaves of the labels.

    That is the label less its expectation ``tanh(<x, theta> / 2)`` under logistic
    regression, brought to mean square 1. For ``arrays["coordinates"]``,
    ``arrays["weights"]`` and ``params["ridge"]`` see
    :func:`~.regression.residual_coefficients`. Shape (users, k).
    """
    residual = class_labels(users) - tanh(dot(users.features, arrays["theta"]) / 2)
    return weighted_coefficients(users, residual, arrays, params["ridge"])


def of_classes(statistic: Statistic) -> Statistic:
    """Return the statistic of the same users with labels for targets."""

    def compute(users: Users, arrays: Arrays, params: Params) -> Floats:
        return statistic.compute(replace(users, targets=class_labels(users)), arrays, params)

    return replace(statistic, compute=compute)


CLASSES: Mapping[str, Statistic] = {
    "class_coefficients": Statistic(
        class_coefficients,
        per_coordinate,
        vectors=frozenset({"theta"}),
        weights=frozenset({"weights"}),
        params=frozenset({"ridge"}),
        coordinates=True,
    ),
    **{f"class_{name}": of_classes(statistic) for name, statistic in SELECTION.items()},
}
