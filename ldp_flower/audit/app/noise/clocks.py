"""Readings of clocks, and noise that is made of one: what stands still when the clock does."""

import datetime
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from ...entering import replaced
from ..compared import Runs, stacked
from ..data.variants import BASE
from ..findings import Finding
from ..node import Node
from ..replies import Seen
from .repeats import SELDOM, same_by_chance, varying

_FROZEN = 4  # runs with the clock standing still
_GROWING = 10  # runs on all of which a clock that does not stand still goes on
_DAYS = 1e7  # seconds by which it is set forward
_MIDNIGHT = float(int(time.time()))
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")


def with_the_clock(node: Node, base: Runs) -> Iterator[Finding]:
    """Yield numbers that vary from run to run, and do not where the clock stands still."""
    yield from _set_forward(node, base)
    moving = set(varying(base))
    if not moving:
        return
    yield from _growing(node, base)
    moving = {(n, path) for n, path in moving if (_kind(node, n), path) not in node.clocks}

    def stood_still(answers: Any) -> Runs:
        found = []
        for _ in range(_FROZEN):
            with _standing_clock(node.modules):
                found.append(answers())
        return found

    frozen = node.run(BASE, stood_still)
    still = moving - set(varying(frozen))
    told = set()
    for number, path in sorted(still):
        kind = _kind(node, number)
        rows = stacked([run[number] for run in base], path)
        if (kind, path) in told or rows is None:
            continue
        if stacked([run[number] for run in frozen], path) is None:
            continue
        if same_by_chance([run[number] for run in base], path) ** (_FROZEN - 1) > SELDOM:
            continue
        told.add((kind, path))
        is_one = int((rows != rows[0]).any(axis=0).sum()) == 1 and path.split("/")[
            0
        ] not in _arrays(base[0][number])
        if is_one:
            node.clocks.add((kind, path))
        yield Finding(
            "a clock's reading is sent" if is_one else "noise comes from the clock",
            f"{kind}: {path}",
            f"it varies ({rows[0, 0]:.6g}, {rows[1, 0]:.6g}), and does not on {_FROZEN} runs with "
            "the clock standing still"
            + (": how long work takes may depend on data" if is_one else ""),
            counts=not is_one,
        )


def _arrays(reply: Seen) -> set[str]:
    """Return names of a reply's records of arrays."""
    records: Any = reply.form.get("records", ())
    return {name for name, kind in records if kind == "ArrayRecord"}


def _set_forward(node: Node, base: Runs) -> Iterator[Finding]:
    """Yield single numbers that are those of another day if the clock is set to one."""

    def at(offset: float) -> Runs:
        def answered(answers: Any) -> Runs:
            with _standing_clock(node.modules, offset):
                return [answers()]

        runs: Runs = node.run(BASE, answered)
        return runs

    now, later = at(0.0)[0], at(_DAYS)[0]
    for number, (before, after) in enumerate(zip(now, later, strict=True)):
        kind = _kind(node, number)
        for path, values in before.numbers.items():
            other = after.numbers.get(path)
            if (kind, path) in node.clocks or path.split("/")[0] in _arrays(base[0][number]):
                continue
            if other is None or other.shape != (1,) or values.shape != (1,):
                continue
            if other[0] - values[0] > 0.9 * _DAYS:
                node.clocks.add((kind, path))
                yield Finding(
                    "a clock's reading is sent",
                    f"{kind}: {path}",
                    f"{values[0]:.6g} became {other[0]:.6g} with the clock set forward",
                    counts=False,
                )


def _growing(node: Node, base: Runs) -> Iterator[Finding]:
    """Yield numbers that grow from run to run, whatever the data are: clocks of other kinds."""
    suspects = set(_grows(base))
    if not suspects:
        return
    suspects &= set(_grows(node.runs(BASE, _GROWING)))
    for number, path in sorted(suspects):
        kind = _kind(node, number)
        if (kind, path) not in node.clocks:
            node.clocks.add((kind, path))
            yield Finding(
                "a clock's reading is sent",
                f"{kind}: {path}",
                f"it grows from run to run, on all of {_GROWING}",
                counts=False,
            )


def _grows(runs: Runs) -> Iterator[tuple[int, str]]:
    for number, path in varying(runs):
        rows = stacked([run[number] for run in runs], path)
        if rows is None or path.split("/")[0] in _arrays(runs[0][number]):
            continue
        moving = rows[:, (rows != rows[0]).any(axis=0)]
        if moving.shape[1] == 1 and (np.diff(moving[:, 0]) > 0).all():
            yield number, path


def _kind(node: Node, number: int) -> str:
    return str(node.messages[number].metadata.message_type)


@contextmanager
def _standing_clock(modules: Sequence[ModuleType], offset: float = 0.0) -> Iterator[None]:
    """Let clocks stand still, under whatever name the app has them."""
    with ExitStack() as stack:
        for name in _CLOCKS:
            at = _MIDNIGHT + offset if name == "time" else getattr(time, name)()
            for full, reading in ((name, at), (f"{name}_ns", int(at * 1_000_000_000))):
                true = getattr(time, full)
                still = lambda reading=reading: reading  # noqa: E731
                stack.enter_context(mock.patch.object(time, full, still))
                _imported(stack, modules, true, still)
        days = datetime.datetime
        still_days = type("Still", (_Still,), {"at": _MIDNIGHT + offset})
        stack.enter_context(replaced(datetime, datetime=still_days))
        _imported(stack, modules, days, still_days)
        yield


def _imported(stack: ExitStack, modules: Sequence[ModuleType], true: Any, still: Any) -> None:
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is true:
                stack.enter_context(replaced(module, **{name: still}))


class _Still(datetime.datetime):
    """A date of which it is always the same."""

    at = _MIDNIGHT

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return datetime.datetime.fromtimestamp(cls.at, tz)

    @classmethod
    def utcnow(cls) -> Any:
        return datetime.datetime.fromtimestamp(cls.at, datetime.UTC).replace(tzinfo=None)
