"""Sums with shared noise, on the server: the members of a step, and the sum of their answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower.guarantee.messages import Slots
from ldp_flower.guarantee.peers import fingerprint
from ldp_flower.guarantee.shared_sums import MAX_NODES, Commit, Committed, Members
from ldp_flower.questions import Arrays
from ldp_flower.randomizers import NodeSum

from .node_sums import NodeSums


@dataclass(frozen=True)
class Chosen:
    """The nodes that are members of a step's sum, with their commits, by node.

    A commit is a node's signed one-time key for the question.
    """

    commits: Mapping[int, Commit]

    @property
    def members(self) -> Members:
        """The members in the form in which they are sent to nodes."""
        return Members(tuple(self.commits.values()))

    def to_plain(self) -> list[Any]:
        """Return the members in the form that the store keeps."""
        return [
            [node, c.name, c.key.hex(), c.ephemeral.hex(), c.signature.hex()]
            for node, c in self.commits.items()
        ]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> "Chosen":
        """Return the chosen nodes and their commits from the form that :meth:`to_plain` returns."""
        return cls(
            {int(node): Commit(name, *map(bytes.fromhex, rest)) for node, name, *rest in plain}
        )


def choose(committed: Mapping[int, Committed], digest: bytes) -> Chosen:
    """Return the nodes with valid commits that all accept each other's keys.

    As long as two nodes do not accept each other's keys, or have the same name, the node that the
    fewest others accept is left out. So a node whose key nobody has pinned cannot take another
    node's place by using its name.
    """
    valid = {node: each for node, each in committed.items() if each.commit.is_valid(digest)}
    while True:
        strangers = {
            node: sum(not _know(each, other) for at, other in valid.items() if at != node)
            for node, each in valid.items()
        }
        worst = max(strangers, key=lambda node: strangers[node], default=None)
        if worst is None or not (strangers[worst] or len(valid) > MAX_NODES):
            return Chosen({node: each.commit for node, each in valid.items()})
        del valid[worst]


def _know(one: Committed, other: Committed) -> bool:
    """Return True if both nodes accept each other's keys; nodes without pins accept any key."""
    if one.commit.name == other.commit.name:
        return False
    pairs = ((one, other), (other, one))
    return all(not each.pins or fingerprint(known.commit.key) in each.pins for each, known in pairs)


@dataclass(frozen=True)
class MaskedSum:
    """One node's masked sum, which reveals nothing without the sums of all other members."""

    count: int  # number of users
    session: bytes
    sum: np.ndarray[Any, np.dtype[np.uint64]]


def masked_part(arrays: Arrays, mechanism: NodeSum, slots: Slots) -> MaskedSum | None:
    """Return a node's masked sum, or None if its report is malformed or has too many users."""
    if set(arrays) != {"count", "masked", "session"}:
        return None
    count, masked, session = arrays["count"], arrays["masked"], arrays["session"]
    if count.shape != (1,) or count.dtype != np.int64 or not 1 <= count[0] <= len(slots):
        return None
    if masked.shape != (mechanism.dim,) or masked.dtype != np.int64 or session.dtype != np.uint8:
        return None
    return MaskedSum(int(count[0]), session.tobytes(), masked.view(np.uint64))


def unmasked(parts: list[MaskedSum], mechanism: NodeSum, num_members: int) -> NodeSums:
    """Return the sum over all members, or a sum of no users if the sum is not valid.

    It is not valid if a member's answer is missing, if members answered for different sets, or if
    the sum is larger than their users and noise can make it, since a member lied or failed.
    """
    nothing = NodeSums(0, 0, np.zeros(mechanism.dim, np.int64))
    if len(parts) != num_members or len({part.session for part in parts}) != 1:
        return nothing
    total = np.sum([part.sum for part in parts], axis=0)  # modulo 2**64, so that the masks cancel
    users = sum(part.count for part in parts)
    found, farthest = total.view(np.int64), mechanism.farthest(users, len(parts))
    if ((found > farthest) | (found < -farthest)).any():
        return nothing
    return NodeSums(users, len(parts), found)
