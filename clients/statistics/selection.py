"""Local selectors of the features that matter most to one user's targets.

The functions that need scikit-learn import it. The import takes as long as a hundred messages in
Flower's engine, and otherwise each process of the engine would need this time.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.randomizers.elementwise import row_dots
from ldp_flower.validation import Floats

from ..arithmetic import each_alone, ridge_coefficients, sum_over_rows
from .registry import answers

_BORROWED = 4.0  # weight, in rows, of the mean square of all features
_MISSING = -1.0  # stands for no feature: the randomizer replaces it by a random feature


def largest(scores: Floats, size: int) -> Floats:
    """Return the columns of the ``size`` largest absolute scores of each row, in any order.

    If there are fewer columns, return all. -1 replaces a column whose score is 0 or NaN.
    """
    scores = np.nan_to_num(np.abs(scores), nan=0.0)
    size = min(size, scores.shape[1])
    order = np.argpartition(-scores, size - 1, axis=1)[:, :size]
    found = np.take_along_axis(scores, order, axis=1) > 0
    return np.where(found, order, _MISSING)


@answers(q.CorrelatedFeatures)
def correlated_features(users: Users, question: q.CorrelatedFeatures) -> Floats:
    """Return the columns most correlated with a user's targets, for :class:`CorrelatedFeatures`."""
    if question.ridge is not None:
        scores = ridge_coefficients(users, users.features, users.targets, question.ridge)
    else:
        scores = sum_over_rows(users, users.features, users.targets)
    return largest(scores, question.set_size)


@answers(q.OutstandingFeatures)
def outstanding_features(users: Users, question: q.OutstandingFeatures) -> Floats:
    """Return the columns with the largest standardised sums, for :class:`OutstandingFeatures`."""
    sums = sum_over_rows(users, users.features)
    own = sum_over_rows(users, np.square(users.features))
    rows = np.maximum(users.num_rows, 1)[:, None]
    typical = row_dots(own, np.ones(1))[:, None] / (rows * users.num_features)
    size = np.sqrt((own + _BORROWED * typical) / (rows + _BORROWED))
    return largest(sums / np.where(size > 0, size, 1.0), question.set_size)


def _one_by_one(fit: Callable[[Floats, Floats, Any], Floats]) -> Callable[..., Floats]:
    """Return a statistic, which selects the features with a user's largest coefficients.

    The function ``fit`` computes the coefficients, for one user after the other.
    """

    def selected(users: Users, question: Any) -> Floats:
        # Imported here, so that the time of the import does not depend on a user's data.
        import sklearn.linear_model

        scores = np.zeros((len(users), users.num_features))
        # scikit-learn's check of the arguments takes four times as long as the fit.
        with sklearn.config_context(skip_parameter_validation=True):
            for i, x, y in each_alone(users):
                if len(x) and np.isfinite(x).all() and np.isfinite(y).all():
                    scores[i] = fit(x, y, question)
        return largest(scores, question.set_size)

    return selected


def _lasso(x: Floats, y: Floats, question: q.LassoFeatures | q.PostLassoFeatures) -> Floats:
    from sklearn.linear_model import lasso_path

    scale = math.sqrt(2 * math.log(max(x.shape[1], 2)) / len(y)) * math.sqrt(np.mean(y**2))
    penalty = question.penalty * scale
    if penalty == 0:
        return np.zeros(x.shape[1])
    # The function that scikit-learn's Lasso calls, without its checks.
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


def _post_lasso(x: Floats, y: Floats, question: q.PostLassoFeatures) -> Floats:
    from sklearn.linear_model import LinearRegression

    shrunken = _lasso(x, y, question)
    support = np.argsort(-np.abs(shrunken), kind="stable")[: max(1, len(y) // 2)]
    support = support[shrunken[support] != 0]
    refitted = np.zeros(x.shape[1])
    if len(support):
        refit = LinearRegression(fit_intercept=False).fit(x[:, support], y)
        refitted[support] = refit.coef_
    return refitted


def _pursuit(x: Floats, y: Floats, question: q.PursuedFeatures) -> Floats:
    from sklearn.linear_model import orthogonal_mp

    size = min(question.set_size, *x.shape)
    return np.asarray(orthogonal_mp(x, y, n_nonzero_coefs=size))


lasso_features = answers(q.LassoFeatures)(_one_by_one(_lasso))
post_lasso_features = answers(q.PostLassoFeatures)(_one_by_one(_post_lasso))
pursued_features = answers(q.PursuedFeatures)(_one_by_one(_pursuit))
