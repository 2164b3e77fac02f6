"""The SQLite file of a ledger: format, identity, periods and the users' secrets.

The format has a number. A ledger of an older format can be read as it is. The first transaction
that writes to it makes a copy and upgrades it. A ledger of a newer format is refused.

A ledger draws an identity when it is made. An object of this module works on the one file that it
opened first. If another file takes its place, even for a moment, all methods raise an error.

A ledger stores the latest time that a clock has shown. A clock that goes back starts no new
period. A clock that jumps ahead starts one new period, however far it jumps. That period ends one
period length after the time that the clock showed.

A ledger also stores users' secrets for series of permanent answers. Each secret is drawn once. A
user's answers in such a series follow from its value and this secret. A second secret would be a
second draw of the noise, which was not paid for. So the node refuses to answer if a user has paid
for a series and the secret is gone. A secret belongs to one public coin, which selects the column
of the user's bit: the difference of two columns with the same noise would reveal a value. The coin
follows from the user's number on the ledger. Neither the server nor the node nor the user's place
on it changes this number. The coin is stored with the secret, so that the node can refuse if the
coin has changed.
"""

import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from .budget import seconds_in


class LedgerError(RuntimeError):
    """Error of a ledger that is missing, foreign or replaced, or that cannot be written."""


_SCHEMA = """
    CREATE TABLE spent (
        user TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE reply (
        number INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE,
        created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, run TEXT NOT NULL,
        statistic TEXT NOT NULL, mechanism TEXT NOT NULL, content BLOB
    );
    CREATE TABLE charge (
        user TEXT, reply INTEGER, epsilon REAL NOT NULL, delta REAL NOT NULL,
        PRIMARY KEY (user, reply)
    ) WITHOUT ROWID;
    CREATE TABLE renewal (
        user TEXT NOT NULL, created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
        epsilon REAL NOT NULL, delta REAL NOT NULL
    );
    CREATE TABLE plan (
        user TEXT, plan TEXT, used INTEGER NOT NULL, PRIMARY KEY (user, plan)
    ) WITHOUT ROWID;
"""
#: Number of the format that this version writes.
FORMAT: Final = 4
# Statements that upgrade from one format to the next. A ledger older than the format numbers may
# already have the table "fact".
_UPGRADES: Final = (
    (
        "CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) "
        "WITHOUT ROWID",
        "INSERT OR IGNORE INTO fact VALUES ('identity', hex(randomblob(16)))",
    ),
    (
        "CREATE TABLE IF NOT EXISTS secret (user TEXT, series TEXT, content BLOB NOT NULL, "
        "PRIMARY KEY (user, series)) WITHOUT ROWID",
    ),
    (
        # Epsilons if all other nodes collude. Without shared noise they equal the epsilons.
        "ALTER TABLE spent ADD COLUMN alone REAL NOT NULL DEFAULT 0",
        "UPDATE spent SET alone = epsilon",
        "ALTER TABLE charge ADD COLUMN alone REAL NOT NULL DEFAULT 0",
        "UPDATE charge SET alone = epsilon",
        "CREATE TABLE shared (digest BLOB PRIMARY KEY, plan TEXT NOT NULL, created REAL NOT NULL, "
        "name TEXT NOT NULL, key BLOB NOT NULL, ephemeral BLOB NOT NULL, signature BLOB NOT NULL, "
        "secret BLOB) WITHOUT ROWID",
    ),
    # The approved study of an answer. Older answers, and those without a study, have no row.
    ("CREATE TABLE study (reply INTEGER PRIMARY KEY, id TEXT NOT NULL)",),
)


