"""Selection of users' rows, sums over the rows, bins of sizes, and ridge regression per user.

Each user's result depends, to the last bit, on this user's rows only.

In BLAS and einsum, the order in which one row is summed can depend on the number of rows, and so on
the secrets of other users. So no sum here is a matrix product, and ridge regression multiplies the
matrices of one user at a time. Sums within a row are in :mod:`ldp_flower.randomizers.elementwise`.
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


def sum_over_rows(users: Users, rows: NDArray[Any], weights: Floats | None = None) -> Floats:
    """Return the sum of each user's ``rows``, shape (users, columns), each row times its weight.

    Without ``weights``, all weights are 1. The sum is a product with a sparse matrix, which adds a
    user's rows one after the other. It keeps users apart and copies no rows.
    """
    num_rows = len(rows)
    factors = np.ones(num_rows) if weights is None else weights
    by_user = csr_array((factors, np.arange(num_rows), users.offsets), (len(users), num_rows))
    return np.ascontiguousarray(by_user @ rows, np.float64)


def mean_over_rows(users: Users, rows: NDArray[Any], weights: Floats | None = None) -> Floats:
    """Return the mean of each user's weighted rows, see :func:`sum_over_rows`; zero without rows.

    The sum is divided by the number of rows, not by the sum of the weights.
    """
    return sum_over_rows(users, rows, weights) / np.maximum(users.num_rows, 1)[:, None]


def rms_over_rows(users: Users, values: NDArray[Any]) -> Floats:
    """Return the root mean square of each user's numbers, one per row, shape (users,).

    It is 0 for a user without rows.
    """
    sums = sum_over_rows(users, values[:, None], values)[:, 0]
    return np.asarray(np.sqrt(sums) / np.sqrt(np.maximum(users.num_rows, 1)))


def columns_at(rows: Floats, coordinates: NDArray[np.int64] | None) -> Floats:
    """Return some columns of an array, by their indices; all columns if these are None."""
    return rows if coordinates is None else rows[:, coordinates]


def each_alone(users: Users) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield index, features and targets of each user, to compute with one user at a time.

    The arrays are copies: a view would give access to the other users' rows and to their memory
    layout.
    """
    for i in range(len(users)):
        rows = slice(users.offsets[i], users.offsets[i + 1])
        yield i, users.features[rows].copy(), users.targets[rows].copy()


def dot(rows: NDArray[Any], vector: Floats) -> Floats:
    """Return ``rows @ vector``, summed over the columns in which the vector is not zero."""
    total = np.zeros(len(rows))
    for column in np.flatnonzero(vector):
        total += rows[:, column] * vector[column]
    return total


def shortening(rows: NDArray[Any], length: float) -> Floats:
    """Return the factors, at most 1, that shorten rows to a Euclidean length, shape (rows,).

    A row that is not longer than ``length`` has the factor 1.
    """
    squares = np.zeros(len(rows))
    for column in range(rows.shape[1]):
        squares += rows[:, column] ** 2
    return np.asarray(length / np.maximum(np.sqrt(squares), length))


def scale_bins(sizes: Floats, bins: q.TargetScaleBin | q.DistanceBin) -> Floats:
    """Return the number of the bin that each size falls into, shape (users, 1).

    It is -1 for a size of 0. See :class:`TargetScaleBin`.
    """
    octaves = log2(sizes / bins.smallest)
    found = np.clip(np.floor(bins.per_octave * octaves), 0, bins.num_bins - 1)
    return np.where(sizes > 0, found, -1.0)[:, None]


def scaled_log_size(
    sizes: Floats,
    question: q.RootCurvature | q.ColumnMeanNorm | q.ColumnLogSizes,
) -> Floats:
    """Return ``log(size / prior) / log_range`` for each size, near [-1, 1] for likely sizes."""
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
    """Return a mask of the rows with entries in all of these columns.

    The index of the target is ``num_features``.
    """
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
    """Return the users, each with its rows in a random order that its own word determines."""
    number = np.arange(len(users.targets)) - np.repeat(users.offsets[:-1], users.num_rows)
    return users.ordered(derive(np.repeat(words, users.num_rows), number.astype(np.uint64)))


