"""Sums to which each node has added noise once: their checks and their exact addition."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.messages import Slots
from ldp_flower.questions import Arrays
from ldp_flower.randomizers import Estimate, NodeSum


@dataclass(frozen=True)
class NodeSums:
    """The noisy sum over the users of some nodes."""

    count: int  # number of users
    nodes: int  # number of nodes
    sum: NDArray[np.int64]

    def __add__(self, other: "NodeSums") -> "NodeSums":
        return NodeSums(self.count + other.count, self.nodes + other.nodes, self.sum + other.sum)


def node_part(arrays: Arrays, mechanism: NodeSum, slots: Slots) -> NodeSums | None:
    """Return a node's noisy sum and number of users, or None if its report is not valid.

    It is not valid if it is malformed or has more users than were asked.
    """
    if set(arrays) != {"count", "noisy_sum"}:
        return None
    count, found = arrays["count"], arrays["noisy_sum"]
    if count.shape != (1,) or count.dtype != np.int64 or not 1 <= count[0] <= len(slots):
        return None
    if found.shape != (mechanism.dim,) or found.dtype != np.int64:
        return None
    # Sums of all nodes stay within 64 bits: a forged sum cannot wrap around.
    if (np.abs(found) > mechanism.farthest(len(slots))).any():
        return None
    return NodeSums(int(count[0]), 1, found)


def mean_of_sums(parts: list[NodeSums], mechanism: NodeSum) -> Estimate:
    """Return the estimated mean over all nodes' users; its error is that of the known noise."""
    whole = sum(parts, NodeSums(0, 0, np.zeros(mechanism.dim, np.int64)))
    return mechanism.of_sums(whole.sum, whole.count, whole.nodes)
