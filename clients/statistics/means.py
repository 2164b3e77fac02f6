"""Statistics of means: means and moments of features and targets, and numbers of rows."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.questions.moments import num_monomials, packed_power, tensor_powers, tensor_weight
from ldp_flower.randomizers.elementwise import directions, log, row_norms
from ldp_flower.validation import Floats

from ..arithmetic import columns_at, mean_over_rows, scale_bins, scaled_log_size
from .registry import answers


def _difference(
    users: Users, centre: Floats, coordinates: NDArray[np.int64] | None = None
) -> Floats:
    """Return each user's mean row of features minus ``centre``; NaN without rows."""
    means = mean_over_rows(users, users.features) - centre
    means[users.num_rows == 0] = np.nan
    return columns_at(means, coordinates)


@answers(q.Mean)
def mean(users: Users, question: q.Mean) -> Floats:
    """Return each user's mean row of features minus ``centre``, for :class:`Mean`."""
    return _difference(users, question.centre, question.coordinates)


@answers(q.WeightedMean)
def weighted_mean(users: Users, question: q.WeightedMean) -> Floats:
    """Return each user's mean row minus ``centre``, times ``weights`` (:class:`WeightedMean`)."""
    return _difference(users, question.centre, question.coordinates) * question.weights


@answers(q.DistanceBin)
def distance_bin(users: Users, question: q.DistanceBin) -> Floats:
    """Return the bin of each mean row's distance from ``centre``, for :class:`DistanceBin`."""
    return scale_bins(row_norms(_difference(users, question.centre)), question)


def _joined(users: Users) -> Users:
    """Return the same users with the target as their last feature."""
    joined = np.column_stack([users.features, users.targets])
    return replace(users, features=joined, missing=None)


@answers(q.ColumnMeans)
def column_means(users: Users, question: q.ColumnMeans) -> Floats:
    """Return each user's mean of features and target minus ``centre`` (:class:`ColumnMeans`)."""
    return _difference(_joined(users), question.centre, question.coordinates)


@answers(q.ColumnMeanNorm)
def column_mean_norm(users: Users, question: q.ColumnMeanNorm) -> Floats:
    """Return the scaled log length of :func:`column_means`, for :class:`ColumnMeanNorm`."""
    differences = _difference(_joined(users), question.centre, question.coordinates)
    return scaled_log_size(row_norms(differences)[:, None], question)


@answers(q.ColumnLogSizes)
def column_log_sizes(users: Users, question: q.ColumnLogSizes) -> Floats:
    """Return clipped logs of the root mean square of each column (:class:`ColumnLogSizes`)."""
    squares = np.square(columns_at(_joined(users).features, question.coordinates))
    sizes = np.sqrt(mean_over_rows(users, squares))
    logs = np.clip(scaled_log_size(sizes, question), -1, 1) * question.log_range
    return np.where((sizes != 0).any(axis=1, keepdims=True), logs, 0.0)


_BLOCK_ENTRIES = 1 << 22  # products held in memory at a time

Powers = Mapping[int, float]  # exponents of tensor powers, and their weights

Bounded = q.SecondMoments | q.TensorMoments | q.Record | q.RecordCopies


def bounded_rows(users: Users, question: Bounded) -> tuple[Floats, Floats]:
    """Return rows in the unit ball and targets in [-1, 1], see :class:`SecondMoments`."""
    unit, length = directions(users.features)
    x = unit * np.minimum(length / question.feature_bound, 1.0)[:, None]
    return x, np.clip(users.targets / question.target_bound, -1.0, 1.0)


def _moments(
    users: Users,
    question: q.SecondMoments | q.TensorMoments,
    product_weight: float,
    powers: Powers,
) -> Floats:
    """Return each user's means of x y and of tensor powers of x, each times its weight."""
    x, y = bounded_rows(users, question)
    parts = [product_weight * mean_over_rows(users, x, y)]
    for degree, weight in powers.items():
        step = max(1, _BLOCK_ENTRIES // max(len(x), 1))
        for start in range(0, num_monomials(x.shape[1], degree), step):
            packed = packed_power(x, degree, slice(start, start + step))
            parts.append(weight * mean_over_rows(users, packed))
    return np.concatenate(parts, axis=1)


@answers(q.SecondMoments)
def second_moments(users: Users, question: q.SecondMoments) -> Floats:
    """Return weighted means of x y and of products of two features (:class:`SecondMoments`)."""
    return _moments(users, question, question.product_weight, {2: question.square_weight})


@answers(q.TensorMoments)
def tensor_moments(users: Users, question: q.TensorMoments) -> Floats:
    """Return weighted means of x y and of tensor powers of x (:class:`TensorMoments`)."""
    powers = tensor_powers(question.degree, question.stride)
    weight = tensor_weight(powers)
    return _moments(users, question, weight, dict.fromkeys(powers, weight))


@answers(q.RowCount)
def row_count(users: Users, question: q.RowCount) -> Floats:
    """Return the scaled logarithm of each user's number of rows, for :class:`RowCount`."""
    rows = np.maximum(users.num_rows, 1) / question.prior
    return (log(rows) / question.log_range)[:, None]
