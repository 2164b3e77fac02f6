"""A run on disk, so that a server that stops can go on without asking anyone twice.

A run is recognised by the class of its strategy and all of its parameters.
"""

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from ldp_flower.guarantee.training import digest
from ldp_flower.validation import plain

_DAMAGED = (
    "Expected a whole store of a run, got {}, which is damaged: {}. Put a copy of the file in its "
    "place; a run with a new file asks everybody anew, for more budget."
)

PART_STEPS: Final = 1 << 16  # numbers of steps that a part of a store has for itself


class Failure(NamedTuple):
    """An error reply of a node, or why its reply is left out: a code and a text."""

    code: int
    text: str

    def __str__(self) -> str:
        """Return it as results show it."""
        if self.code == UNKNOWN:
            return self.text
        name = "another schema" if self.code == OTHER_SCHEMA else f"error {self.code}"
        return f"{name}: {self.text}"


#: The code of a failure that is no error reply: the node has another schema.
OTHER_SCHEMA: Final = -1
#: That of a failure in a store of a version before, whose text says the code.
UNKNOWN: Final = 0
#: A node, and the report or the failure that came from it.
Reply = tuple[int, bytes | None, Failure | None]


def _columns(failure: Failure | None) -> tuple[str | None, int]:
    return (None, UNKNOWN) if failure is None else (failure.text, failure.code)


