"""Which of a user's rows a question is answered from: by its own data and its own coin alone."""

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Question, Rows
from ldp_flower.guarantee.users import Users
from ldp_flower.randomness import Words, derive


def chosen(users: Users, question: Question, words: Words) -> Users:
    """Return the users with the rows that the question is about.

    Parameters
    ----------
    users : Users
        With all their rows.
    question : Question
        Its ``rows`` say which.
    words : ndarray of uint64, shape (users,)
        By which each user draws rows.
    """
    match question.rows:
        case Rows.FINITE:
            return users.finite()
        case Rows.SHUFFLED:
            return users.ordered(derive(np.repeat(words, users.num_rows), _number_of_row(users)))
        case Rows.PRESENT | Rows.DRAWN:
            columns: NDArray[np.int64] = getattr(question, "coordinates")  # noqa: B009
            there = users.only(_present(users, columns))
            return there if question.rows is Rows.PRESENT else _drawn(there, words)
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


def _drawn(users: Users, words: Words) -> Users:
    """Return the users with one row each, if they have any."""
    place = words % np.maximum(users.num_rows, 1).astype(np.uint64)
    return users.only(_number_of_row(users) == np.repeat(place, users.num_rows))


def _number_of_row(users: Users) -> Words:
    """Return each row's place among its user's, from 0."""
    rows = np.arange(len(users.targets)) - np.repeat(users.offsets[:-1], users.num_rows)
    return rows.astype(np.uint64)
