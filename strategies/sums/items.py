"""Counts of items from noisy sums over nodes."""

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ldp_flower.questions import ItemShares
from ldp_flower.randomizers import Estimate
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Floats

from ..runtime import Ask
from .budget import Budget

#: Largest domain: a node takes 3 ms for each user of 65,536 items.
MOST_ITEMS = 1 << 16
_HELD, _FOUND = 0.05, 0.95  # an item of 5 % of the users is to be found with probability .95


def ask_items(budget: Budget, domain_size: int) -> Generator[Ask, Any, tuple[Floats, float, int]]:
    """Ask for a noisy count of each item; return the counts, their error, and the users' number.

    A user with several items counts in parts for each of them.
    """
    mechanism = budget.cells(domain_size, 1.0)
    found: Estimate = yield budget.ask(ItemShares(domain_size), mechanism)
    return found.count * found.mean, found.count * float(found.std_error[0]), found.count


def chances_to_find(budget: Budget, shares: Floats, level: float) -> Floats:
    """Return the probability of finding each item, by which a plan states the expected misses.

    ``shares`` are the shares of the users who hold the items. An item of no user is found with a
    probability of ``level`` over all items.
    """
    users, error = budget.users, budget.users * budget.error(budget.cells(len(shares), 1.0))
    cut = -ndtri(level / len(shares)) * error
    spread = np.hypot(error, np.sqrt(users * shares * (1 - shares)))
    return np.asarray(ndtr((users * shares - cut) / spread))


def too_few(budget: Budget, domain_size: int, level: float) -> TooFew | None:
    """Return why users are too few to find an item of 5 % of them; None if they are enough.

    ``level`` is the probability that an item of no user is found.
    """
    errors = float(ndtri(_FOUND) - ndtri(level / domain_size))
    error = budget.users * budget.error(budget.cells(domain_size, 1.0))
    return budget.too_few(
        f"find an item that {_HELD:.0%} of them hold", math.ceil(errors * error / _HELD)
    )
