"""Records in the place of those that Flower's example apps download."""

import string
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from ...harness.adult import a9a

_HELD, _UNSEEN = 10_000, 1_000  # records of all silos together, and of nobody
_SIDE, _ZOOM, _LOUDEST = 8, 3, 16.0  # of a digit; each pixel becomes 3 x 3; of a pixel
#: As many characters as the app's; all others are the last one.
ALPHABET = string.ascii_letters + string.digits + " \n-\"_.,=()*:'[]>+" + "\0"
LENGTH = 20  # characters of a record, the app's have 80

Array = NDArray[Any]


class Records(NamedTuple):
    """Records that silos hold, with their targets, and some that nobody holds."""

    held: Array
    goals: Array
    unseen: Array
    answers: Array


def images(side: int, channels: int, seed: int) -> Records:
    """Return digits, enlarged and moved by a pixel; images of one are all held or all unseen."""
    pixels, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    ours, others = np.split(rng.permutation(len(pixels)), [len(pixels) * 4 // 5])
    size = _ZOOM * _SIDE

    def drawn(own: Array, number: int) -> tuple[Array, Array]:
        chosen = rng.choice(own, number)
        found = np.zeros((number, channels, side, side), np.float32)
        starts = (side - size) // 2 + rng.integers(-1, 2, (number, 2))
        for image, row, (down, across) in zip(found, pixels[chosen], starts, strict=True):
            zoomed = np.kron(row.reshape(_SIDE, _SIDE), np.ones((_ZOOM, _ZOOM))) / _LOUDEST
            image[:, down : down + size, across : across + size] = zoomed
        return found, labels[chosen].astype(np.int64)

    return Records(*drawn(ours, _HELD), *drawn(others, _UNSEEN))


def themselves(side: int, seed: int) -> Records:
    """Return images as rows of pixels, which are their own targets."""
    found = images(side, 1, seed)
    held, unseen = (each.reshape(len(each), -1) for each in (found.held, found.unseen))
    return Records(held, held, unseen, unseen)


def adults(folder: Path | None, seed: int) -> Records:
    """Return rows of Adult, and whether they earn more than 50,000 dollars."""
    rows, rich = a9a(folder)
    order = np.random.default_rng(seed).permutation(len(rows))
    ours, others = order[:_HELD], order[_HELD : _HELD + _UNSEEN]
    features, goals = rows.astype(np.float32), rich.astype(np.float32)
    return Records(features[ours], goals[ours], features[others], goals[others])


def characters(seed: int) -> Records:
    """Return pieces of Python's manual, and the character after each."""
    text = "".join(topics[name] for name in sorted(topics))
    known = {character: code for code, character in enumerate(ALPHABET)}
    codes = np.array([known.get(each, len(ALPHABET) - 1) for each in text])
    rng = np.random.default_rng(seed)
    end = len(codes) * 4 // 5  # nobody holds what is behind it

    def drawn(first: int, last: int, number: int) -> tuple[Array, Array]:
        starts = rng.integers(first, last - LENGTH, number)
        rows = codes[starts[:, None] + np.arange(LENGTH + 1)]
        return rows[:, :-1].copy(), rows[:, -1].copy()

    return Records(*drawn(0, end, _HELD), *drawn(end, len(codes), _UNSEEN))
