"""Which of a user's rows count, sums over them, their sizes' bins, and ridge regression in them.

All of it follows, to the last bit, from that user alone.

In BLAS and einsum the order in which one row is added up can depend on how many rows
there are, which is another user's secret; so no sum here multiplies matrices, and ridge regression
multiplies those of one user at a time. Sums within a row are those of
:mod:`ldp_flower.randomizers.elementwise`.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.questions import Question, Rows
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


def each_alone(users: Users) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield the users that have rows: number, features and targets, in copies of their own.

    A view would lead to the others' rows, and to how they are stored.
    """
    for i in np.flatnonzero(users.num_rows).tolist():
        rows = slice(users.offsets[i], users.offsets[i + 1])
        yield i, users.features[rows].copy(), users.targets[rows].copy()


def dot(rows: NDArray[Any], vector: Floats) -> Floats:
    """Return ``rows @ vector``, column by column where the vector is not zero."""
    total = np.zeros(len(rows))
    for column in np.flatnonzero(vector):
        total += rows[:, column] * vector[column]
    return total


def shortening(rows: NDArray[Any], length: float) -> Floats:
    """Return what to multiply rows by, to shorten those that are longer to a Euclidean length."""
    squares = np.zeros(len(rows))
    for column in range(rows.shape[1]):
        squares += rows[:, column] ** 2
    return np.asarray(length / np.maximum(np.sqrt(squares), length))


def scale_bins(sizes: Floats, bins: q.TargetScaleBin | q.DistanceBin) -> Floats:
    """Return the bin of every size, shape (users, 1): see :class:`TargetScaleBin`."""
    octaves = log2(sizes / bins.smallest)
    found = np.clip(np.floor(bins.per_octave * octaves), 0, bins.num_bins - 1)
    return np.where(sizes > 0, found, -1.0)[:, None]


def log_ratio(
    sizes: Floats,
    question: q.RootCurvature | q.ColumnMeanNorm | q.ColumnLogSizes,
) -> Floats:
    """Return log(size / ``prior``) / ``log_range``."""
    tiny = np.finfo(np.float64).tiny
    return np.asarray(log(np.maximum(sizes, tiny) / question.prior) / question.log_range)


def chosen(users: Users, question: Question, words: Words) -> Users:
    """Return the users with only the rows that the question uses, in the order that it needs.

    ``question.rows`` decides. ``words`` holds one random word per user, which sets the order of a
    user's rows if that is to be random.
    """
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


_STEP = 8  # row counts are padded to multiples of this
_CHUNK_ENTRIES = 1 << 22  # feature entries held in memory at a time


def ridge_coefficients(
    users: Users, columns: NDArray[Any], targets: NDArray[Any], ridge: float | Floats
) -> Floats:
    """Return each user's ``(X'X / m + ridge I)^-1 X'y / m``, shape (users, k), zero without rows.

    X are the ``columns``, shape (rows, k), y the ``targets``, and m is a user's number of rows.
    ``ridge`` is in units of a feature's mean square; of all users, or of each.

    Users with about as many rows (padded with rows of zeros) are solved together, each
    as a matrix of its own: what is added up for a user, and in which order, depends
    on its own number of rows and on k only. With more columns than rows, the system
    that is solved is the equivalent one of the rows, ``X' (XX' + m ridge I)^-1 y``.
    """
    num_columns = columns.shape[1]
    coefficients = np.zeros((len(users), num_columns))
    ridges = np.broadcast_to(ridge, len(users))
    for size, members in _by_padded_rows(users, num_columns):
        rows = np.maximum(users.num_rows[members], 1)[:, None, None]
        within = np.arange(size)
        held = within < users.num_rows[members, None]
        index = (users.offsets[members, None] + within)[held]
        # Made here, so that every user's matrix lies in memory as any other's does.
        x = np.zeros((len(members), size, num_columns))
        y = np.zeros((len(members), size, 1))
        x[held], y[held, 0] = columns[index], targets[index]
        x_transposed = np.ascontiguousarray(x.transpose(0, 2, 1))
        if num_columns <= size:
            gram = np.matmul(x_transposed, x) / rows
            solved = _solved(_raised(gram, ridges[members]), np.matmul(x_transposed, y) / rows)
        else:
            gram = np.matmul(x, x_transposed) / rows
            solved = np.matmul(x_transposed, _solved(_raised(gram, ridges[members]), y / rows))
        coefficients[members] = solved[:, :, 0]
    return coefficients


def _by_padded_rows(users: Users, num_columns: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Group users that have rows by their padded number of rows, a chunk at a time."""
    padded = -(-users.num_rows // _STEP) * _STEP
    for size in np.unique(padded[padded > 0]).tolist():
        members = np.flatnonzero(padded == size)
        step = max(1, _CHUNK_ENTRIES // (size * num_columns))
        for start in range(0, len(members), step):
            yield size, members[start : start + step]


def _solved(matrices: Floats, right: Floats) -> Floats:
    """Solve every system; one that has no solution gives NaN, and spoils no other."""
    try:
        return np.asarray(np.linalg.solve(matrices, right), np.float64)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full_like(right, np.nan)
        return np.concatenate(
            [_solved(matrices[i : i + 1], right[i : i + 1]) for i in range(len(matrices))]
        )


def _raised(gram: Floats, ridges: Floats) -> Floats:
    """Add each one's ridge to its diagonal, in place."""
    diagonal = np.arange(gram.shape[1])
    gram[:, diagonal, diagonal] += ridges[:, None]
    return gram


def with_places(users: Users, num_classes: int) -> Users:
    """Return the users with NaN in place of targets that are no label, and log how many."""
    targets = np.asarray(users.targets, np.float64)
    if num_classes == 2:
        targets = np.where(targets == -1, 0.0, targets)
    known = (targets >= 0) & (targets < num_classes) & (targets == np.floor(targets))
    if lost := int((~known & ~np.isnan(targets)).sum()):
        logging.getLogger(__name__).warning(
            "%d of %d rows have a label other than 0 to %d and are left out. Labels are the places "
            "of classes, 0, 1, ...: a Schema whose target is Categories makes them.",
            *(lost, len(known), num_classes - 1),
        )
    return replace(users, targets=np.where(known, targets, np.nan))


def class_labels(users: Users) -> NDArray[np.float64]:
    """Return 1 for class 1, -1 for class 0, NaN for none."""
    return np.where(np.isnan(users.targets), np.nan, np.where(users.targets > 0, 1.0, -1.0))
