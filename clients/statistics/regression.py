"""Statistics of linear regression: gradients of the squared loss and what goes with them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.elementwise import log, row_norms
from ldp_flower.links import LINKS
from ldp_flower.messages import Arrays, MessageError
from ldp_flower.users import Users

from .ridge import ridge_coefficients
from .rows import Floats, dot, mean_over_rows, norm_over_rows, shortened
from .scale import SCALE_PARAMS, log_ratio, scale_bins
from .statistic import Params, Statistic, one, per_coordinate


def gradient(users: Users, arrays: Arrays, params: Params, link: str = "identity") -> Floats:
    """Return each user's mean gradient of the loss of ``link`` at ``theta``.

    ``arrays["theta"]``, shape (num_features,); ``arrays["coordinates"]`` (optional):
    the coordinates wanted, by default all. ``params["feature_bound"]`` clips features
    to ``[-bound, bound]``, ``params["row_bound"]`` shortens rows to this length, and
    ``params["residual_bound"]`` clips the score, which is ``<x, theta> - y`` for the
    squared loss (all optional). ``arrays["centre"]`` (optional) is for the mechanism.
    """
    features: NDArray[Any] = users.features
    if "feature_bound" in params:
        features = np.clip(features, -params["feature_bound"], params["feature_bound"])
    if "row_bound" in params:
        features = shortened(features, params["row_bound"])
    score = LINKS[link].score(dot(features, arrays["theta"]), users.targets)
    if "residual_bound" in params:
        score = np.clip(score, -params["residual_bound"], params["residual_bound"])
    mean = mean_over_rows(users, score, features)
    return mean[:, arrays["coordinates"]] if "coordinates" in arrays else mean


def gradient_norm(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return log(norm of the mean gradient / ``centre``) / ``log_range``, shape (users, 1)."""
    return log_ratio(row_norms(gradient(users, arrays, {}))[:, None], params)


def curvature(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return the mean of min(<x, direction>**2, ``cap``), moved to [-1, 1], shape (users, 1)."""
    squares = np.minimum(dot(users.features, arrays["direction"]) ** 2, params["cap"])
    return mean_over_rows(users, squares, np.ones((len(squares), 1))) / (params["cap"] / 2) - 1


def root_curvature(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return log(size / ``centre``) / ``log_range``, shape (users, 1).

    The size is the root mean square of <x, direction>.
    """
    values = dot(users.features, arrays["direction"])
    roots = np.sqrt(np.maximum(users.num_rows, 1))
    return log_ratio((norm_over_rows(users, values) / roots)[:, None], params)


def weighted_coefficients(users: Users, residual: Floats, arrays: Arrays, ridge: float) -> Floats:
    """Return ``weights`` times the ridge coefficients of residuals of mean square 1.

    ``arrays["coordinates"]`` are the k features that each user's residual is regressed
    on (by default all), ``arrays["weights"]``, shape (k,), what their coefficients are
    multiplied by. Residuals are divided by the user's own root mean square first.
    """
    sizes = norm_over_rows(users, residual) / np.sqrt(np.maximum(users.num_rows, 1))
    wanted = arrays.get("coordinates")
    columns = users.features if wanted is None else users.features[:, wanted]
    values = ridge_coefficients(users, columns, residual, ridge)
    return values * (arrays["weights"] / np.where(sizes > 0, sizes, 1.0)[:, None])


def residual_coefficients(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return ``weights`` times the ridge coefficients of what ``theta`` leaves of the targets.

    Targets are in units of the user's own root mean square, and so is ``theta``; the
    residual is then brought to mean square 1 itself. ``arrays["coordinates"]`` are the
    k features that it is regressed on (by default all), ``arrays["weights"]``, shape
    (k,), what their coefficients are multiplied by, and ``params["ridge"]`` is in units
    of a feature's mean square. Shape (users, k); with ``params["scale"]`` and
    ``params["scale_weight"]`` (optional, together) (users, k + 1), the last column
    ``scale_weight`` times the logarithm of the targets' root mean square over
    ``scale``. Users whose targets are all zero have zeros.
    """
    roots = np.sqrt(np.maximum(users.num_rows, 1))
    scales = norm_over_rows(users, users.targets) / roots
    known = scales > 0
    of_rows = np.repeat(np.where(known, scales, 1.0), users.num_rows)
    residual = users.targets / of_rows - dot(users.features, arrays["theta"])
    values = weighted_coefficients(users, residual, arrays, params["ridge"])
    if "scale" in params:
        logs = log(np.where(known, scales, params["scale"]) / params["scale"])
        values = np.concatenate([values, params["scale_weight"] * logs[:, None]], axis=1)
    return np.where(known[:, None], values, 0.0)


def _with_scale(num_features: int, arrays: Arrays, params: Params) -> int:
    """Return the width of :func:`residual_coefficients`, one more if the scale is asked for."""
    together = {"scale", "scale_weight"} & set(params)
    if len(together) == 1:
        raise MessageError("Expected scale and scale_weight together.")
    return per_coordinate(num_features, arrays, params) + len(together) // 2


def target_scale(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return the bin of the root mean square of the targets, shape (users, 1).

    For the bins see :func:`~.scale.scale_bins`.
    """
    sizes = norm_over_rows(users, users.targets) / np.sqrt(np.maximum(users.num_rows, 1))
    return scale_bins(sizes, params)


def _gradient(link: str) -> Statistic:
    return Statistic(
        partial(gradient, link=link),
        per_coordinate,
        vectors=frozenset({"theta"}),
        optional_outputs=frozenset({"centre"}),
        optional_params=frozenset({"feature_bound", "row_bound", "residual_bound"}),
        coordinates=True,
    )


REGRESSION: Mapping[str, Statistic] = {
    "gradient": _gradient("identity"),
    **{f"{link}_gradient": _gradient(link) for link in LINKS if link != "identity"},
    "gradient_norm": Statistic(
        gradient_norm,
        one,
        vectors=frozenset({"theta"}),
        params=frozenset({"centre", "log_range"}),
    ),
    "residual_coefficients": Statistic(
        residual_coefficients,
        _with_scale,
        vectors=frozenset({"theta"}),
        weights=frozenset({"weights"}),
        params=frozenset({"ridge"}),
        optional_params=frozenset({"scale", "scale_weight"}),
        coordinates=True,
    ),
    "target_scale": Statistic(target_scale, one, params=SCALE_PARAMS),
    "root_curvature": Statistic(
        root_curvature,
        one,
        vectors=frozenset({"direction"}),
        params=frozenset({"centre", "log_range"}),
    ),
    "curvature": Statistic(
        curvature,
        one,
        vectors=frozenset({"direction"}),
        params=frozenset({"cap"}),
    ),
}