class LedgerFile:
    """An SQLite file that an operator has created with :meth:`create`, at a fixed path.

    ``timeout`` is the number of seconds to wait for another process's transaction.

    Raises
    ------
    LedgerError
        If the file is missing or is not a ledger. A missing ledger is never replaced by an empty
        ledger, since that would forget the users' spending.
    """

    _APPLICATION_ID = 0x1D9F10E6  # marks the file as a ledger

    def __init__(self, path: str | Path, timeout: float = 60.0) -> None:
        self._timeout = timeout
        try:
            self._path = Path(path).expanduser()
            found = self._path.is_file()
        except (OSError, RuntimeError) as error:  # a name that is too long, an unknown ~user
            raise LedgerError(
                f"Expected the path of a ledger, got {str(path)!r}: {error}"
            ) from error
        if not found:
            raise LedgerError(
                f"No ledger at {self._path}: create it once with `ldp-flower ledger init`."
            )
        self._place = self._found_at()
        self._identity: str | None = None
        with self.open():
            pass

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """Create an empty ledger; raise LedgerError if something exists at ``path`` already."""
        path = Path(path).expanduser()
        try:
            path.touch(mode=0o600, exist_ok=False)
        except FileExistsError as error:
            raise LedgerError(f"{path} exists already; a ledger is created once.") from error
        except OSError as error:
            raise LedgerError(f"Cannot create {path}: {error.strerror}.") from error
        with closing(sqlite3.connect(path)) as connection:
            upgrades = ";".join(statement for each in _UPGRADES for statement in each)
            connection.executescript(
                f"PRAGMA synchronous=EXTRA; BEGIN; {_SCHEMA}; {upgrades};"
                f"PRAGMA application_id={cls._APPLICATION_ID};"
                f"PRAGMA user_version={FORMAT}; COMMIT;"
            )
        return cls(path)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Connect to the file; raise LedgerError if it is not the file that was opened first."""
        try:
            with closing(self._connect()) as connection:
                # With FULL, the journal's removal, which is the commit, waits for the next sync.
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute("PRAGMA secure_delete=ON")  # one-time keys are overwritten
                self._leave_wal(connection)
                self._check(connection)
                yield connection
        except sqlite3.Error as error:
            raise LedgerError(f"The ledger {self._path} failed: {error}.") from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self._path.resolve().as_uri()}?mode=rw",
            timeout=self._timeout,
            isolation_level=None,
            uri=True,
        )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a write transaction, which excludes other writers.

        The changes are on disk, in the file at this path, when the context ends. Otherwise an error
        is raised.
        """
        with self.open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._check(connection)  # again, since from here on no other process can write
            self._upgrade(connection)
            yield connection
            connection.execute("COMMIT")
            self._check(connection)

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        """Copy a ledger of an older format, and upgrade it as part of the open transaction."""
        before = format_of(connection)
        if before == FORMAT:
            return
        copy = self._path.with_name(f"{self._path.name}.format-{before}")
        try:  # overwrites the copy of an interrupted upgrade
            os.close(os.open(copy, os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_WRONLY, 0o600))
        except OSError as error:
            raise LedgerError(f"Cannot copy the ledger to {copy}: {error.strerror}.") from error
        # SQLite does not copy from a connection in a write transaction: open a second one.
        with closing(self._connect()) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        for statements in _UPGRADES[before:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={FORMAT}")
        logging.getLogger(__name__).warning(
            "The ledger %s is now of format %d. A copy in the old format is kept in %s: delete it "
            "once the node works, since the copy does not know what is spent from now on.",
            self._path,
            FORMAT,
            copy,
        )

    def _leave_wal(self, connection: sqlite3.Connection) -> None:
        """End write-ahead logging, which another tool may have set.

        With write-ahead logging, the ledger's file alone does not hold all spending.
        """
        if _journal(connection) == "wal":
            connection.execute("PRAGMA journal_mode=DELETE")  # fails while others have it open
            logging.getLogger(__name__).warning(
                "Something had set the ledger %s to write-ahead logging, in which a copy of the "
                "file misses what was spent last; this is undone.",
                self._path,
            )

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raise LedgerError unless this is the ledger that was opened first."""
        if self._found_at() != self._place:
            raise self._replaced()
        (found,) = connection.execute("PRAGMA application_id").fetchone()
        if found != self._APPLICATION_ID:
            raise LedgerError(f"{self._path} is not a ledger of ldp-flower.")
        if (newer := format_of(connection)) > FORMAT:
            raise LedgerError(
                f"The ledger {self._path} is of format {newer}, which a newer ldp-flower has "
                f"written; this version knows formats up to {FORMAT}. Install the newer version."
            )
        if _journal(connection) == "wal":
            raise LedgerError(f"The ledger {self._path} is set to write-ahead logging.")
        identity = fact(connection, "identity")
        if self._identity not in (None, identity):
            raise self._replaced()
        self._identity = identity

    def _found_at(self) -> tuple[int, int]:
        """Return device and inode of the file at the path; raise LedgerError if there is none."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise LedgerError(f"The ledger {self._path} is gone: {error.strerror}.") from error
        return found.st_dev, found.st_ino

    def _replaced(self) -> LedgerError:
        return LedgerError(f"The ledger {self._path} was replaced by another file while in use.")


def fact(connection: sqlite3.Connection, name: str) -> str | None:
    """Return the text that the ledger stores under ``name``, such as its identity, or None."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'fact'").fetchone():
        return None
    row = connection.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def format_of(connection: sqlite3.Connection) -> int:
    """Return the number of a ledger's format."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _journal(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


_SEEN: Final = "latest time"  # facts of a ledger, in seconds
_BEGAN: Final = "period began"


def begins_period(connection: sqlite3.Connection, period: str, clock: float) -> bool:
    """Return True if a period is over, and begin the next period; record the clock's time.

    The caller then renews the budgets of all users.

    If no period has begun on the ledger so far, begin the first period and return False: earlier
    spending counts in this first period.
    """
    now = latest(connection, clock)
    began = fact(connection, _BEGAN)
    over = began is not None and now >= float(began) + seconds_in(period)
    if began is None or over:
        _note(connection, _BEGAN, now)
    return over


def latest(connection: sqlite3.Connection, clock: float) -> float:
    """Return the latest time that a clock has shown, now or before, in seconds; record it.

    ``clock`` is the time that the system's clock shows. If it goes back, the time stays, so that no
    period or study begins again.
    """
    now = max(clock, float(fact(connection, _SEEN) or 0))
    _note(connection, _SEEN, now)
    return now


def began_at(connection: sqlite3.Connection) -> str:
    """Return the start of the current period (ISO format, UTC); empty if there is no period."""
    began = fact(connection, _BEGAN)
    if began is None:
        return ""
    return datetime.fromtimestamp(float(began), UTC).isoformat(timespec="seconds")


def _note(connection: sqlite3.Connection, name: str, time: float) -> None:
    connection.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, repr(time)))


