"""Keys of nodes that share their noise: a node's own key, and the keys that its operator pinned.

Operators exchange their nodes' Ed25519 keys outside Flower. A node accepts signatures by the keys
in its peers file only, so no server can add a node. The key and the file belong to an operator's
node (``ldp-flower supernode``), where no code of a run can read them. Nodes of a simulation have
keys that follow from their names.
"""

import os
import re
import stat
import tomllib
from abc import ABC, abstractmethod
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import load_pem_private_key

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
_DOMAIN: Final = "ldp-flower shared sum 1 "
_NAME: Final = re.compile(r"[a-z0-9-]{1,40}")
FORMAT: Final = 1
_MOST_KEYS: Final = 2  # number of keys of a name: an old and a new key, while keys are rotated
_FINGERPRINT_BYTES: Final = 8


class KeyFiles(NamedTuple):
    """The paths of a node's key file and of its peers file."""

    key: str
    peers: str


#: The files of an operator's node. Unset outside `ldp-flower supernode`.
operators_files: ContextVar[KeyFiles | None] = ContextVar("operators_files", default=None)


class PeersError(ValueError):
    """Error of a key file or of a peers file that cannot be used."""


def encode(purpose: str, *parts: bytes | str | int) -> bytes:
    """Return the bytes to sign or hash: the purpose and the parts, each after its length.

    The lengths make the bytes differ if the parts differ.
    """
    encoded = b""
    for part in (_DOMAIN + purpose, *parts):
        content = part if isinstance(part, bytes) else str(part).encode()
        encoded += len(content).to_bytes(8, "big") + content
    return encoded


def has_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Return True if ``signature`` is that of ``text`` by the owner of a public Ed25519 key."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def fingerprint(key: bytes) -> bytes:
    """Return the identifier of a public key in messages: 8 bytes.

    Operators compare the longer fingerprint of :func:`.peers_file.shown` instead.
    """
    return sha256(key).digest()[:_FINGERPRINT_BYTES]


def is_name(name: object) -> bool:
    """Return True if ``name`` can be a node's: up to 40 lowercase letters, digits and hyphens."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


class Peers(ABC):
    """A node's own name and key, and the keys of other nodes that it accepts.

    A node shares its noise with accepted nodes only. A key counts together with its node's name.
    """

    name: str
    private: Ed25519PrivateKey

    @property
    def key(self) -> bytes:
        """The node's own public key."""
        return self.private.public_key().public_bytes_raw()

    @abstractmethod
    def accepts(self, name: str, key: bytes) -> bool:
        """Return True if ``key`` is a key that the operator has pinned for the node ``name``."""

    @abstractmethod
    def fingerprints(self) -> list[bytes]:
        """Return the 8-byte identifiers of all accepted keys, by which messages name them.

        In a simulation, the list is empty, since a node's key follows from its name.
        """


