"""Sums that no one sees one by one: nodes' commits to a step, the members, and their masks.

A step takes two messages. A node first commits: it draws a one-time X25519 key and signs it
together with the query's digest. The server then sends the commits of all members of the step. Each
node adds masks from one-time keys to its noisy sum, and the masks cancel in the sum over all
members. A one-time key is deleted with the answer, so a commit has at most one answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.app import ConfigRecord
from numpy.typing import NDArray

from ..questions import MessageError
from .peers import KEY_BYTES, SIGNATURE_BYTES, Peers, encode, has_signed, is_name

SET = "set"  # record with the members of a step
COMMIT = "commit"  # kind of the first message, and record of its reply
#: Smallest set: with two nodes, either learns the other's sum from the result.
MIN_NODES: Final = 3
MAX_NODES: Final = 256
SESSION_BYTES: Final = 32
# Fields of the record of a set, each with the attribute of a commit that it lists.
_FIELDS: Final = {
    "names": "name",
    "keys": "key",
    "ephemerals": "ephemeral",
    "signatures": "signature",
}

Masked = NDArray[np.uint64]


@dataclass(frozen=True)
class Commit:
    """A node's signed one-time key for one query, by which it declares that it will answer.

    Attributes
    ----------
    name, key : str and bytes
        Name and public Ed25519 key of the node.
    ephemeral : bytes
        Public X25519 key that the node has drawn for this query alone.
    signature : bytes
        Signature of the query's digest, the name and both keys, by the node's Ed25519 key.
    """

    name: str
    key: bytes
    ephemeral: bytes
    signature: bytes

    def __post_init__(self) -> None:
        sizes = {"key": KEY_BYTES, "ephemeral": KEY_BYTES, "signature": SIGNATURE_BYTES}
        if not is_name(self.name):
            raise MessageError(f"Expected a node's name, got {self.name!r}.")
        for field, size in sizes.items():
            content = getattr(self, field)
            if not isinstance(content, bytes) or len(content) != size:
                raise MessageError(f"Expected {field} of {size} bytes.")

    @classmethod
    def made(cls, peers: Peers, digest: bytes, secret: X25519PrivateKey) -> Self:
        """Return a node's signed commit to the query of this digest.

        ``secret`` is its one-time key, whose public part is in the commit.
        """
        ephemeral = secret.public_key().public_bytes_raw()
        text = _signed(digest, peers.name, peers.key, ephemeral)
        return cls(peers.name, peers.key, ephemeral, peers.private.sign(text))

    def is_valid(self, digest: bytes) -> bool:
        """Return True if the owner of the key has signed the one-time key for this query."""
        text = _signed(digest, self.name, self.key, self.ephemeral)
        return has_signed(self.key, self.signature, text)


def _signed(digest: bytes, name: str, key: bytes, ephemeral: bytes) -> bytes:
    return encode("commit", digest, name, key, ephemeral)


@dataclass(frozen=True)
class Members:
    """The commits of all nodes whose masked sums are added in one step, sorted by name.

    The server chooses the members and sends them to each of them.
    """

    commits: tuple[Commit, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "commits", tuple(sorted(self.commits, key=lambda c: c.name)))
        if len(self.commits) > MAX_NODES:
            raise MessageError(f"Expected at most {MAX_NODES} members, got {len(self.commits)}.")

    def __len__(self) -> int:
        return len(self.commits)

    def session(self, digest: bytes) -> bytes:
        """Return a hash of the query, its members and their one-time keys, which names this sum."""
        parts = [part for c in self.commits for part in (c.name, c.key, c.ephemeral)]
        return sha256(encode("session", digest, len(self), *parts)).digest()

    def to_record(self) -> ConfigRecord:
        """Return the members as a record of a Flower message."""
        listed: dict[str, Any] = {
            field: [getattr(commit, name) for commit in self.commits]
            for field, name in _FIELDS.items()
        }
        return ConfigRecord(listed)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """Return the members in an untrusted record; raise MessageError if it is invalid."""
        if not isinstance(record, ConfigRecord) or set(record) != set(_FIELDS):
            raise MessageError(f"Expected the fields {', '.join(_FIELDS)} of a set.")
        columns = [record[field] for field in _FIELDS]
        lengths = {len(column) if isinstance(column, list) else -1 for column in columns}
        if len(lengths) != 1 or not 1 <= min(lengths) <= MAX_NODES:
            raise MessageError(f"Expected lists of 1 to {MAX_NODES} members, all of one length.")
        rows = zip(*columns, strict=True)
        return cls(tuple(Commit(*row) for row in rows))


@dataclass(frozen=True)
class Committed:
    """Reply to a commit request: the commit, and the fingerprints of the keys that a node accepts.

    The fingerprints are not signed. They let a server choose members who all know each other.
    """

    commit: Commit
    pins: frozenset[bytes]

    def to_record(self) -> ConfigRecord:
        """Return the commit and the accepted keys as a record of a Flower message."""
        return ConfigRecord({**vars(self.commit), "pins": sorted(self.pins)})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the commit and keys in an untrusted record; raise MessageError if invalid."""
        fields = dict(record)
        pins = fields.pop("pins", None)
        if set(fields) != {"name", "key", "ephemeral", "signature"} or not isinstance(pins, list):
            raise MessageError("Expected a commit and pins, the list of accepted keys.")
        return cls(Commit(**fields), frozenset(pin for pin in pins if isinstance(pin, bytes)))


def masks(
    secret: X25519PrivateKey, name: str, members: Members, session: bytes, dim: int
) -> Masked:
    """Return the sum of a member's masks, shape (dim,), modulo 2**64.

    These sums add up to 0 over all members. Raise MessageError if a one-time key is invalid (a
    point of small order).
    """
    total = np.zeros(dim, np.uint64)
    for other in members.commits:
        if other.name == name:
            continue
        try:
            shared = secret.exchange(X25519PublicKey.from_public_bytes(other.ephemeral))
        except ValueError as error:
            raise MessageError("Expected one-time keys of full order.") from error
        low, high = sorted((name, other.name))
        stream = _stream(shared, session, low, high, dim)
        total = total + stream if name < other.name else total - stream
    return total


def _stream(shared: bytes, session: bytes, low: str, high: str, dim: int) -> Masked:
    """Return the pseudo-random mask of two members, from the secret that only they share.

    One member adds the mask to its sum, and the other one subtracts it.
    """
    key = HKDF(SHA256(), 32, session, encode("pair", low, high)).derive(shared)
    stream = Cipher(ChaCha20(key, bytes(16)), None).encryptor().update(bytes(8 * dim))
    return np.frombuffer(stream, "<u8").astype(np.uint64)
