"""The file of a ledger: that it is one, that it stays the same one, and what it is about.

Its format has a number. A ledger of an older one is answered from as it is, and becomes one of
today's with the first answer: in one transaction, after a copy was made. A newer one is refused.

A ledger has an identity, drawn when it is made. Whoever opened it works on this one file:
if another takes its place, if only for a moment, everything fails instead.

A ledger keeps the latest time that it was asked at: a clock that goes back gives no new period. One
that jumps ahead gives one, however far, which lasts until the time that it showed is over.

It also keeps users' secrets for series of permanent answers, drawn once. All that a user answers in
such a series follows from its value and this secret. A second one would be a second draw of the
noise, which nobody has paid: where a series is paid and its secret is gone, the node refuses. A
secret is for one public coin, which names the column of a user's bit: the same noise on two columns
would give a value away by their difference. The coin follows from the user's number on the ledger,
which no server, node or place changes. It is kept with the secret, so that the node refuses should
it ever be another one.
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
    """A ledger that is missing, foreign or replaced, or cannot be written."""


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
#: Number of the format that is written.
FORMAT: Final = 2
# From one format to the next. Ledgers of before there were numbers may have the table.
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
)


class LedgerFile:
    """An SQLite file that an operator has created with :meth:`create`, and that stays where it is.

    ``timeout`` is how many seconds it waits for another process's transaction.

    Raises
    ------
    LedgerError
        If the file is missing or is no ledger. A missing ledger is never replaced by
        an empty one: that would forget what users have spent.
    """

    _APPLICATION_ID = 0x1D9F10E6  # marks the file as a ledger of this format

    def __init__(self, path: str | Path, timeout: float = 60.0) -> None:
        self._timeout = timeout
        try:
            self._path = Path(path).expanduser()
            found = self._path.is_file()
        except (OSError, RuntimeError) as error:  # a name too long, a user who is unknown
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
        """Connect to the file, which is the one that this object was made for."""
        try:
            with closing(self._connect()) as connection:
                # FULL leaves the journal's removal, which is the commit, to the next sync.
                connection.execute("PRAGMA synchronous=EXTRA")
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
        """Connect and write, alone: on disk afterwards, at this path, or an error and nothing."""
        with self.open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._check(connection)  # anew: from here on nobody else writes
            self._upgrade(connection)
            yield connection
            connection.execute("COMMIT")
            self._check(connection)

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        """Make a ledger of an older format one of today's, if the transaction ends well."""
        before = _format(connection)
        if before == FORMAT:
            return
        copy = self._path.with_name(f"{self._path.name}.format-{before}")
        try:  # anew, if an upgrade was interrupted
            os.close(os.open(copy, os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_WRONLY, 0o600))
        except OSError as error:
            raise LedgerError(f"Cannot copy the ledger to {copy}: {error.strerror}.") from error
        # Not the connection that is about to write: SQLite does not copy from that.
        with closing(self._connect()) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        for statements in _UPGRADES[before:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={FORMAT}")
        logging.getLogger(__name__).warning(
            "The ledger %s is now of format %d. What it was is kept in %s: delete it once the node "
            "works, since it does not know what is spent from now on.",
            self._path,
            FORMAT,
            copy,
        )

    def _leave_wal(self, connection: sqlite3.Connection) -> None:
        """Undo what another tool may have set, as the file alone is to hold all spending."""
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
        if (newer := _format(connection)) > FORMAT:
            raise LedgerError(
                f"The ledger {self._path} is of format {newer}, which a newer ldp-flower has "
                f"written; this one knows formats up to {FORMAT}. Install the newer one."
            )
        if _journal(connection) == "wal":
            raise LedgerError(f"The ledger {self._path} is set to write-ahead logging.")
        identity = fact(connection, "identity")
        if self._identity not in (None, identity):
            raise self._replaced()
        self._identity = identity

    def _found_at(self) -> tuple[int, int]:
        """Return which file lies at the path."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise LedgerError(f"The ledger {self._path} is gone: {error.strerror}.") from error
        return found.st_dev, found.st_ino

    def _replaced(self) -> LedgerError:
        return LedgerError(f"The ledger {self._path} was replaced by another file while in use.")


def fact(connection: sqlite3.Connection, name: str) -> str | None:
    """Return what a ledger says about itself under this name, if anything."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'fact'").fetchone():
        return None
    row = connection.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def _format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _journal(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


_SEEN: Final = "latest time"  # facts of a ledger, in seconds
_BEGAN: Final = "period began"


def is_over(connection: sqlite3.Connection, period: str, clock: float) -> bool:
    """Whether a new period begins, which it does then; note what the clock shows.

    Of a ledger without periods so far the first one begins: what was spent before counts in it.
    """
    now = max(clock, float(fact(connection, _SEEN) or 0))
    began = fact(connection, _BEGAN)
    over = began is not None and now >= float(began) + seconds_in(period)
    _note(connection, _SEEN, now)
    if began is None or over:
        _note(connection, _BEGAN, now)
    return over


def began_at(connection: sqlite3.Connection) -> str:
    """Return when the current period began, UTC; empty if there is none."""
    began = fact(connection, _BEGAN)
    if began is None:
        return ""
    return datetime.fromtimestamp(float(began), UTC).isoformat(timespec="seconds")


def _note(connection: sqlite3.Connection, name: str, time: float) -> None:
    connection.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, repr(time)))


_SECRET_BYTES: Final = 32


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
    other = [u for u in users if u in known and bytes(known[u])[_SECRET_BYTES:] != coin_of[u]]
    if other:
        raise LedgerError(
            f"{len(other)} users have another public coin than at the first collection of a "
            "series: the same noise would give their values away."
        )
    drawn = {user: os.urandom(_SECRET_BYTES) + coin_of[user] for user in users if user not in known}
    connection.executemany(
        "INSERT INTO secret VALUES (?, ?, ?)",
        [(user, series, secret) for user, secret in drawn.items()],
    )
    return [bytes((known | drawn)[user]) for user in users]
