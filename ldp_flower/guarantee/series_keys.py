"""Secrets of users for series of permanent answers: drawn once, kept by the ledger for ever.

All that a user answers in such a series follows from its value and this secret. A second one
would be a second draw of the noise, which nobody has paid: where a series is paid and its secret
is gone, the node refuses.

A secret is for one public coin, which names the column of a user's bit. The same noise on two
columns would give a value away by their difference, without any noise. The coin follows from the
user's number on the ledger, which no server, node or place changes. It is kept with the secret, so
that the node refuses should it ever be another one.
"""

import os
import sqlite3
from collections.abc import Sequence
from typing import Final

from .ledger_file import LedgerError

_BYTES: Final = 32


def plan_of(series: str) -> str:
    """Return the name of the plan under which a series is paid, once for all collections."""
    return f"series {series}"


def series_keys(
    connection: sqlite3.Connection, users: Sequence[str], series: str, coins: Sequence[int]
) -> list[bytes]:
    """Return the users' secrets, drawn by the operating system where a series is new to them.

    In a transaction, so that they are on disk before anything that follows from them.

    Raises
    ------
    LedgerError
        If a user has paid for the series and its secret is gone, or of another coin.
    """
    known = dict(connection.execute("SELECT user, content FROM secret WHERE series = ?", (series,)))
    paid = {
        user
        for (user,) in connection.execute(
            "SELECT user FROM plan WHERE plan = ?", (plan_of(series),)
        )
    }
    if lost := paid.intersection(users) - known.keys():
        raise LedgerError(
            f"The secrets of {len(lost)} users for a series that they have paid are gone: they "
            "answer it no more."
        )
    coin_of = {user: coin.to_bytes(8, "little") for user, coin in zip(users, coins, strict=True)}
    other = [u for u in users if u in known and bytes(known[u])[_BYTES:] != coin_of[u]]
    if other:
        raise LedgerError(
            f"{len(other)} users have another public coin than at the first collection of a "
            "series: the same noise would give their values away."
        )
    drawn = {user: os.urandom(_BYTES) + coin_of[user] for user in users if user not in known}
    connection.executemany(
        "INSERT INTO secret VALUES (?, ?, ?)",
        [(user, series, secret) for user, secret in drawn.items()],
    )
    return [bytes((known | drawn)[user]) for user in users]
