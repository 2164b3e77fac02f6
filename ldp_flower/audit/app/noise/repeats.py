"""Noise that is the same twice: in two rounds, after a restart."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, Message
from numpy.typing import NDArray

from ....validation import Floats
from ..compared import Runs, stacked
from ..data.variants import BASE
from ..findings import Finding
from ..node import Node
from ..replies import Seen

_SAME = 1e-4  # of the noise's spread
_FEWEST = 4  # runs of which the same noise is looked for
_CONFIRMING = 24  # and others that confirm it
_LONG = 8  # integers that are not the same by chance
SELDOM = 1e-4  # probability below which noise that is the same is not so by chance
_OF_A_CONTINUUM = 2.0**-20  # probability that two numbers with digits behind the point are the same


def between_rounds(node: Node, base: Runs) -> Iterator[Finding]:
    """Yield arrays with the same noise in two messages of a run, though what is sent differs."""
    if len(base) < _FEWEST:
        return
    suspects = list(_again(node, base))
    if not suspects:
        return
    # Numbers of few values may be the same by chance on few runs.
    confirmed = {(f.kind, f.path, f.one, f.two) for f in _again(node, node.runs(BASE, _CONFIRMING))}
    told = set()
    for found in suspects:
        key = (found.kind, found.path, found.one, found.two)
        if key in confirmed and found.kind not in told:
            told.add(found.kind)
            yield Finding(
                "noise is used again",
                f"{found.kind}: {found.path}, messages {found.one + 1} and {found.two + 1}",
                f"{found.how_many:,} numbers together are free of noise: it is "
                f"{found.fixed:.6g} on all of {len(base) + _CONFIRMING} runs, "
                f"where noise has a spread of {found.spread:.3g}",
                bare=True,
            )


@dataclass(frozen=True)
class _Again:
    """Noise of one message that another one's takes away."""

    kind: str
    path: str
    one: int
    two: int
    how_many: int
    fixed: float
    spread: float


def _again(node: Node, runs: Runs) -> Iterator[_Again]:
    for two in range(1, len(node.messages)):
        for one in range(two):
            kind = node.messages[two].metadata.message_type
            if kind != node.messages[one].metadata.message_type:
                continue
            for path in runs[0][two].numbers:
                first, second = _update(node, runs, one, path), _update(node, runs, two, path)
                if first is None or second is None or first.shape != second.shape:
                    continue
                spread = first.std(axis=0)
                apart = second - first
                if (second + first).std(axis=0).sum() < apart.std(axis=0).sum():
                    apart = second + first  # noise that is taken back
                tiny = 1e-7 * np.abs(first).max(axis=0)
                noisy = (spread > tiny) & (spread > 0)
                same = noisy & (apart.std(axis=0) < _SAME * spread)
                same &= np.abs(apart.mean(axis=0)) > 10 * _SAME * spread
                # Of few values, one of many numbers may be the same by chance.
                distinct = np.array([len(np.unique(column)) for column in first[:, same].T])
                if (distinct > len(first) / 2).any() or 2 * same.sum() > max(noisy.sum(), _LONG):
                    which = int(np.argmax(same))
                    yield _Again(
                        kind, path, one, two, int(same.sum()),
                        float(apart.mean(axis=0)[which]), float(spread[which]),
                    )  # fmt: skip


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


def same_by_chance(replies: Sequence[Seen], path: str) -> float:
    """Return the probability that two runs send the same noisy numbers, as far as these tell."""
    rows = stacked(replies, path)
    if rows is None:
        return 1.0
    rows = rows[:, (rows != rows[0]).any(axis=0)]
    pairs = len(rows) * (len(rows) - 1) / 2
    chance = 1.0
    for column in rows.T:
        alike = _pairs_alike(np.unique(column, return_counts=True)[1])
        drawn_evenly = alike == 0 and not np.array_equal(column, np.round(column))
        chance *= _OF_A_CONTINUUM if drawn_evenly else (alike + 1) / (pairs + 1)
    # Numbers may vary together, such as those of one of few words.
    together = _pairs_alike(np.array(list(Counter(row.tobytes() for row in rows).values())))
    return max(chance, together / pairs)


def _pairs_alike(counts: NDArray[np.int64]) -> float:
    return float((counts * (counts - 1) / 2).sum())


def varying(runs: Runs) -> Iterator[tuple[int, str]]:
    """Yield messages and paths whose numbers are not the same on all runs."""
    for number in range(len(runs[0])):
        for path in runs[0][number].numbers:
            rows = stacked([run[number] for run in runs], path)
            if rows is not None and (rows != rows[0]).any():
                yield number, path