_SECRET_BYTES: Final = 32


def plan_of(series: str) -> str:
    """Return the name of the plan by which users pay once for a series of permanent answers."""
    return f"series {series}"


def series_keys(
    connection: sqlite3.Connection, users: Sequence[str], series: str, coins: Sequence[int]
) -> list[bytes]:
    """Return the users' secrets for a series; draw and store secrets of users new to the series.

    The operating system draws the secrets. New secrets need a transaction of the caller, so that
    they are on disk before they are used.

    Raises
    ------
    LedgerError
        If a user has paid for the series and its secret is gone, or if the secret belongs to
        another coin.
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
            "cannot answer the series any more."
        )
    coin_of = {user: coin.to_bytes(8, "little") for user, coin in zip(users, coins, strict=True)}
    other = [u for u in users if u in known and bytes(known[u])[_SECRET_BYTES:] != coin_of[u]]
    if other:
        raise LedgerError(
            f"{len(other)} users have another public coin than at the first collection of a "
            "series: with another coin, the same noise would reveal their values."
        )
    drawn = {user: os.urandom(_SECRET_BYTES) + coin_of[user] for user in users if user not in known}
    connection.executemany(
        "INSERT INTO secret VALUES (?, ?, ?)",
        [(user, series, secret) for user, secret in drawn.items()],
    )
    return [bytes((known | drawn)[user]) for user in users]
