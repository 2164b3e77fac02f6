"""Statistics of regression and classification: gradients, steps, errors and local fits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.questions.links import LINKS
from ldp_flower.questions.public_maps import synthetic_features
from ldp_flower.questions.sparse import iht
from ldp_flower.randomizers.elementwise import directions, log, tanh
from ldp_flower.validation import Floats

from ..arithmetic import (
    class_labels,
    columns_at,
    dot,
    each_alone,
    mean_over_rows,
    ridge_coefficients,
    rms_over_rows,
    scale_bins,
    scaled_log_size,
    shortening,
)
from .registry import answers


@answers(q.Gradient)
def gradient(users: Users, question: q.Gradient) -> Floats:
    """Return each user's mean gradient of the loss at ``theta``, for :class:`Gradient`."""
    features: NDArray[Any] = users.features
    predicted = dot(features, question.theta) + (question.offset or 0.0)
    score = LINKS[question.link].score(predicted, users.targets)
    if question.feature_bound is not None:
        features = np.clip(features, -question.feature_bound, question.feature_bound)
    if question.row_bound is not None:
        factors = shortening(features, question.row_bound)
        features, score = features * factors[:, None], score * factors
    if question.residual_bound is not None:
        # A row that is too large for a float has a score of NaN, which counts as 0.
        known = np.where(np.isnan(score), 0.0, score)
        score = np.clip(known, -question.residual_bound, question.residual_bound)
    if question.feature_centre is not None:
        features = features - question.feature_centre
    mean = columns_at(mean_over_rows(users, features, score), question.coordinates)
    if question.constant is None:
        return mean
    last = mean_over_rows(users, np.full((len(score), 1), question.constant), score)
    return np.concatenate([mean, last], axis=1)


@answers(q.Curvature)
def curvature(users: Users, question: q.Curvature) -> Floats:
    """Return the capped mean square of ``x @ direction``, scaled, for :class:`Curvature`."""
    squares = np.minimum(dot(users.features, question.direction) ** 2, question.cap)
    return mean_over_rows(users, squares[:, None]) / (question.cap / 2) - 1


@answers(q.RootCurvature)
def root_curvature(users: Users, question: q.RootCurvature) -> Floats:
    """Return the scaled log root mean square of ``x @ direction`` (:class:`RootCurvature`)."""
    values = dot(users.features, question.direction)
    return scaled_log_size(rms_over_rows(users, values)[:, None], question)


def weighted_coefficients(
    users: Users, residual: Floats, question: q.ResidualCoefficients | q.ClassCoefficients
) -> Floats:
    """Return ``weights`` times the ridge coefficients of residuals scaled to mean square 1.

    The scale is the root mean square of the user's residuals.
    """
    sizes = rms_over_rows(users, residual)
    columns = columns_at(users.features, question.coordinates)
    values = ridge_coefficients(users, columns, residual, question.ridge)
    return values * (question.weights / np.where(sizes > 0, sizes, 1.0)[:, None])


@answers(q.ResidualCoefficients)
def residual_coefficients(users: Users, question: q.ResidualCoefficients) -> Floats:
    """Return weighted ridge coefficients of a model's residuals (:class:`ResidualCoefficients`)."""
    scales = rms_over_rows(users, users.targets)
    known = scales > 0
    of_rows = np.repeat(np.where(known, scales, 1.0), users.num_rows)
    residual = users.targets / of_rows - dot(users.features, question.theta)
    values = weighted_coefficients(users, residual, question)
    if question.scale is not None and question.scale_weight is not None:
        logs = log(np.where(known, scales, question.scale) / question.scale)
        values = np.concatenate([values, question.scale_weight * logs[:, None]], axis=1)
    return np.where(known[:, None], values, 0.0)


@answers(q.LocalCoefficients)
def local_coefficients(users: Users, question: q.LocalCoefficients) -> Floats:
    """Return ridge coefficients of residuals, the constant last, for :class:`LocalCoefficients`."""
    residual = users.targets - question.offset - dot(users.features, question.theta)
    constant = np.full((len(residual), 1), question.constant)
    chosen = columns_at(users.features, question.coordinates)
    columns = np.concatenate([chosen, constant], axis=1)
    squares = mean_over_rows(users, np.square(columns)).mean(axis=1)
    return ridge_coefficients(users, columns, residual, question.ridge * squares)


@answers(q.RidgeShift)
def ridge_shift(users: Users, question: q.RidgeShift) -> Floats:
    """Return each user's ridge coefficients of clipped residuals, for :class:`RidgeShift`."""
    targets = (users.targets - question.centre) / question.scale
    residual = targets - dot(users.features, question.theta)
    residual = np.clip(residual, -question.residual_bound, question.residual_bound)
    rows = np.maximum(users.num_rows, 1) if question.of_rows is None else question.of_rows
    return ridge_coefficients(users, users.features, residual, question.ridge / rows)


