"""Attacks on a node with shared noise: what its masks hide, and the sets of nodes it refuses.

The auditor plays the server and all other nodes, and draws their one-time keys. So it knows the
masks of the node under audit, and sees the node's own sum with its share of the noise.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flwr.app import Message, RecordDict

from ..guarantee.messages import HASH_END, QUERY, Query, Report
from ..guarantee.peers import KeyFiles, Peer, Peers, SimulatedPeers, encode, operators_files
from ..guarantee.peers_file import create_key, write_peers
from ..guarantee.shared_sums import COMMIT, MIN_NODES, SET, Commit, Committed, Members, masks
from ..randomizers import NodeSum
from ..simulation.grid import InProcessGrid
from .deployed_node import MAX_DISHONEST, MEMORY, DeployedNode
from .extreme_users import crowd, together
from .probe import Client, MakeApp, replies_to

_NAME = "audited"  # the deployed node's name
_USERS = 5  # number of its users


@dataclass(frozen=True)
class OtherNodes:
    """The nodes that the auditor plays: their commits to one query, and their one-time keys."""

    digest: bytes
    commits: tuple[Commit, ...]
    secrets: tuple[X25519PrivateKey, ...]

    @classmethod
    def committed(cls, query: Query, number: int) -> Self:
        """Return ``number`` nodes that have committed to a query.

        Calls with the same arguments return nodes with the same keys.
        """
        digest, peers = _digest(query), _others(number)
        secrets = tuple(_one_time(digest, each) for each in peers)
        pairs = zip(peers, secrets, strict=True)
        return cls(digest, tuple(Commit.made(own, digest, key) for own, key in pairs), secrets)

    def unmasked(self, report: Report, own: Commit) -> Report:
        """Return a node's report without its masks, so that its own noise can be tested.

        Raise RuntimeError if the report is not about the set of these nodes and the node.
        """
        members = Members((own, *self.commits))
        session = members.session(self.digest)
        masked, told = (report.arrays.get(name, np.zeros(0)) for name in ("masked", "session"))
        if told.tobytes() != session or masked.dtype != np.int64:
            raise RuntimeError("The client sends no masked sum for the set that it was given.")
        total = masked.view(np.uint64)
        for commit, secret in zip(self.commits, self.secrets, strict=True):
            both = Members((own, commit))
            total = total + masks(secret, commit.name, both, session, len(total))
        return Report.of_node(int(report.arrays["count"][0]), total.view(np.int64))


def _digest(query: Query) -> bytes:
    return bytes.fromhex(query.digest("shared sum"))


def _one_time(digest: bytes, peers: Peers) -> X25519PrivateKey:
    drawn = sha256(encode("audit one-time", peers.name, digest)).digest()
    return X25519PrivateKey.from_private_bytes(drawn)


def _others(number: int) -> list[SimulatedPeers]:
    return [SimulatedPeers(f"other-{place}") for place in range(number)]


def least_members(query: Query) -> int:
    """Return the size of the smallest set of nodes with which the audited node may share noise.

    In a smaller set, the node's own noise would not suffice.
    """
    assert isinstance(query.randomizer, NodeSum)
    return max(MIN_NODES, query.randomizer.honest + MAX_DISHONEST)


def _with_set(query: Query, commits: Sequence[Commit]) -> RecordDict:
    content = query.to_record_dict()
    content[SET] = Members(tuple(commits)).to_record()
    return content


def _commit_in(reply: Message) -> Commit:
    return Committed.from_record(reply.content[COMMIT]).commit


class MaskedClient(Client):
    """Client under audit whose sums are masked, and are unmasked here."""

    def ask(self, grid: InProcessGrid, query: Query) -> list[Report]:
        """Return the unmasked answers of all nodes, each of which answers in a separate set."""
        others = OtherNodes.committed(query, least_members(query) - 1)
        asked = [query.to_record_dict()] * len(grid.contexts)
        commits = [_commit_in(reply) for reply in replies_to(grid, f"query.{COMMIT}", asked)]
        sums = [_with_set(query, (own, *others.commits)) for own in commits]
        replies = replies_to(grid, f"query.{QUERY}", sums)
        return [
            others.unmasked(Report.from_record_dict(reply.content), own)
            for own, reply in zip(commits, replies, strict=True)
        ]


def refusal_checks(query: Query, make_app: MakeApp, num_features: int) -> dict[str, bool]:
    """Send invalid sets of nodes to deployed nodes, and return the checks by name.

    A check is True if its node refused the invalid sets, then answered for a valid set, and refused
    another one. Raise RuntimeError if a node does not answer for a valid set either, since its
    refusals then show nothing.
    """
    query = replace(query, low=0, high=HASH_END)
    later = replace(query, step=query.step + 1)
    number = least_members(query)
    digest, strange = _digest(query), SimulatedPeers("stranger")
    stranger = Commit.made(strange, digest, _one_time(digest, strange))
    honest, of_later = (OtherNodes.committed(each, number).commits for each in (query, later))
    unsigned = replace(honest[0], signature=bytes(len(honest[0].signature)))

    def asked(name: str, node: _Member) -> bool:
        """Return True if the node refuses all sets that the check ``name`` offers to it."""
        other = node.commit(later)
        own = node.commit(query)  # closes the commit to the later step, which is of the same plan
        fewer, whole = (own, *honest[:-1]), (own, *honest)
        sets: dict[str, list[tuple[Query, Sequence[Commit]]]] = {
            "small set": [(query, fewer[:-1])],
            "unknown key": [(query, (stranger, *fewer))],
            "signature": [(query, (own, unsigned, *honest[1:]))],
            "commit reused": [
                (query, (own, of_later[0], *honest[1:])),
                (query, (other, *honest)),
                (later, (other, *of_later)),
            ],
            "one sum a commit": [],
        }
        if not all(node.sum(*each).has_error() for each in sets[name]):
            return False
        first, second, again = (node.sum(query, each) for each in (whole, fewer, whole))
        if first.has_error():
            raise RuntimeError(f"The client did not answer: {first.error.reason}.")
        return second.has_error() and not again.has_error() and _bytes(again) == _bytes(first)

    found = {}
    for name in ("small set", "unknown key", "signature", "commit reused", "one sum a commit"):
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            found[name] = asked(name, _Member(Path(folder), query, make_app, num_features))
    return found


def _bytes(reply: Message) -> bytes:
    return Report.from_record_dict(reply.content).to_bytes()


class _Member:
    """Deployed node whose operator has pinned the keys of the nodes that the auditor plays."""

    def __init__(self, folder: Path, query: Query, make_app: MakeApp, num_features: int) -> None:
        self._files = KeyFiles(str(folder / "node.key"), str(folder / "peers.toml"))
        own = create_key(self._files.key).public_key().public_bytes_raw()
        pins = [Peer(each.name, each.key) for each in _others(least_members(query))]
        write_peers(self._files.peers, [Peer(_NAME, own), *pins])
        users, ledger = together(crowd(_USERS, num_features)), folder / "ledger.db"
        self._node = DeployedNode.started(make_app, users, query.randomizer, ledger)

    def commit(self, query: Query) -> Commit:
        """Return the node's signed commit to a query; raise RuntimeError if it refuses."""
        reply = self._send(COMMIT, query.to_record_dict())
        if reply.has_error():
            raise RuntimeError(f"The client did not commit: {reply.error.reason}.")
        return _commit_in(reply)

    def sum(self, query: Query, commits: Sequence[Commit]) -> Message:
        """Return the node's reply, a masked sum or an error, for the set of these ``commits``."""
        return self._send(QUERY, _with_set(query, commits))

    def _send(self, kind: str, content: RecordDict) -> Message:
        token = operators_files.set(self._files)
        try:
            return self._node.send(kind, content)[0]
        finally:
            operators_files.reset(token)