@dataclass(frozen=True)
class Peer:
    """A node whose key an operator has pinned, as a ``[[peer]]`` table of the peers file.

    The operator's own node shares its noise only with such nodes.

    Attributes
    ----------
    name : str
        Name of the node.
    key : bytes
        Its public Ed25519 key.
    until : datetime, optional
        Time at which the key expires; None if it does not expire.
    checked : str
        The operator's note on how the key was verified, such as "by phone".
    """

    name: str
    key: bytes
    until: datetime | None = None
    checked: str = ""

    def is_accepted(self, now: datetime) -> bool:
        """Return True if the peer's key is still valid at the time ``now``."""
        return self.until is None or now < self.until

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Return a peer from a table of the file; raise PeersError if it is not valid."""
        if unknown := set(plain) - {"name", "key", "until", "checked"}:
            raise PeersError(f"Expected name, key, until and checked of a peer, got {unknown}.")
        name, key, until = plain.get("name"), plain.get("key"), plain.get("until")
        if not is_name(name):
            raise PeersError(
                f"Expected a peer's name of 1 to 40 lowercase letters, digits or hyphens, got "
                f"{name!r}."
            )
        if not isinstance(key, str) or re.fullmatch(r"[0-9a-f]{64}", key) is None:
            raise PeersError(f"Expected a key of 64 hexadecimal digits for {name}, got {key!r}.")
        if until is not None and not (isinstance(until, datetime) and until.tzinfo):
            raise PeersError(f"Expected until of {name} to be a time with a zone, got {until!r}.")
        return cls(str(name), bytes.fromhex(key), until, str(plain.get("checked", "")))


def read_peers(path: str | Path) -> list[Peer]:
    """Return the nodes with pinned keys that a peers file lists, expired ones included.

    An operator's node shares its noise with such nodes only. Raise PeersError if the file cannot be
    read, if a peer is not valid, if a key is listed twice, or if a name has too many keys.
    """
    try:
        plain = tomllib.loads(Path(path).expanduser().read_text("utf-8"))
    except (OSError, ValueError, RuntimeError) as error:
        raise PeersError(f"Expected {path} to be a peers file, but {error}.") from error
    if set(plain) != {"format", "peer"} or plain["format"] != FORMAT:
        raise PeersError(f"Expected format = {FORMAT} and [[peer]] tables in {path}.")
    if not (isinstance(plain["peer"], list) and all(isinstance(p, dict) for p in plain["peer"])):
        raise PeersError(f"Expected peers to be [[peer]] tables in {path}.")
    peers = [Peer.of(each) for each in plain["peer"]]
    check_peers(peers)
    return peers


def check_peers(peers: list[Peer]) -> None:
    """Raise PeersError if a key is there twice, or if a name has more than two keys."""
    keys = [peer.key for peer in peers]
    names = [peer.name for peer in peers]
    if twice := {key.hex()[:16] for key in keys if keys.count(key) > 1}:
        raise PeersError(f"Expected each key once in a peers file, got {twice} twice.")
    if many := {name for name in names if names.count(name) > _MOST_KEYS}:
        raise PeersError(f"Expected at most {_MOST_KEYS} keys a name, got more for {many}.")


def read_key(path: str | Path) -> Ed25519PrivateKey:
    """Return a node's key; raise PeersError if others may read the file, or if it has no key."""
    try:
        opened = os.open(Path(path).expanduser(), os.O_RDONLY | os.O_NOFOLLOW)
    except (OSError, RuntimeError) as error:
        raise PeersError(f"Expected {path} to be a key file, not a link: {error}.") from error
    if stat.S_ISDIR(os.fstat(opened).st_mode):
        os.close(opened)
        raise PeersError(f"Expected {path} to be a key file, got a folder.")
    with open(opened, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
            raise PeersError(f"Expected only the node's account to read {path}: chmod 600 {path}.")
        if about.st_uid != os.geteuid():
            raise PeersError(f"Expected {path} to belong to the node's account.")
        content = file.read()
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise PeersError(f"Expected an unencrypted PEM key in {path}.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise PeersError(f"Expected an Ed25519 key in {path}, got {type(key).__name__}.")
    return key


@dataclass(frozen=True)
class PinnedPeers(Peers):
    """The key and the peers of an operator's node, read from its files for one message."""

    name: str
    private: Ed25519PrivateKey = field(repr=False)
    pins: dict[str, tuple[bytes, ...]]

    @classmethod
    def read(cls, files: KeyFiles, now: datetime | None = None) -> Self:
        """Return the operator's pins and this node's key, from both files.

        Raise PeersError if one file is not valid or lacks the node's own key.
        """
        private = read_key(files.key)
        now = now or datetime.now(UTC)
        valid = [each for each in read_peers(files.peers) if each.is_accepted(now)]
        own = private.public_key().public_bytes_raw()
        names = [each.name for each in valid if each.key == own]
        if not names:
            raise PeersError(f"Expected the node's own key in {files.peers}.")
        pins = {one.name: tuple(p.key for p in valid if p.name == one.name) for one in valid}
        return cls(names[0], private, pins)

    def accepts(self, name: str, key: bytes) -> bool:
        """Return True if ``key`` is a key that the operator has pinned for the node ``name``."""
        return key in self.pins.get(name, ())

    def fingerprints(self) -> list[bytes]:
        """Return the fingerprints of all accepted keys."""
        return [fingerprint(key) for keys in self.pins.values() for key in keys]


@lru_cache(maxsize=1024)
def _simulated_key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(encode("simulated", name)).digest())


@dataclass(frozen=True)
class SimulatedPeers(Peers):
    """A simulated node and its peers. The key of each node follows from the node's name."""

    name: str

    @property
    def private(self) -> Ed25519PrivateKey:  # type: ignore[override]
        """Private key of the simulated node."""
        return _simulated_key(self.name)

    def accepts(self, name: str, key: bytes) -> bool:
        """Return True if this is the key of a simulated node of this name."""
        return key == _simulated_key(name).public_key().public_bytes_raw()

    def fingerprints(self) -> list[bytes]:
        """Return an empty list, since the key of a node follows from its name."""
        return []
