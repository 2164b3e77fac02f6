"""Which of a user's rows count, sums over them, and their sizes' bins and logarithms.

All of it follows, to the last bit, from that user alone.

In BLAS and einsum the order in which one row is added up can depend on how many rows
there are, which is another user's secret; so none of these multiplies matrices. Sums within
a row are those of :mod:`ldp_flower.randomizers.elementwise`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ldp_flower.guarantee import questions as q
from ldp_flower.guarantee.questions import Question, Rows
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers.elementwise import log, log2
from ldp_flower.randomness import Words, derive
from ldp_flower.validation import Floats


def sum_over_rows(users: Users, weights: Floats, rows: NDArray[Any]) -> Floats:
    """Return each user's sum of ``weights[r] * rows[r]``, shape (users, columns).

    A product with a sparse matrix adds up a user's rows one after the other: it keeps users apart
    and copies no rows.
    """
    num_rows = len(weights)
    by_user = csr_array((weights, np.arange(num_rows), users.offsets), (len(users), num_rows))
    return np.ascontiguousarray(by_user @ rows, np.float64)


def mean_over_rows(users: Users, weights: Floats, rows: NDArray[Any]) -> Floats:
    """Return each user's mean of ``weights[r] * rows[r]``, zero without rows."""
    return sum_over_rows(users, weights, rows) / np.maximum(users.num_rows, 1)[:, None]


def norm_over_rows(users: Users, values: NDArray[Any]) -> Floats:
    """Return the Euclidean norm of each user's numbers, one a row, shape (users,)."""
    return np.sqrt(sum_over_rows(users, values, values[:, None])[:, 0])


def dot(rows: NDArray[Any], vector: Floats) -> Floats:
    """Return ``rows @ vector``, column by column where the vector is not zero."""
    total = np.zeros(len(rows))
    for column in np.flatnonzero(vector):
        total += rows[:, column] * vector[column]
    return total


def shortened(rows: NDArray[Any], length: float) -> Floats:
    """Return rows shortened to a Euclidean length, those that are longer."""
    squares = np.zeros(len(rows))
    for column in range(rows.shape[1]):
        squares += rows[:, column] ** 2
    factors = length / np.maximum(np.sqrt(squares), length)
    return np.asarray(rows * factors[:, None])


def scale_bins(sizes: Floats, bins: q.TargetScaleBin | q.DistanceBin) -> Floats:
    """Return the bin of every size, shape (users, 1): see :class:`TargetScaleBin`."""
    octaves = log2(sizes / bins.smallest)
    found = np.clip(np.floor(bins.per_octave * octaves), 0, bins.num_bins - 1)
    return np.where(sizes > 0, found, -1.0)[:, None]


def log_ratio(
    sizes: Floats,
    question: q.GradientNorm | q.RootCurvature | q.ColumnMeanNorm | q.ColumnLogSizes,
) -> Floats:
    """Return log(size / ``prior``) / ``log_range``."""
    tiny = np.finfo(np.float64).tiny
    return np.asarray(log(np.maximum(sizes, tiny) / question.prior) / question.log_range)


def chosen(users: Users, question: Question, words: Words) -> Users:
    """Return the users with the rows that the question is about, drawn by ``words``, one a user."""
    match question.rows:
        case Rows.FINITE:
            return users.finite()
        case Rows.SHUFFLED:
            return _shuffled(users, words)
        case Rows.PRESENT | Rows.DRAWN:
            columns: NDArray[np.int64] = getattr(question, "coordinates")  # noqa: B009
            there = users.only(_present(users, columns))
            return there if question.rows is Rows.PRESENT else _shuffled(there, words)
    return users


def _present(users: Users, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows have an entry in each of these columns, the target the last of all."""
    there = np.ones(len(users.targets), np.bool_)
    for column in columns.tolist():
        if column == users.num_features:
            there &= np.isfinite(users.targets)
            continue
        there &= np.isfinite(users.features[:, column])
        if users.missing is not None:
            there &= ~users.missing[:, column]
    return there


def _shuffled(users: Users, words: Words) -> Users:
    """Return the users with their rows in an order that follows from each one's word."""
    number = np.arange(len(users.targets)) - np.repeat(users.offsets[:-1], users.num_rows)
    return users.ordered(derive(np.repeat(words, users.num_rows), number.astype(np.uint64)))
