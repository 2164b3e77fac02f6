"""Storage of a run on disk, so that a restarted server can resume without querying users twice."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Final, NamedTuple

_DAMAGED = (
    "Expected a whole store of a run, got {}, which is damaged: {}. Put a copy of the file in its "
    "place; a run with a new file asks all users again, which costs more budget."
)

PART_STEPS: Final = 1 << 16  # number of step numbers that are reserved for each part of a store


class Failure(NamedTuple):
    """Code and text of a node's error reply, or of the reason why its reply is left out."""

    code: int
    text: str

    def __str__(self) -> str:
        """Return the failure as a text for results."""
        if self.code == UNKNOWN:
            return self.text
        name = "another schema" if self.code == OTHER_SCHEMA else f"error {self.code}"
        return f"{name}: {self.text}"


#: Code of a failure that is not an error reply: the node's schema differs from the strategy's.
OTHER_SCHEMA: Final = -1
#: Code of a failure in a store from an older version, where the text contains the actual code.
UNKNOWN: Final = 0
#: A node's id, its report if it sent one, and its failure if there was one.
Reply = tuple[int, bytes | None, Failure | None]


def _columns(failure: Failure | None) -> tuple[str | None, int]:
    return (None, UNKNOWN) if failure is None else (failure.text, failure.code)


class RunStore:
    """Store of one run's salt, census and replies.

    The store is an SQLite file, or is kept in memory if there is no path.
    """

    #: Offset of the step numbers in the file and on the wire. Parts have different offsets, so
    #: that no two parts number a question alike.
    first = 0
    _prefix = ""  # prefix of the names of facts; empty for a store without parts

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = path
        file = ":memory:" if path is None else Path(path).expanduser()
        try:
            self._connection = sqlite3.connect(file)
            self._connection.executescript(
                """
                CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
                CREATE TABLE IF NOT EXISTS reply (
                    step INTEGER, node TEXT, content BLOB, error TEXT, code INTEGER DEFAULT 0,
                    PRIMARY KEY (step, node)
                );
                CREATE TABLE IF NOT EXISTS answer (
                    step INTEGER PRIMARY KEY, content BLOB NOT NULL, counts TEXT NOT NULL
                );
                """
            )
            columns = self._connection.execute("PRAGMA table_info(reply)").fetchall()
            if "code" not in {name for _, name, *_ in columns}:  # written by an older version
                self._connection.execute("ALTER TABLE reply ADD COLUMN code INTEGER DEFAULT 0")
        except sqlite3.Error as error:
            raise ValueError(
                f"Expected a store that can be made or written, got {file}: {error}."
            ) from error

    @contextmanager
    def open(self) -> Iterator["RunStore"]:
        """Return a context that yields the store, and closes its file at the end."""
        try:
            yield self
        finally:
            self._connection.close()

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Return a context for reading ``what``, which raises ValueError if the file is damaged.

        Errors of another cause, such as a lock, pass unchanged.
        """
        try:
            yield
        except sqlite3.OperationalError:  # for example a lock, which does not mean damage
            raise
        except (sqlite3.DatabaseError, ValueError) as error:
            raise ValueError(_DAMAGED.format(self.path, f"{what}: {error}".rstrip("."))) from error

    def part(self, number: int) -> "RunStore":
        """Return a separate store in the same file, such as that of a series' first collection.

        The numbers of parts begin with 1.
        """
        part = copy(self)
        part.first, part._prefix = number * PART_STEPS, f"{number} "
        return part

    def clear(self) -> None:
        """Delete all values, replies and answers of this part."""
        with self._connection:
            self._connection.execute("DELETE FROM fact WHERE name GLOB ?", (f"{self._prefix}*",))
            own = self.first, self.first + PART_STEPS - 1
            self._connection.execute("DELETE FROM reply WHERE step BETWEEN ? AND ?", own)
            self._connection.execute("DELETE FROM answer WHERE step BETWEEN ? AND ?", own)

    def get(self, name: str) -> Any:
        """Return the value that :meth:`put` has stored under a name, or None if there is none."""
        query = "SELECT value FROM fact WHERE name = ?"
        with self.reading(name):
            row = self._connection.execute(query, (self._prefix + name,)).fetchone()
            return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Any) -> None:
        """Store a value, such as the run's salt, under a name; it replaces an earlier value."""
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO fact VALUES (?, ?)",
                (self._prefix + name, json.dumps(value)),
            )

    def replies(self, step: int) -> dict[int, tuple[bytes | None, Failure | None]]:
        """Return each node's report of a step and its failure, by node; either may be None."""
        with self.reading(f"replies of step {step}"):
            rows = self._connection.execute(
                "SELECT node, content, error, code FROM reply WHERE step = ? ORDER BY rowid",
                (self.first + step,),
            )
            return {
                int(node): (content, None if error is None else Failure(code, error))
                for node, content, error, code in rows
            }

    def error_codes(self) -> Counter[int]:
        """Return the number of error replies so far, the census included, by code."""
        query = (
            "SELECT code, COUNT(*) FROM reply WHERE content IS NULL AND error IS NOT NULL "
            "AND step BETWEEN ? AND ? GROUP BY code"
        )
        own = self.first, self.first + PART_STEPS - 1
        with self.reading("errors"):
            return Counter(dict(self._connection.execute(query, own).fetchall()))

    def last_step(self) -> int:
        """Return the number of the last step that has a report, or -1 if none has."""
        last = "SELECT MAX(step) FROM reply WHERE content IS NOT NULL AND step BETWEEN ? AND ?"
        own = self.first, self.first + PART_STEPS - 1
        with self.reading("the last step"):
            (step,) = self._connection.execute(last, own).fetchone()
        return -1 if step is None else int(step) - self.first

    def add_replies(self, step: int, replies: Iterable[Reply]) -> None:
        """Store reports or failures as they arrive; a node's first report is kept."""
        with self._connection:
            self._connection.executemany(
                "INSERT INTO reply VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET content = "
                "excluded.content, error = excluded.error, code = excluded.code "
                "WHERE content IS NULL",
                [
                    (self.first + step, str(node), content, *_columns(failure))
                    for node, content, failure in replies
                ],
            )

    def condense(self, step: int, content: bytes, counts: Any) -> None:
        """Put ``content``, the aggregate of a finished step, in the place of all its reports."""
        at = self.first + step
        with self._connection:
            if self.path is not None:  # a store in memory is never read again
                row = at, content, json.dumps(counts)
                self._connection.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?)", row)
            self._connection.execute(
                "UPDATE reply SET content = x'' WHERE step = ? AND content IS NOT NULL", (at,)
            )

    def condensed(self, step: int) -> tuple[bytes, Any] | None:
        """Return what :meth:`condense` has kept of a step, the aggregate and counts, or None."""
        query, at = "SELECT content, counts FROM answer WHERE step = ?", (self.first + step,)
        longest = "SELECT MAX(LENGTH(content)) FROM reply WHERE step = ?"
        with self.reading(f"the answer of step {step}"):
            if (row := self._connection.execute(query, at).fetchone()) is not None:
                return row[0], json.loads(row[1])
            complete = self.get(f"step {step} complete")  # a complete step has at least one report
            if complete and not self._connection.execute(longest, at).fetchone()[0]:
                raise ValueError("it is not there")
        return None
