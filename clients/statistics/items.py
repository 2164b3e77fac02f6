"""Statistics of items: which ones a user holds, drawn at random or the most frequent."""

import logging

import numpy as np

from ldp_flower.guarantee.questions import DrawnItems, FrequentItems
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats

from .registry import Statistics


def drawn_items(users: Users, question: DrawnItems, by_frequency: bool = False) -> Floats:
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


def frequent_items(users: Users, question: FrequentItems) -> Floats:
    """Compute :class:`FrequentItems`."""
    return drawn_items(users, question, by_frequency=True)


ITEMS: Statistics = {DrawnItems: drawn_items, FrequentItems: frequent_items}
