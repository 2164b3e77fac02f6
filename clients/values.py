"""A node with rows to answer from, and the values that a statistic has of them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.generated import GeneratedUsers
from ldp_flower.keys import Slots
from ldp_flower.messages import Query
from ldp_flower.users import Users

from .node import Node
from .statistics import Statistic

# Users are taken in runs of this many. Their number is public; their rows are not,
# and must not decide in which order reports are added up.
CHUNK = 1024


@dataclass(frozen=True)
class UsersNode(Node):
    """A node with rows of users to answer from.

    Attributes
    ----------
    users : Users or GeneratedUsers
        The users of the node.
    """

    users: Users | GeneratedUsers

    def take(self, slots: Slots) -> Users:
        """Return some users, each with the rows that the policy lets it use."""
        return self.users.take(slots, self.terms.policy.max_rows)


def values_of(
    take: Callable[[Slots], Users], slots: Slots, query: Query, statistic: Statistic
) -> NDArray[np.float64]:
    """Return the users' values; whatever goes wrong with data stays on this side.

    A value that cannot be computed becomes NaN, which the randomizer takes for the
    centre of its domain: the reply looks like any other, and the log tells the operator.
    ``take`` returns the users in some slots.
    """
    logger = logging.getLogger(__name__)
    try:
        with np.errstate(all="ignore"):
            users = take(slots)
            # Rows of a public block all stay: they must not tell which targets are finite.
            finite = users.finite() if statistic.public is None else users
            values = statistic.compute(finite, query.arrays, query.params)
    except Exception:
        if len(slots) > 1:  # one user's data must not cost the others their answer
            each = [values_of(take, slots[i : i + 1], query, statistic) for i in range(len(slots))]
            return np.concatenate(each)
        logger.exception("Statistic %s failed for a user, who reports a centre.", query.statistic)
        return np.full((1, query.randomizer.width), np.nan)
    if lost := len(users.targets) - len(finite.targets):
        logger.warning("Records that are not finite and are left out: %d.", lost)
    if bad := int((~np.isfinite(values).all(axis=1)).sum()):
        logger.warning("%d users have data that are not finite and report a centre.", bad)
    return values
