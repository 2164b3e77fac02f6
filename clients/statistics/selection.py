"""Local selectors: which features matter most to the targets of one user.

scikit-learn is imported where it is used: that takes as long as a hundred messages in
Flower's engine, each of whose processes would pay it.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from ldp_flower.messages import Arrays
from ldp_flower.users import Users

from .ridge import ridge_coefficients
from .rows import Floats, sum_over_rows
from .statistic import Params, Statistic, feature_set_size

_MISSING = -1.0  # no feature: the randomizer puts a random one in its place


def largest(scores: Floats, size: int) -> Floats:
    """Return the columns of the largest scores of each row, in any order.

    Columns of score 0 or NaN tell nothing and are missing.
    """
    scores = np.nan_to_num(np.abs(scores), nan=0.0)
    order = np.argpartition(-scores, size - 1, axis=1)[:, :size]
    found = np.take_along_axis(scores, order, axis=1) > 0
    return np.where(found, order, _MISSING)


def correlated_features(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return the features with the largest ``|X'y|``, shape (users, ``set_size``).

    With ``params["ridge"]`` (optional), those with the largest ridge coefficients, which
    takes off what is due to correlated features.
    """
    if "ridge" in params:
        scores = ridge_coefficients(users, users.features, users.targets, params["ridge"])
    else:
        scores = sum_over_rows(users, users.targets, users.features)
    return largest(scores, int(params["set_size"]))


def _one_by_one(fit: Callable[[Floats, Floats, Params], Floats]) -> Callable[..., Floats]:
    """Return the statistic of the features with the largest coefficients of a local fit."""

    def selected(users: Users, arrays: Arrays, params: Params) -> Floats:
        # Here, so that the time it takes does not depend on what any user holds.
        import sklearn.linear_model  # noqa: F401

        scores = np.zeros((len(users), users.num_features))
        for i in np.flatnonzero(users.num_rows):
            rows = slice(users.offsets[i], users.offsets[i + 1])
            x, y = users.features[rows].copy(), users.targets[rows].copy()  # wherever they lay
            if np.isfinite(x).all() and np.isfinite(y).all():
                scores[i] = fit(x, y, params)
        return largest(scores, int(params["set_size"]))

    selected.__doc__ = fit.__doc__
    return selected


def _lasso(x: Floats, y: Floats, params: Params) -> Floats:
    """Return the features with the largest Lasso coefficients, shape (users, ``set_size``).

    The penalty is ``params["penalty"]`` times the universal ``sqrt(2 log d / m)`` times
    the root mean square of the targets.
    """
    from sklearn.linear_model import lasso_path

    scale = math.sqrt(2 * math.log(max(x.shape[1], 2)) / len(y)) * math.sqrt(np.mean(y**2))
    penalty = params["penalty"] * scale
    if penalty == 0:
        return np.zeros(x.shape[1])
    # What scikit-learn's Lasso calls; checking its arguments would take as long as the fit.
    _, coefficients, _ = lasso_path(
        np.asfortranarray(x),
        y,
        alphas=[penalty],
        precompute=False,
        max_iter=1000,
        tol=1e-4,
        check_input=False,
    )
    return np.asarray(coefficients[:, 0])


def _post_lasso(x: Floats, y: Floats, params: Params) -> Floats:
    """Return the features with the largest least-squares coefficients of the Lasso's support.

    Shape (users, ``set_size``); ``params`` as for ``lasso_features``.
    """
    from sklearn.linear_model import LinearRegression

    shrunken = _lasso(x, y, params)
    support = np.argsort(-np.abs(shrunken), kind="stable")[: max(1, len(y) // 2)]
    support = support[shrunken[support] != 0]
    refitted = np.zeros(x.shape[1])
    if len(support):
        refit = LinearRegression(fit_intercept=False).fit(x[:, support], y)
        refitted[support] = refit.coef_
    return refitted


def _pursuit(x: Floats, y: Floats, params: Params) -> Floats:
    """Return the first features of orthogonal matching pursuit, shape (users, ``set_size``)."""
    from sklearn.linear_model import orthogonal_mp

    size = min(int(params["set_size"]), *x.shape)
    return np.asarray(orthogonal_mp(x, y, n_nonzero_coefs=size))


SELECTION: Mapping[str, Statistic] = {
    "correlated_features": Statistic(
        correlated_features,
        feature_set_size,
        params=frozenset({"set_size"}),
        optional_params=frozenset({"ridge"}),
    ),
    "lasso_features": Statistic(
        _one_by_one(_lasso), feature_set_size, params=frozenset({"set_size", "penalty"})
    ),
    "post_lasso_features": Statistic(
        _one_by_one(_post_lasso), feature_set_size, params=frozenset({"set_size", "penalty"})
    ),
    "pursued_features": Statistic(
        _one_by_one(_pursuit), feature_set_size, params=frozenset({"set_size"})
    ),
}
