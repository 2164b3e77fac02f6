"""One-time keys of shared sums, on a ledger: drawn with a commit, deleted with the answer.

A key is open until the answer is stored. One transaction stores the answer and deletes the key, so
that no second answer can be masked with it, and a later theft of the ledger opens no sum.
"""

import sqlite3
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from .ledger_file import latest
from .peers import Peers
from .shared_sums import Commit

_MOST_OPEN: Final = 64  # number of open keys on a ledger, so that no server can fill a node's disk
_OPEN_SECONDS: Final = 86_400  # a commit that is not used within a day is closed


@dataclass(frozen=True)
class OneTimeKey:
    """A commit on the ledger with its secret; None instead of the secret after the answer."""

    commit: Commit
    secret: X25519PrivateKey | None


def find(connection: sqlite3.Connection, digest: bytes, clock: float) -> OneTimeKey | None:
    """Return the one-time key of the commit to a query; None if there is no such commit.

    Open keys that were drawn at least a day ago are deleted before.
    """
    now = latest(connection, clock)
    connection.execute(
        "DELETE FROM shared WHERE secret IS NOT NULL AND created <= ?", (now - _OPEN_SECONDS,)
    )
    row = connection.execute(
        "SELECT name, key, ephemeral, signature, secret FROM shared WHERE digest = ?",
        (digest,),
    ).fetchone()
    if row is None:
        return None
    *commit, secret = row
    drawn = None if secret is None else X25519PrivateKey.from_private_bytes(secret)
    return OneTimeKey(Commit(*commit), drawn)


def draw(
    connection: sqlite3.Connection, digest: bytes, plan: str, peers: Peers, clock: float
) -> Commit:
    """Return the commit to a query; draw and store a one-time key if there is no commit yet.

    This deletes the open key of an earlier step of the same plan, since a run asks one step after
    the other. If too many keys are open, the oldest ones are deleted.
    """
    if (known := find(connection, digest, clock)) is not None:
        return known.commit
    connection.execute("DELETE FROM shared WHERE secret IS NOT NULL AND plan = ?", (plan,))
    connection.execute(
        "DELETE FROM shared WHERE digest IN (SELECT digest FROM shared WHERE secret IS NOT NULL "
        "ORDER BY created DESC LIMIT -1 OFFSET ?)",
        (_MOST_OPEN - 1,),
    )
    secret = X25519PrivateKey.generate()
    commit = Commit.made(peers, digest, secret)
    row = digest, plan, latest(connection, clock), *vars(commit).values()
    connection.execute(
        "INSERT INTO shared VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, secret.private_bytes_raw()),
    )
    return commit


def close(connection: sqlite3.Connection, digest: bytes) -> bool:
    """Delete the one-time key of an answered query; return False if there is none."""
    done = connection.execute(
        "UPDATE shared SET secret = NULL WHERE digest = ? AND secret IS NOT NULL", (digest,)
    )
    return bool(done.rowcount)
