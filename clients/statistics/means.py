"""Means of features, and how far they are from a centre."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee import questions as q
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers.elementwise import row_dots, row_norms
from ldp_flower.validation import Floats

from ..arithmetic import log_ratio, mean_over_rows, scale_bins, sum_over_rows
from .selection import largest

_BORROWED = 4.0  # rows


def _difference(
    users: Users, centre: Floats, coordinates: NDArray[np.int64] | None = None
) -> Floats:
    """Return each user's mean row of features minus ``centre``, NaN without rows."""
    ones = np.ones(len(users.features))
    means = mean_over_rows(users, ones, users.features) - centre
    means[users.num_rows == 0] = np.nan
    return means if coordinates is None else means[:, coordinates]


def mean(users: Users, question: q.Mean) -> Floats:
    """Compute :class:`Mean`."""
    return _difference(users, question.centre, question.coordinates)


def weighted_mean(users: Users, question: q.WeightedMean) -> Floats:
    """Compute :class:`WeightedMean`."""
    return _difference(users, question.centre, question.coordinates) * question.weights


def outstanding_features(users: Users, question: q.OutstandingFeatures) -> Floats:
    """Compute :class:`OutstandingFeatures`."""
    squares = np.square(users.features)
    ones = np.ones(len(squares))
    sums = sum_over_rows(users, ones, users.features)
    own = sum_over_rows(users, ones, squares)
    rows = np.maximum(users.num_rows, 1)[:, None]
    typical = row_dots(own, np.ones(1))[:, None] / (rows * users.num_features)
    size = np.sqrt((own + _BORROWED * typical) / (rows + _BORROWED))
    return largest(sums / np.where(size > 0, size, 1.0), question.set_size)


def distance_bin(users: Users, question: q.DistanceBin) -> Floats:
    """Compute :class:`DistanceBin`."""
    return scale_bins(row_norms(_difference(users, question.centre)), question)


def _joined(users: Users) -> Users:
    """Return the same users with the target as their last feature."""
    joined = np.column_stack([users.features, users.targets])
    return replace(users, features=joined, missing=None)


def column_means(users: Users, question: q.ColumnMeans) -> Floats:
    """Compute :class:`ColumnMeans`."""
    return _difference(_joined(users), question.centre, question.coordinates)


def column_mean_norm(users: Users, question: q.ColumnMeanNorm) -> Floats:
    """Compute :class:`ColumnMeanNorm`."""
    differences = _difference(_joined(users), question.centre, question.coordinates)
    return log_ratio(row_norms(differences)[:, None], question)


def column_log_sizes(users: Users, question: q.ColumnLogSizes) -> Floats:
    """Compute :class:`ColumnLogSizes`."""
    squares = np.square(_joined(users).features)
    sizes = np.sqrt(mean_over_rows(users, np.ones(len(squares)), squares))
    if question.coordinates is not None:
        sizes = sizes[:, question.coordinates]
    logs = np.clip(log_ratio(sizes, question), -1, 1) * question.log_range
    return np.where((sizes != 0).any(axis=1, keepdims=True), logs, 0.0)