@answers(q.RidgeStep)
def ridge_step(users: Users, question: q.RidgeStep) -> Floats:
    """Return the unit vector in the direction of :func:`ridge_shift`, for :class:`RidgeStep`."""
    unit, length = directions(ridge_shift(users, question))
    return np.where(length[:, None] > 0, unit, 0.0)


@answers(q.TargetScaleBin)
def target_scale_bin(users: Users, question: q.TargetScaleBin) -> Floats:
    """Return the bin of the root mean square of targets, for :class:`TargetScaleBin`."""
    return scale_bins(rms_over_rows(users, users.targets), question)


@answers(q.SquaredErrors)
def squared_errors(users: Users, question: q.SquaredErrors) -> Floats:
    """Return weighted mean squared errors of a model and a constant (:class:`SquaredErrors`)."""
    targets = users.targets
    errors = [targets - dot(users.features, question.theta), targets - question.centre]
    squares = mean_over_rows(users, np.square(np.column_stack(errors)))
    loss, baseline = squares[:, :1], squares[:, 1:]
    weighted = question.loss_weight * loss + question.baseline_weight * baseline
    return np.asarray(weighted - question.offset)


_MAX_STEPS = 300


@answers(q.Teacher)
def teacher(users: Users, question: q.Teacher) -> Floats:
    """Return a user's own sparse model, or its answers to public rows, for :class:`Teacher`."""
    values = np.zeros((len(users), users.num_features))
    for i, x, y in each_alone(users):
        if not len(x):
            continue
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            values[i] = np.nan
            continue
        values[i] = iht(
            x,
            y,
            int(np.clip(question.sparsity, 1, users.num_features)),
            link=question.link,
            ridge=question.ridge or 0.0,
            radius=question.radius,
            max_steps=_MAX_STEPS,
        )
    values -= question.centre
    if question.num_answers is None or question.synthetic_seed is None:
        return values
    features = synthetic_features(question.synthetic_seed, question.num_answers, users.num_features)
    return _answers(values, features)


def _answers(values: Floats, features: Floats) -> Floats:
    """Return ``features @ value`` for each user.

    Each product is computed separately: the order of its sums may depend on a matrix's size.
    """
    answers = np.empty((len(values), len(features)))
    for i, value in enumerate(values):
        support = np.flatnonzero(value)
        answers[i] = features[:, support] @ value[support]
    return answers


@answers(q.ClassCoefficients)
def class_coefficients(users: Users, question: q.ClassCoefficients) -> Floats:
    """Return weighted ridge coefficients of class residuals, for :class:`ClassCoefficients`."""
    residual = class_labels(users) - tanh(dot(users.features, question.theta) / 2)
    return weighted_coefficients(users, residual, question)


def of_class(users: Users, place: float, yes: float, no: float) -> Floats:
    """Return ``yes`` for rows of the class number ``place``, ``no`` for rows of another class.

    A row without a class has NaN.
    """
    return np.where(np.isnan(users.targets), np.nan, np.where(users.targets == place, yes, no))


@answers(q.ClassStep)
def class_step(users: Users, question: q.ClassStep) -> Floats:
    """Return the direction of ridge coefficients for one class against all (:class:`ClassStep`)."""
    residual = of_class(users, question.place, 1.0, -1.0) - tanh(
        dot(users.features, question.theta)
    )
    unit, length = directions(ridge_coefficients(users, users.features, residual, question.ridge))
    wanted = np.ones(len(users))
    if question.weighted:
        wanted = np.minimum(rms_over_rows(users, residual), 1.0)
    return np.where(length[:, None] > 0, unit * wanted[:, None], 0.0)


@answers(q.ClassShare)
def class_share(users: Users, question: q.ClassShare) -> Floats:
    """Return each user's share of rows in one class, minus a half, for :class:`ClassShare`."""
    halves = of_class(users, question.place, 0.5, -0.5)
    return mean_over_rows(users, halves[:, None])


@answers(q.MeanScore)
def mean_score(users: Users, question: q.MeanScore) -> Floats:
    """Return each user's mean score, with scores clipped to [-1, 1], for :class:`MeanScore`."""
    scores = np.clip(dot(users.features, question.theta), -1.0, 1.0)
    return mean_over_rows(users, scores[:, None])


@answers(q.Ranking)
def ranking(users: Users, question: q.Ranking) -> Floats:
    """Return the mean of the score's sign times class minus share, for :class:`Ranking`."""
    above = of_class(users, question.place, 1.0, 0.0) - question.share
    signs = np.sign(dot(users.features, question.theta))
    return mean_over_rows(users, (above * signs)[:, None])
