"""Statistics of columns that public constants have brought to about mean 0 and scale 1."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ldp_flower.elementwise import row_norms
from ldp_flower.messages import Arrays
from ldp_flower.users import Users

from .evaluation import EVALUATION
from .means import MEANS, mean
from .regression import REGRESSION
from .rows import Floats, mean_over_rows
from .scale import log_ratio
from .selection import SELECTION
from .statistic import Params, Statistic, one, per_coordinate

_CLIP = 3.0  # standardised numbers lie within this distance of 0


def standardised(inner: Statistic) -> Statistic:
    """Return the statistic of standardised features and targets.

    Its queries have two more arrays, ``means`` and ``scales``, one number for each feature
    and, last, one for the target. A column of mean 0 and scale 1 is left as it is; others
    become ``(x - mean) / scale``, clipped to [-3, 3]. With ``params["within"]`` (optional,
    any number) users first subtract the means of their own rows, so that what remains
    says nothing about differences between users; a user with one row then has zeros.
    """

    def compute(users: Users, arrays: Arrays, params: Params) -> Floats:
        if "within" in params:
            users = _within(users)
        return inner.compute(_standardise(users, arrays["means"], arrays["scales"]), arrays, params)

    return replace(
        inner,
        compute=compute,
        columns=inner.columns | {"means", "scales"},
        optional_params=inner.optional_params | {"within"},
    )


def _within(users: Users) -> Users:
    """Return deviations from each user's own means."""
    ones, user = np.ones(len(users.targets)), np.repeat(np.arange(len(users)), users.num_rows)
    features = users.features - mean_over_rows(users, ones, users.features)[user]
    targets = users.targets - mean_over_rows(users, ones, users.targets[:, None])[user, 0]
    return replace(users, features=features, targets=targets)


def _standardise(users: Users, means: Floats, scales: Floats) -> Users:
    features, targets = users.features.copy(), users.targets
    *moved, target = (means != 0) | (scales != 1)
    for j in np.flatnonzero(moved):
        features[:, j] = np.clip((features[:, j] - means[j]) / scales[j], -_CLIP, _CLIP)
    if target:
        targets = np.clip((targets - means[-1]) / scales[-1], -_CLIP, _CLIP)
    return replace(users, features=features, targets=targets)


def _of_columns(inner: Statistic) -> Statistic:
    """Return the statistic of all columns: the target counts as the last feature."""

    def compute(users: Users, arrays: Arrays, params: Params) -> Floats:
        joined = np.column_stack([users.features, users.targets])
        return inner.compute(replace(users, features=joined), arrays, params)

    return replace(inner, compute=compute, mapped=lambda num_features, params: num_features + 1)


def log_sizes(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return the logarithm of each feature's root mean square over ``params["centre"]``.

    It is clipped to ``params["log_range"]`` in either direction.
    ``arrays["coordinates"]`` (optional): the features wanted, by default all. Users without
    rows, or with zeros only, have zeros.
    """
    squares = np.square(users.features)
    sizes = np.sqrt(mean_over_rows(users, np.ones(len(squares)), squares))
    if "coordinates" in arrays:
        sizes = sizes[:, arrays["coordinates"]]
    logs = np.clip(log_ratio(sizes, params), -1, 1) * params["log_range"]
    return np.where((sizes != 0).any(axis=1, keepdims=True), logs, 0.0)


def mean_norm(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return log(norm of :func:`~.means.mean` / ``centre``) / ``log_range``, shape (users, 1).

    ``params["centre"]`` is a norm, ``arrays["centre"]`` what is subtracted from means.
    """
    return log_ratio(row_norms(mean(users, arrays, params))[:, None], params)


_COLUMNS = {
    "column_means": MEANS["mean"],
    "column_log_sizes": Statistic(
        log_sizes, per_coordinate, params=frozenset({"centre", "log_range"}), coordinates=True
    ),
    "column_mean_norm": Statistic(
        mean_norm,
        one,
        vectors=frozenset({"centre"}),
        params=frozenset({"centre", "log_range"}),
        coordinates=True,
    ),
}

_ASKED_OF_TABLES = (
    *("gradient", "gradient_norm", "root_curvature", "curvature"),
    *("residual_coefficients", "target_scale"),
)

_STANDARDISED = {
    **{name: _of_columns(statistic) for name, statistic in _COLUMNS.items()},
    **{name: REGRESSION[name] for name in _ASKED_OF_TABLES},
    **SELECTION,
    **EVALUATION,
}

STANDARDISED: Mapping[str, Statistic] = {
    f"standardised_{name}": standardised(statistic) for name, statistic in _STANDARDISED.items()
}
