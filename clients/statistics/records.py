"""Records, items and labels themselves, for protocols that randomise data and not statistics."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee import questions as q
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats

from ..arithmetic import dot
from .moments import bounded_rows


def _first_rows(users: Users, question: q.Record | q.RecordCopies) -> tuple[Floats, Floats]:
    """Return each user's first row and target, bounded; NaN for a user without rows."""
    x = np.full((len(users), users.num_features), np.nan)
    y = np.full((len(users), 1), np.nan)
    held = users.num_rows > 0
    first = users.take(np.flatnonzero(held), 1)
    x[held], y[held, 0] = bounded_rows(first, question)
    return x, y


def record(users: Users, question: q.Record) -> Floats:
    """Compute :class:`Record`."""
    return np.concatenate(_first_rows(users, question), axis=1)


def record_copies(users: Users, question: q.RecordCopies) -> Floats:
    """Compute :class:`RecordCopies`."""
    x, y = _first_rows(users, question)
    return np.concatenate([y * x, *[x] * question.copies], axis=1)


def drawn_items(users: Users, question: q.DrawnItems, by_frequency: bool = False) -> Floats:
    """Compute :class:`DrawnItems`: rows come in the order that was drawn."""
    size, end = question.set_size, float(question.domain_size)
    items = users.features[:, 0]
    user = np.repeat(np.arange(len(users)), users.num_rows)
    valid = (items >= 0) & (items < end) & (items == np.floor(items))
    user, items, row = user[valid], items[valid], np.flatnonzero(valid)
    order = np.lexsort((row, items, user))
    user, items, row = user[order], items[order], row[order]
    differs = (np.diff(user, prepend=-1) != 0) | (np.diff(items, prepend=-1) != 0)
    starts = np.flatnonzero(differs)
    frequency = np.diff(starts, append=len(items))
    user, items, row = user[starts], items[starts], row[starts]
    # Users stay where they are.
    order = np.lexsort((row, -frequency, user) if by_frequency else (row, user))
    items = items[order]
    rank = np.arange(len(user)) - np.searchsorted(user, user)
    kept = rank < size
    user, items, rank = user[kept], items[kept], rank[kept]
    held = np.bincount(user, minlength=len(users))
    if strangers := int(((held == 0) & (users.num_rows > 0)).sum()):
        logging.getLogger(__name__).warning(
            "%d users hold no item of the domain, the integers from 0 to %d; strings need a "
            "domain_size of 2**num_bits, by default 2**40.",
            strangers,
            end - 1,
        )
    found = end + (np.arange(size) - held[:, None])
    found[user, rank] = items
    return np.asarray(found, np.float64)


def frequent_items(users: Users, question: q.FrequentItems) -> Floats:
    """Compute :class:`FrequentItems`."""
    return drawn_items(users, question, by_frequency=True)


def labels(users: Users, question: q.Labels) -> Floats:
    """Compute :class:`Labels`."""
    bound = question.label_bound
    found = np.zeros((len(users), question.labels_per_user))
    rows, places = _places(users, found.shape[1])
    targets = users.targets[rows]
    if question.theta is not None:
        targets = targets - dot(users.features[rows], question.theta)
    found[places] = np.where(np.isfinite(targets), np.clip(targets, -bound, bound), 0.0)
    return found


def labelled_features(users: Users, question: q.Labels) -> NDArray[np.float32]:
    """Return the rows that the labels belong to, shape (users, labels_per_user, num_features).

    They are zero where there are fewer. No target has any part in this.
    """
    shape = (len(users), question.labels_per_user, users.num_features)
    block = np.zeros(shape, np.float32)
    rows, places = _places(users, shape[1])
    block[places] = users.features[rows]
    return block


def _places(users: Users, most: int) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...]]:
    """Return the first rows of every user, and their places: (user, number of the row)."""
    kept = np.arange(most) < users.num_rows[:, None]
    places = np.nonzero(kept)
    return users.offsets[places[0]] + places[1], places
