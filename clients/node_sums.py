"""Noise at the node: the exact sum over a node's users, with noise once.

Each user's value is brought into the mechanism's domain, as integers, before it is added up. So a
user changes the sum by at most the mechanism's bound, and changes nothing else of the answer.
"""

from functools import partial

import numpy as np

from ldp_flower.guarantee.messages import Query, Report, Slots
from ldp_flower.randomizers import NodeSum
from ldp_flower.randomizers.discrete_gaussian import Integers

from .users_node import UsersNode
from .values import CHUNK, ENTRIES, values_of


def of_node(node: UsersNode, query: Query, slots: Slots) -> Report:
    """Return a report with the noisy sum over the users in ``slots``, and their number."""
    return Report.of_node(len(slots), noisy_sum(node, query, slots))


def noisy_sum(node: UsersNode, query: Query, slots: Slots) -> Integers:
    """Return the sum of the values of the users in ``slots``, as integers, with noise."""
    mechanism = query.randomizer
    assert isinstance(mechanism, NodeSum)
    total = np.zeros(mechanism.dim, np.int64)
    at_once = max(1, min(CHUNK, ENTRIES // mechanism.width))
    for start in range(0, len(slots), at_once):
        some = slots[start : start + at_once]
        values = partial(values_of, node.take, some, query, node.own)
        total += mechanism.total(node.shown(values, (len(some), mechanism.width)))
    randomness = node.private_randomness(query.step, slots[:1])
    return mechanism.report(total, randomness)
