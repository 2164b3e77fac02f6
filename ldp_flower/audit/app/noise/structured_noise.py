"""Detect quantised noise, and noise that is shared between coordinates."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from ....validation import Floats
from ..compared import stacked
from ..data.variants import Variant
from ..findings import Finding
from ..node import Node
from ..replies import Seen
from .moments import vector

_SAME = 1e-4  # of the noise's spread
_FEWEST = 8  # runs that show steps
_CONFIRMING = 40  # and others that confirm it
_LOOKED_AT = 200  # numbers of an array that are looked at for steps
_PARTS = 4  # steps that may lie between two that were drawn
_OF_A_STEP = 1e-5  # what rounding leaves


def gaps(node: Node, data: Sequence[Variant], how_many: int) -> Iterator[Finding]:
    """Yield what noise leaves bare in runs on data sets, once for each type of message."""
    found = _gaps(node, data, how_many)
    if not found:
        return
    # Numbers of few values lie in steps by chance on few runs.
    again = _gaps(node, data, _CONFIRMING)
    yield from (finding for key, finding in found.items() if key in again)


def _gaps(node: Node, data: Sequence[Variant], how_many: int) -> dict[tuple[str, str], Finding]:
    found: dict[tuple[str, str], Finding] = {}
    for first, second in combinations([node.runs(variant, how_many) for variant in data], 2):
        for number, message in enumerate(node.messages):
            kind = message.metadata.message_type
            ours, theirs = ([run[number] for run in runs] for runs in (first, second))
            for finding in (*_shared(kind, ours, theirs), *_in_steps(kind, ours, theirs)):
                found.setdefault((finding.what, finding.where), finding)
    return found


def _shared(kind: str, ours: list[Seen], theirs: list[Seen]) -> Iterator[Finding]:
    """Yield numbers whose noise is the same, or evens out: differences or sums tell data."""
    one, two = _vectors(ours), _vectors(theirs)
    if one is None or two is None or one.shape[1] != two.shape[1]:
        return
    spread = np.minimum(one.std(axis=0), two.std(axis=0))
    noisy = np.flatnonzero(spread > 0)
    if len(noisy) < 2:
        return
    spread = spread[noisy]
    made = [rows[:, noisy] - rows[:, noisy[:1]] for rows in (one, two)]
    which = _bare(made[0][:, 1:], made[1][:, 1:], spread[1:])
    if which is not None:
        yield _told("numbers share their noise", f"{kind}: all numbers", "the difference of two",
                    made[0][0, 1 + which], made[1][0, 1 + which])  # fmt: skip
    for path in ours[0].numbers:
        first, second = stacked(ours, path), stacked(theirs, path)
        if first is None or second is None or first.shape != second.shape or first.shape[1] < 2:
            continue
        sums = [rows.sum(axis=1, keepdims=True) for rows in (first, second)]
        least = np.sqrt(
            np.minimum(*(rows.var(axis=0).sum(keepdims=True) for rows in (first, second)))
        )
        if least[0] > 0 and _bare(sums[0], sums[1], least) is not None:
            yield _told(
                "noise evens out", f"{kind}: {path}", "the sum", sums[0][0, 0], sums[1][0, 0]
            )


def _bare(one: Floats, two: Floats, spread: Floats) -> int | None:
    """Return which column has no noise on either data set, and tells them apart, if any."""
    fixed = np.maximum(one.std(axis=0), two.std(axis=0)) < _SAME * spread
    moved = np.abs(one.mean(axis=0) - two.mean(axis=0)) > 10 * _SAME * spread
    return int(np.argmax(fixed & moved)) if (fixed & moved).any() else None


def _told(what: str, where: str, of: str, one: float, two: float) -> Finding:
    return Finding(
        what,
        where,
        f"{of} of them is free of noise: {one:.6g} became {two:.6g} with other data",
        bare=True,
    )


def _in_steps(kind: str, ours: list[Seen], theirs: list[Seen]) -> Iterator[Finding]:
    """Yield numbers whose noise has steps, such as integers, and is added to what has none."""
    for path in ours[0].numbers:
        one, two = stacked(ours, path), stacked(theirs, path)
        if one is None or two is None or min(len(one), len(two)) < _FEWEST:
            continue
        one, two = one[:, :_LOOKED_AT], two[:, :_LOOKED_AT]
        if one.shape[1] != two.shape[1]:
            continue
        for column in range(one.shape[1]):
            first, second = one[:, column], two[:, column]
            step = _step(first)
            if not step or not _on_a_grid(second, step):
                continue
            apart = (second[0] - first[0]) / step
            rest = float(apart - np.round(apart)) * step
            if abs(rest) > 100 * _OF_A_STEP * step:
                yield Finding(
                    "noise in steps leaves what is between them",
                    f"{kind}: {path}",
                    f"all of {len(one)} runs are steps of {step:.6g} apart, and so are those on "
                    f"other data, {abs(rest):.6g} beside them",
                    bare=True,
                )
                return


def _step(values: Floats) -> float:
    """Return the step whose multiples values are apart; 0 if there is none."""
    found, counts = np.unique(values, return_counts=True)
    # Of two values any difference is one; few others lie on it by chance.
    if len(found) < 3 or counts.sum() - counts.max() < len(values) // 3:
        return 0.0
    least = float(np.diff(found).min())
    # Neighbouring steps may not have been drawn.
    steps = (least / part for part in range(1, _PARTS + 1))
    return next((step for step in steps if _on_a_grid(values, step)), 0.0)


def _on_a_grid(values: Floats, step: float) -> bool:
    apart = (values - values[0]) / step
    tiny = max(_OF_A_STEP, 1e-12 * float(np.abs(values).max()) / step)
    if tiny > 1e-3:
        return False
    return bool((np.abs(apart - np.round(apart)) < tiny).all() and np.abs(apart).max() > 0.5)


def _vectors(replies: Sequence[Seen]) -> Floats | None:
    """Return all numbers of replies, a row for each; None if they are not as many."""
    rows = [vector(reply) for reply in replies]
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else None