_STEP = 8  # numbers of rows are padded to multiples of this
_CHUNK_ENTRIES = 1 << 22  # number of feature entries in memory at a time


def ridge_coefficients(
    users: Users, columns: NDArray[Any], targets: NDArray[Any], ridge: float | Floats
) -> Floats:
    """Return each user's ``(X'X / m + ridge I)^-1 X'y / m``, shape (users, k), zero without rows.

    X are the ``columns``, shape (rows, k), y the ``targets``, and m is a user's number of rows.
    ``ridge`` is in units of a feature's mean square: one number for all users, or one per user.

    Users with similar numbers of rows (padded with rows of zeros) are solved in one call, each with
    a separate matrix. The sums for a user and their order depend only on k and on the user's number
    of rows. With more columns than rows, the equivalent system in the rows is solved:
    ``X' (XX' + m ridge I)^-1 y``.
    """
    num_columns = columns.shape[1]
    coefficients = np.zeros((len(users), num_columns))
    ridges = np.broadcast_to(ridge, len(users))
    for size, members in _by_padded_rows(users, num_columns):
        rows = np.maximum(users.num_rows[members], 1)[:, None, None]
        within = np.arange(size)
        held = within < users.num_rows[members, None]
        index = (users.offsets[members, None] + within)[held]
        # New arrays, so that all users' matrices have the same memory layout.
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
    """Yield groups of users with the same padded number of rows, in chunks of bounded size.

    Users without rows are left out.
    """
    padded = -(-users.num_rows // _STEP) * _STEP
    for size in np.unique(padded[padded > 0]).tolist():
        members = np.flatnonzero(padded == size)
        step = max(1, _CHUNK_ENTRIES // (size * num_columns))
        for start in range(0, len(members), step):
            yield size, members[start : start + step]


def _solved(matrices: Floats, right: Floats) -> Floats:
    """Return the solution x of each system ``matrices[i] x = right[i]``.

    A singular matrix gives NaN in its own solution only.
    """
    try:
        return np.asarray(np.linalg.solve(matrices, right), np.float64)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full_like(right, np.nan)
        return np.concatenate(
            [_solved(matrices[i : i + 1], right[i : i + 1]) for i in range(len(matrices))]
        )


def _raised(gram: Floats, ridges: Floats) -> Floats:
    """Add to each matrix's diagonal its number in ``ridges``, in place; return the matrices."""
    diagonal = np.arange(gram.shape[1])
    gram[:, diagonal, diagonal] += ridges[:, None]
    return gram


def with_places(users: Users, num_classes: int) -> Users:
    """Return the users with class numbers as targets, for a question about classes.

    The numbers are 0 to ``num_classes - 1``. Of two classes, -1 becomes 0. Other targets become
    NaN, and their number is logged.
    """
    targets = np.asarray(users.targets, np.float64)
    if num_classes == 2:
        targets = np.where(targets == -1, 0.0, targets)
    known = (targets >= 0) & (targets < num_classes) & (targets == np.floor(targets))
    if lost := int((~known & ~np.isnan(targets)).sum()):
        logging.getLogger(__name__).warning(
            "%d of %d rows have a label other than 0 to %d and are left out. Labels are numbers of "
            "classes, 0, 1, ...: a Schema whose target is Categories makes them.",
            *(lost, len(known), num_classes - 1),
        )
    return replace(users, targets=np.where(known, targets, np.nan))


def class_labels(users: Users) -> NDArray[np.float64]:
    """Return 1 for class 1, -1 for class 0, and NaN for a missing label."""
    return np.where(np.isnan(users.targets), np.nan, np.where(users.targets > 0, 1.0, -1.0))
