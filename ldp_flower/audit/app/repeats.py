"""Noise that is the same twice: in two rounds, at the same time, after a restart."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
from flwr.app import ArrayRecord, Message

from .compared import Runs, stacked
from .findings import Finding
from .node import Node
from .replies import Floats, Seen
from .variants import BASE

_SAME = 1e-4  # of the noise's spread
_LONG = 8  # integers that are not the same by chance
_FROZEN = 4  # runs with the clock standing still


def between_rounds(node: Node, base: Runs) -> Iterator[Finding]:
    """Yield arrays with the same noise in two messages of a run, though what is sent differs."""
    if len(base) < 4:
        return
    told = set()
    for two in range(1, len(node.messages)):
        for one in range(two):
            kind = node.messages[two].metadata.message_type
            if kind != node.messages[one].metadata.message_type or kind in told:
                continue
            for path in base[0][two].numbers:
                first, second = _update(node, base, one, path), _update(node, base, two, path)
                if first is None or second is None or first.shape != second.shape:
                    continue
                spread = first.std(axis=0)
                apart = second - first
                tiny = 1e-7 * np.abs(first).max(axis=0)
                noisy = (spread > tiny) & (spread > 0)
                same = noisy & (apart.std(axis=0) < _SAME * spread)
                moved = np.abs(apart.mean(axis=0)) > 10 * _SAME * spread
                if same.any() and (same & moved).any():
                    told.add(kind)
                    yield Finding(
                        "noise is used again",
                        f"{kind}: {path}, messages {one + 1} and {two + 1}",
                        f"the difference of {int(same.sum()):,} numbers is free of noise: it is "
                        f"{apart.mean(axis=0)[same & moved][0]:.6g} on all of {len(base)} runs, "
                        f"where noise has a spread of {spread[same & moved][0]:.3g}",
                    )
                    break


def _update(node: Node, base: Runs, number: int, path: str) -> Floats | None:
    """Return what replies add to what was sent, shape (runs, numbers)."""
    rows = stacked([run[number] for run in base], path)
    sent = _sent(node.messages[number], path)
    if rows is None or sent is None or rows.shape[1] != sent.size:
        return rows
    return rows - sent


def _sent(message: Message, path: str) -> Floats | None:
    _, _, key = path.partition("/")
    for record in message.content.values():
        if isinstance(record, ArrayRecord) and key in record:
            array = record[key].numpy()
            if array.dtype.kind in "fiub":
                return np.asarray(array, np.float64).ravel()
    return None


def with_the_clock(node: Node, base: Runs) -> Iterator[Finding]:
    """Yield numbers that vary from run to run, and do not where the clock stands still."""
    moving = set(varying(base))
    if not moving:
        return

    def stood_still(answers: Any) -> Runs:
        found = []
        for _ in range(_FROZEN):
            with _standing_clock():
                found.append(answers())
        return found

    frozen = node.run(BASE, stood_still)
    still = moving - set(varying(frozen))
    told = set()
    for number, path in sorted(still):
        kind = node.messages[number].metadata.message_type
        rows = stacked([run[number] for run in base], path)
        if (kind, path) in told or rows is None:
            continue
        if stacked([run[number] for run in frozen], path) is None:
            continue
        if few_valued([run[number] for run in base], path):
            continue
        told.add((kind, path))
        is_one = rows.shape[1] == 1
        yield Finding(
            "a clock's reading is sent" if is_one else "noise comes from the clock",
            f"{kind}: {path}",
            f"it varies ({rows[0, 0]:.6g}, {rows[1, 0]:.6g}), and does not on {_FROZEN} runs with "
            "the clock standing still"
            + (": how long work takes depends on data" if is_one else ""),
        )


def few_valued(replies: Sequence[Seen], path: str) -> bool:
    """Whether a reply's numbers are so few that they may be the same by chance."""
    rows = stacked(replies, path)
    if rows is None:
        return True
    if np.array_equal(rows, np.round(rows)):
        return rows.shape[1] < _LONG
    distinct = len({row.tobytes() for row in rows})
    return distinct * 4 < len(rows) * 3 and len(np.unique(rows)) < 2 * distinct


def varying(runs: Runs) -> Iterator[tuple[int, str]]:
    """Yield messages and paths whose numbers are not the same on all runs."""
    for number in range(len(runs[0])):
        for path in runs[0][number].numbers:
            rows = stacked([run[number] for run in runs], path)
            if rows is not None and (rows != rows[0]).any():
                yield number, path


@contextmanager
def _standing_clock() -> Iterator[None]:
    names = ("time", "monotonic", "perf_counter", "process_time")
    with ExitStack() as stack:
        for name in names:
            at = getattr(time, name)()
            if name == "time":
                at = _MIDNIGHT
            stack.enter_context(mock.patch.object(time, name, lambda at=at: at))
            stack.enter_context(
                mock.patch.object(time, f"{name}_ns", lambda at=at: int(at * 1_000_000_000))
            )
        yield


_MIDNIGHT = float(int(time.time()))
