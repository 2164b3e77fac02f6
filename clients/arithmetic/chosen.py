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
