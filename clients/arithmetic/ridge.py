"""Ridge regression within each user's rows, for many users at once."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats

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
