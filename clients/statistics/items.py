"""Statistics of items: which ones a user holds most often."""

import logging

import numpy as np

from ldp_flower.guarantee.questions import FrequentItems
from ldp_flower.guarantee.users import Users

from ..arithmetic.rows import Floats
from .registry import Statistics


def frequent_items(users: Users, question: FrequentItems) -> Floats:
    """Compute :class:`FrequentItems`."""
    size, end = question.set_size, float(question.domain_size)
    items = users.features[:, 0]
    user = np.repeat(np.arange(len(users)), users.num_rows)
    valid = (items >= 0) & (items < end) & (items == np.floor(items))
    user, items = user[valid], items[valid]
    order = np.lexsort((items, user))
    user, items = user[order], items[order]
    differs = (np.diff(user, prepend=-1) != 0) | (np.diff(items, prepend=-1) != 0)
    starts = np.flatnonzero(differs)
    frequency = np.diff(starts, append=len(items))
    user, items = user[starts], items[starts]
    order = np.lexsort((items, -frequency, user))  # users stay where they are
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


ITEMS: Statistics = {FrequentItems: frequent_items}