class RunStore:
    """Salt, census and every reply of one run, in an SQLite file, or in memory without a path."""

    #: Number of the first step; those on the wire follow it, so that parts ask other questions.
    first = 0
    _prefix = ""  # of the names of facts, empty without parts

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
            if "code" not in {name for _, name, *_ in columns}:  # of a version before
                self._connection.execute("ALTER TABLE reply ADD COLUMN code INTEGER DEFAULT 0")
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

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Raise ValueError that says that the file is damaged if ``what`` cannot be read."""
        try:
            yield
        except sqlite3.OperationalError:  # such as a lock: it says nothing of what is in the file
            raise
        except (sqlite3.DatabaseError, ValueError) as error:
            raise ValueError(_DAMAGED.format(self.path, f"{what}: {error}".rstrip("."))) from error

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
            self._connection.execute("DELETE FROM answer WHERE step BETWEEN ? AND ?", own)

    def get(self, name: str) -> Any:
        """Return a stored fact, or None."""
        query = "SELECT value FROM fact WHERE name = ?"
        with self.reading(name):
            row = self._connection.execute(query, (self._prefix + name,)).fetchone()
            return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Any) -> None:
        """Store a fact."""
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO fact VALUES (?, ?)",
                (self._prefix + name, json.dumps(value)),
            )

    def replies(self, step: int) -> dict[int, tuple[bytes | None, Failure | None]]:
        """Return, per node, the report of a step or why there is none."""
        with self.reading(f"replies of step {step}"):
            rows = self._connection.execute(
                "SELECT node, content, error, code FROM reply WHERE step = ? ORDER BY rowid",
                (self.first + step,),
            )
            return {
                int(node): (content, None if error is None else Failure(code, error))
                for node, content, error, code in rows
            }

    def last_step(self) -> int:
        """Return the last step that has a report; -1 without any."""
        last = "SELECT MAX(step) FROM reply WHERE content IS NOT NULL AND step BETWEEN ? AND ?"
        own = self.first, self.first + PART_STEPS - 1
        with self.reading("the last step"):
            (step,) = self._connection.execute(last, own).fetchone()
        return -1 if step is None else int(step) - self.first

    def add_replies(self, step: int, replies: Iterable[Reply]) -> None:
        """Store reports or errors as they arrive; the first report of a node counts."""
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
        """Keep what all reports of a step that is over come to, in their place."""
        at = self.first + step
        with self._connection:
            if self.path is not None:  # what is in memory is never read again
                row = at, content, json.dumps(counts)
                self._connection.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?)", row)
            self._connection.execute(
                "UPDATE reply SET content = x'' WHERE step = ? AND content IS NOT NULL", (at,)
            )

    def condensed(self, step: int) -> tuple[bytes, Any] | None:
        """Return what :meth:`condense` has kept of a step, if it has."""
        query, at = "SELECT content, counts FROM answer WHERE step = ?", (self.first + step,)
        longest = "SELECT MAX(LENGTH(content)) FROM reply WHERE step = ?"
        with self.reading(f"the answer of step {step}"):
            if (row := self._connection.execute(query, at).fetchone()) is not None:
                return row[0], json.loads(row[1])
            complete = self.get(f"step {step} complete")  # and then somebody has answered it
            if complete and not self._connection.execute(longest, at).fetchone()[0]:
                raise ValueError("it is not there")
        return None


_MAX_CHARS_SHOWN = 60  # characters of a parameter that a message shows

_NONE = ("", "nothing")

#: The hash of a parameter, and what people are shown of it.
Print = tuple[str, str]


def printed(value: object) -> Print:
    """Return the SHA-256 of a parameter's whole content, and a short description.

    Numbers are the same if they are equal, whatever their type, and so are lists and tuples; arrays
    if types, shapes and bytes are; other objects if they are of one class and hold the same. Raise
    ValueError of what cannot be compared, such as a function.
    """
    found = hashlib.sha256(_encoded(value)).hexdigest()
    if isinstance(value, np.ndarray):
        return found, f"{value.dtype} array of shape {value.shape}, SHA-256 {found[:8]}..."
    text = f"{plain(value)!r}"
    if len(text) > _MAX_CHARS_SHOWN:
        text = f"{text[:_MAX_CHARS_SHOWN]}... (SHA-256 {found[:8]}...)"
    return found, text


def recognise(store: RunStore, kind: type, parameters: Mapping[str, Print | str]) -> None:
    """Make a new store one of this strategy's runs, or check that it is, by all parameters' prints.

    Raise ValueError if it is another run's, naming what differs, or a parameter has no print.
    """
    expected = f"Expected a store of {kind.__name__}"
    for name, found in parameters.items():
        if isinstance(found, str):
            raise ValueError(
                f"Expected parameters that a store can identify a run by, got {name}: {found}."
            )
    kept = store.get("protocol")
    if kept is None:
        store.put("protocol", {"class": _name(kind), "parameters": parameters})
        return
    if not isinstance(kept, dict):
        raise ValueError(f"{expected}, got one that another version of ldp-flower has written.")
    if kept["class"] != _name(kind):
        raise ValueError(f"{expected}, got one of {kept['class']}.")
    theirs = kept["parameters"]
    others = [
        f"{name} = {theirs.get(name, _NONE)[1]}, here {parameters.get(name, _NONE)[1]}"
        for name in dict.fromkeys((*theirs, *parameters))
        if theirs.get(name, _NONE)[0] != parameters.get(name, _NONE)[0]
    ]
    if others:
        raise ValueError(f"{expected} with the same parameters, got one with {'; '.join(others)}.")


def prints_of(strategy: object) -> dict[str, Print | str]:
    """Return the print of every parameter of a strategy, or the reason why it has none.

    Raise ValueError if it has a constructor of its own, whose arguments nobody knows.
    """
    for kind in type(strategy).__mro__:
        if "__dataclass_fields__" in vars(kind):
            break
        if "__init__" in vars(kind):
            raise ValueError(
                f"Expected {kind.__name__} to be a dataclass: a store knows a run by its fields."
            )
    prints: dict[str, Print | str] = {}
    for field in fields(strategy):  # type: ignore[arg-type]
        try:
            prints[field.name] = printed(getattr(strategy, field.name))
        except ValueError as error:
            prints[field.name] = str(error)
    return prints


def _encoded(value: Any) -> bytes:
    """Return bytes that are the same for what counts as the same value, and for no other."""
    value = plain(value)
    if value is None or isinstance(value, bool | str | bytes):
        kind = next(kind for kind in (str, bytes, object) if isinstance(value, kind))
        return _joined(kind.__name__, value if isinstance(value, bytes) else str(value))
    if isinstance(value, int | float):
        finite = isinstance(value, int) or math.isfinite(value)
        return _joined("number", str(value.as_integer_ratio() if finite else value))
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _joined("array", value.dtype.str, str(value.shape), value.tobytes())
    if isinstance(value, ArrayRecord | ConfigRecord):
        return _joined("records", digest(RecordDict({"": value})))
    if isinstance(value, Mapping):
        # In order, which means something where the columns of a table are named.
        pairs = [_encoded(part) for pair in value.items() for part in pair]
        return _joined("mapping", *pairs)
    if isinstance(value, Set):
        return _joined("set", *sorted(map(_encoded, value)))
    if isinstance(value, list | tuple):
        return _joined("sequence", *map(_encoded, value))
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        return _joined("object", _name(type(value)), _encoded(held))
    raise ValueError(f"Cannot compare one {type(value).__name__} with another")


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _joined(*parts: str | bytes) -> bytes:
    """Return the parts with their lengths, so that no two lists of parts are the same bytes."""
    contents = [p.encode("utf-8", "surrogatepass") if isinstance(p, str) else p for p in parts]
    return b"".join(b"%d:%b" % (len(content), content) for content in contents)
