"""Shared noise: a node commits to a step, and sends its masked sum once it knows the members.

The node checks the set before it pays, and computes the masks before it reads private values. The
order of checks is that of docs/secure-sums.md.
"""

from dataclasses import dataclass, replace

import numpy as np

from ldp_flower.guarantee.messages import ErrorCode, MessageError, Query, Report, Slots
from ldp_flower.guarantee.peers import (
    Peers,
    PeersError,
    PinnedPeers,
    SimulatedPeers,
    operators_files,
)
from ldp_flower.guarantee.shared_sums import MIN_NODES, Commit, Committed, Masked, Members, masks
from ldp_flower.randomizers import NodeSum

from .effective_policy import EffectivePolicy
from .node import CheckedQuery
from .node_sums import noisy_sum
from .reply import Received, Refusal
from .users_node import UsersNode


def peers_of(received: Received, terms: EffectivePolicy) -> Peers:
    """Return a node's own key and the keys of other nodes that it accepts.

    Raise Refusal if the operator has set no keys, or if their files are not valid.
    """
    if terms.simulated:
        return SimulatedPeers(f"node-{received.node_id}")
    files = operators_files.get()
    if files is None:
        text = "To share noise, start the node by `ldp-flower supernode` with a key and peers."
        raise Refusal(Refusal.MISCONFIGURED, text)
    try:
        return PinnedPeers.read(files)
    except PeersError as error:
        text = "The operator's key file or peers file is not valid."
        raise Refusal(ErrorCode.PEERS_FILE, text, str(error)) from error


def commit(node: UsersNode, query: Query, peers: Peers) -> Committed:
    """Return the node's commit (its signed one-time key) to a query, and the keys it accepts.

    The keys are those of the node's peers, as fingerprints. Raise Refusal if the node could not
    answer the query, for example because no user can pay.
    """
    asked = node.asked(query)
    node.answered(asked)  # refuses if no user can pay
    made = node.ledger.commit(_digest(query), asked.cost.plan or "", peers)
    return Committed(made, frozenset(peers.fingerprints()))


@dataclass(frozen=True)
class Agreed:
    """A query whose set the node has checked, with the node's masks."""

    asked: CheckedQuery
    session: bytes
    masks: Masked | None  # None if the query is answered


def agreed(node: UsersNode, query: Query, peers: Peers, members: Members) -> Agreed:
    """Return the checked query with the node's masks.

    Raise Refusal if the node has not committed to the query, or if the set of members is not valid.
    """
    mechanism = query.randomizer
    assert isinstance(mechanism, NodeSum)
    digest = _digest(query)
    session = members.session(digest)
    own = node.ledger.one_time_key(digest, peers)
    if own is None:
        raise Refusal(ErrorCode.NO_COMMIT, "The node has no commit to this query.")
    asked = replace(node.asked(query), closes=digest)
    if own.secret is None:  # answered, maybe for another set
        if node.answered(asked) is None:
            raise Refusal(Refusal.GONE, "The node's users have changed since it answered.")
        return Agreed(asked, session, None)
    _check_members(members, own.commit, digest, peers)
    if len(members) < max(MIN_NODES, mechanism.honest + (node.terms.policy.max_dishonest or 0)):
        text = "The set has fewer nodes than the honest nodes plus those that may collude."
        raise Refusal(ErrorCode.SET_TOO_SMALL, text)
    try:
        own_masks = masks(own.secret, own.commit.name, members, session, mechanism.dim)
    except MessageError as error:
        raise Refusal(ErrorCode.SIGNATURE, str(error)) from error
    return Agreed(asked, session, own_masks)


def _check_members(members: Members, own: Commit, digest: bytes, peers: Peers) -> None:
    """Raise Refusal unless the set is valid.

    It must hold this node's commit. All members must have pinned keys and valid signatures, and no
    name or one-time key may occur twice.
    """
    names = {each.name for each in members.commits}
    if not len(names) == len({each.ephemeral for each in members.commits}) == len(members):
        raise Refusal(ErrorCode.TWICE, "A name or a one-time key is twice in the set.")
    if own not in members.commits:
        raise Refusal(ErrorCode.NOT_A_MEMBER, "The set does not hold this node's commit.")
    for each in members.commits:
        if not peers.accepts(each.name, each.key):
            text = "A member of the set is not a peer of this node."
            raise Refusal(ErrorCode.UNKNOWN_PEER, text, f"{each.name}: {each.key.hex()}")
        if not each.is_valid(digest):
            text = "A member of the set has not signed its one-time key for this query."
            raise Refusal(ErrorCode.SIGNATURE, text, each.name)


def of_shared(node: UsersNode, query: Query, slots: Slots, terms: Agreed) -> Report:
    """Return a report of the masked sum over the users in ``slots``.

    The sum has this node's share of the noise, and the masks that it has agreed with other nodes.
    """
    assert terms.masks is not None  # an answered query is not computed again
    total = noisy_sum(node, query, slots).view(np.uint64) + terms.masks
    return Report.of_shared(len(slots), total, terms.session)


def checked_session(report: Report, terms: Agreed) -> Report:
    """Return the report unchanged; raise Refusal if it was made for another set of nodes."""
    if report.arrays["session"].tobytes() != terms.session:
        text = "The node has answered this query for another set."
        raise Refusal(ErrorCode.ANOTHER_SET, text)
    return report


def _digest(query: Query) -> bytes:
    """Return the bytes by which the members' signatures name a query, alike on all nodes."""
    return bytes.fromhex(query.digest("shared sum"))
