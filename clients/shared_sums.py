"""Shared noise: a node commits to a step, and sends its masked sum once it knows the members.

The node checks the set before it pays, and computes the masks before it reads private values. The
order of checks is that of docs/secure-sums.md.
"""

from dataclasses import replace

import numpy as np

from ldp_flower.guarantee.messages import ErrorCode, MessageError, Query, Report, Slots
from ldp_flower.guarantee.peers import (
    Peers,
    PeersError,
    PinnedPeers,
    SimulatedPeers,
    operators_files,
)
from ldp_flower.guarantee.shared_sums import MIN_NODES, Commit, Committed, Members, masks
from ldp_flower.randomizers import NodeSum

from .effective_policy import EffectivePolicy
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


def answer_with_masks(node: UsersNode, query: Query, members: Members, peers: Peers) -> Report:
    """Answer a query by the node's masked sum, with its share of the noise.

    The masks are those that it has agreed with the other ``members`` of the set. Raise Refusal if
    the node has not committed to the query, if the set is not valid, or if the node has answered
    the query for another set.
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
        if (report := node.answered(asked)) is None:
            raise Refusal(Refusal.GONE, "The node's users have changed since it answered.")
        return checked_session(report, session)
    _check_members(members, own.commit, digest, peers)
    if len(members) < max(MIN_NODES, mechanism.honest + (node.terms.policy.max_dishonest or 0)):
        text = "The set has fewer nodes than the honest nodes plus those that may collude."
        raise Refusal(ErrorCode.SET_TOO_SMALL, text)
    try:
        own_masks = masks(own.secret, own.commit.name, members, session, mechanism.dim)
    except MessageError as error:
        raise Refusal(ErrorCode.SIGNATURE, str(error)) from error

    def masked(of: UsersNode, slots: Slots) -> Report:
        total = noisy_sum(of, query, slots).view(np.uint64) + own_masks
        return Report.of_shared(len(slots), total, session)

    return checked_session(node.answer_once(asked, masked), session)


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


def checked_session(report: Report, session: bytes) -> Report:
    """Return the report unchanged; raise Refusal if it was made for another set of nodes."""
    if report.arrays["session"].tobytes() != session:
        text = "The node has answered this query for another set."
        raise Refusal(ErrorCode.ANOTHER_SET, text)
    return report


def _digest(query: Query) -> bytes:
    """Return the bytes by which the members' signatures name a query, alike on all nodes."""
    return bytes.fromhex(query.digest("shared sum"))
