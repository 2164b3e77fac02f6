"""A run on disk, so that a server that stops can go on without asking anyone twice."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Final

PART_STEPS: Final = 1 << 16  # numbers of steps that a part of a store has for itself

#: A node, and the report or the text of the error that came from it.
Reply = tuple[int, bytes | None, str | None]


class RunStore:
    """Salt, census and every reply of one run, in an SQLite file, or in memory without a path."""

    #: Number of the first step; those on the wire follow it, so that parts ask other questions.
    first = 0
    _prefix = ""  # of the names of facts, empty without parts

    def __init__(self, path: str | Path | None = None) -> None:
        file = ":memory:" if path is None else Path(path).expanduser()
        try:
            self._connection = sqlite3.connect(file)
            self._connection.executescript(
                """
                CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
                CREATE TABLE IF NOT EXISTS reply (
                    step INTEGER, node TEXT, content BLOB, error TEXT, PRIMARY KEY (step, node)
                );
                """
            )
        except sqlite3.Error as error:
            raise ValueError(
                f"Expected a store that can be made or written, got {file}: {error}."
            ) from error

    @contextmanager
    def open(self) -> Iterator["RunStore"]:
        """Close the file at the end."""
        try:
            yield self
        finally:
            self._connection.close()

    def part(self, number: int) -> "RunStore":
        """Return a store of a run of its own in the same file, from number 1."""
        part = copy(self)
        part.first, part._prefix = number * PART_STEPS, f"{number} "
        return part

    def clear(self) -> None:
        """Forget all of a part."""
        with self._connection:
            self._connection.execute("DELETE FROM fact WHERE name GLOB ?", (f"{self._prefix}*",))
            own = self.first, self.first + PART_STEPS - 1
            self._connection.execute("DELETE FROM reply WHERE step BETWEEN ? AND ?", own)

    def get(self, name: str) -> Any:
        """Return a stored fact, or None."""
        query = "SELECT value FROM fact WHERE name = ?"
        row = self._connection.execute(query, (self._prefix + name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Any) -> None:
        """Store a fact."""
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO fact VALUES (?, ?)",
                (self._prefix + name, json.dumps(value)),
            )

    def replies(self, step: int) -> dict[int, tuple[bytes | None, str | None]]:
        """Return, per node, the report of a step or the text of its error."""
        rows = self._connection.execute(
            "SELECT node, content, error FROM reply WHERE step = ? ORDER BY rowid",
            (self.first + step,),
        )
        return {int(node): (content, error) for node, content, error in rows}

    def last_step(self) -> int:
        """Return the last step that has a report; -1 without any."""
        last = "SELECT MAX(step) FROM reply WHERE content IS NOT NULL AND step BETWEEN ? AND ?"
        own = self.first, self.first + PART_STEPS - 1
        (step,) = self._connection.execute(last, own).fetchone()
        return -1 if step is None else int(step) - self.first

    def add_replies(self, step: int, replies: Iterable[Reply]) -> None:
        """Store reports or errors as they arrive; the first report of a node counts."""
        with self._connection:
            self._connection.executemany(
                "INSERT INTO reply VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
                "SET content = excluded.content, error = excluded.error WHERE content IS NULL",
                [(self.first + step, str(node), content, err) for node, content, err in replies],
            )
