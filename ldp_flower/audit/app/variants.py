"""Neighbouring data: variants of a node's data with changes of one record or of all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .data_forms import Alter, Array, Column, altered

_OTHERS = 30  # number of records that are changed one at a time, in addition to the first

_Change = Callable[[Array], Array]


@dataclass(frozen=True)
class Variant:
    """Version of a node's data to attack with: ``alter`` changes each of its columns and arrays."""

    name: str
    alter: Alter | None = field(default=None, compare=False)
    record: int = 0  # index of the changed record; 0 also if several records are changed

    def of(self, value: Any) -> Any:
        """Return a loader's result ``value``, changed as this variant changes the data."""
        return value if self.alter is None else altered(value, self.alter)

    def neighbours(self, other: "Variant") -> bool:
        """Return True if this variant and ``other`` differ in one unit's data, as a claim assumes.

        The unit is a record or a node.
        """
        return BASE in (self, other) or self.record == other.record


BASE = Variant("the data as they are")


def variants(unit: str, count: int) -> list[Variant]:
    """Return neighbouring variants of ``count`` records for a unit.

    For the unit ``record``, only one record is changed: the first, in several ways, or another one,
    since an app may not use its first record. For ``node``, there are also changes of all data.
    """
    scales = {f"times {by:,}": _scaled(by) for by in (1000, -1000)}
    of_one = {"turned over": _mirrored, **scales}
    found = [Variant(f"record 1 {how}", _all(_one(change))) for how, change in of_one.items()]
    if unit == "record":
        which = {round(i) for i in np.linspace(1, count - 1, max(min(count - 1, _OTHERS), 0))}
        return found + [
            Variant(f"record {i + 1} far off", _all(_one(_far_off, i)), i) for i in sorted(which)
        ]
    of_all: dict[str, Alter] = {
        "one record fewer": _all(lambda a: a[1:] if len(a) > 1 else a),
        "half of the records": _all(lambda a: a[: (len(a) + 1) // 2]),
        "all records turned over": _all(_mirrored),
        "all records like the last": _all(lambda a: np.repeat(a[-1:], len(a), axis=0)),
        "features turned over": _all(lambda a: a if _is_label(a) else _mirrored(a)),
        "labels turned over": _labels(_mirrored),
        "all labels the smallest": _labels(_same(0.0)),
        "all labels the middle one": _labels(_same(0.5)),
        "all labels the largest": _labels(_same(1.0)),
    }
    for how, change in {**scales, "0": _scaled(0)}.items():
        of_all |= {f"all records {how}": _all(change), f"targets {how}": _targets(change)}
        of_all[f"first column {how}"] = _column(change, 0)
    return [*found, *(Variant(name, alter) for name, alter in of_all.items())]


def _all(change: _Change) -> Alter:
    return lambda array, place: change(array) if len(array) else array


def _labels(change: _Change) -> Alter:
    return lambda array, place: change(array) if len(array) and _is_label(array) else array


def _column(change: _Change, which: int) -> Alter:
    """Return a function that applies ``change`` to one column only.

    The column is the first one (``which`` 0) or the last one (-1).
    """

    def alter(array: Array, place: Column) -> Array:
        if place is not None:
            return change(array) if place[0] == which % place[1] else array
        if array.ndim != 2 or not array.size:
            return array
        made = array.copy()
        made[:, which] = change(array[:, which])
        return made

    return alter


def _targets(change: _Change) -> Alter:
    """Return a function that applies ``change`` to what may be targets.

    These are the last column of a table, and arrays of one dimension.
    """
    last = _column(change, -1)
    return lambda array, place: last(array, place) if place or array.ndim > 1 else change(array)


def _one(change: _Change, which: int = 0) -> _Change:
    def changed(array: Array) -> Array:
        if len(array) <= which:
            return array
        made = array.copy()
        made[which] = change(array)[which]
        return made

    return changed


def _is_continuous(array: Array) -> bool:
    if array.dtype.kind != "f":
        return False
    finite = array[np.isfinite(array)]
    return bool(len(finite)) and not np.array_equal(finite, np.round(finite))


def _is_label(array: Array) -> bool:
    return array.ndim == 1 and not _is_continuous(array)


def _mirrored(array: Array) -> Array:
    """Return a column's values, mirrored at the middle of their range."""
    if array.dtype.kind not in "fiub":
        places = np.unique(array.astype(str), return_inverse=True)[1]
        first = np.unique(places, return_index=True)[1]  # a value of each kind
        return np.asarray(array[first[places.max() - places]])
    if array.dtype.kind == "b":
        return ~array
    with np.errstate(all="ignore"):
        low, high = np.nanmin(array, axis=0), np.nanmax(array, axis=0)
        # If all records are equal, there is no range, and the sign is changed instead.
        flat = np.array_equal(low, high) and array.dtype.kind != "u"
        return np.asarray(-array if flat else low + high - array, array.dtype)


def _same(rank: float) -> _Change:
    """Return a change that replaces all values by the value with a relative rank.

    The rank 0 stands for the smallest value, and 1 for the largest.
    """

    def changed(array: Array) -> Array:
        known = np.unique(array)
        return np.full_like(array, known[round(rank * (len(known) - 1))])

    return changed


def _scaled(by: int) -> _Change:
    return lambda a: np.asarray(a * a.dtype.type(by)) if _is_continuous(a) else a


def _far_off(array: Array) -> Array:
    return _scaled(-1000)(array) if _is_continuous(array) else _mirrored(array)
