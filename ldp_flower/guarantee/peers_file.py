"""Upkeep of an operator's key file and peers file: new keys, rotations of keys, fingerprints.

A node that answers only reads these files, see :mod:`.peers`. The commands ``ldp-flower keys`` and
``ldp-flower peers`` change them.
"""

import os
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from .peers import FORMAT, Peer, PeersError, check_peers, encode, has_signed


def shown(key: bytes) -> str:
    """Return a key's fingerprint for operators to compare: 32 hexadecimal digits in groups of four.

    Messages name a key by a shorter identifier, see :func:`.peers.fingerprint`.
    """
    digits = sha256(key).hexdigest()[:32]
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def rotation(name: str, old: bytes, new: bytes) -> bytes:
    """Return the bytes that a node's old key signs to state which new key replaces it."""
    return encode("rotation", name, old, new)


def signed_rotation(peers: list[Peer], new: Peer, proof: str) -> Peer:
    """Return the peer whose key has signed the key of ``new``, which has the same name.

    Raise PeersError if no such peer has signed it.
    """
    try:
        signature = bytes.fromhex(proof)
    except ValueError:
        raise PeersError(f"Expected a proof of hexadecimal digits, got {proof!r}.") from None
    for each in peers:
        text = rotation(new.name, each.key, new.key)
        if each.name == new.name and has_signed(each.key, signature, text):
            return each
    raise PeersError(f"Expected a proof signed by an accepted key of {new.name}.")


def write_peers(path: str | Path, peers: list[Peer]) -> None:
    """Write a peers file as a whole; a reader sees the old content or the new one."""
    check_peers(peers)
    path = Path(path).expanduser()
    tables = [_table(peer) for peer in peers] or ["peer = []\n"]
    content = "\n".join([f"format = {FORMAT}\n", *tables])
    partly = path.with_name(f"{path.name}.partly")
    partly.write_text(content, "utf-8")
    partly.replace(path)


def _table(peer: Peer) -> str:
    """Return a peer's table in the file."""
    until = "" if peer.until is None else f"until = {peer.until.isoformat()}\n"
    checked = f"checked = {_quoted(peer.checked)}\n" if peer.checked else ""
    return f'[[peer]]\nname = "{peer.name}"\nkey = "{peer.key.hex()}"\n{until}{checked}'


def _quoted(text: str) -> str:
    safe = "".join(sign if sign.isprintable() and sign not in '"\\' else " " for sign in text)
    return f'"{safe}"'


def create_key(path: str | Path) -> Ed25519PrivateKey:
    """Draw a key and write it to a new file that other accounts cannot read.

    Raise PeersError if the file exists or cannot be made.
    """
    key = Ed25519PrivateKey.generate()
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    try:
        with open(os.open(Path(path).expanduser(), flags, 0o600), "wb") as file:
            file.write(content)
    except OSError as error:
        raise PeersError(f"Cannot create the key file {path}: {error.strerror}.") from error
    return key
