"""Neighbouring data: what a node, or one record of it, might have held instead."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import Alter, altered

Array = NDArray[Any]


@dataclass(frozen=True)
class Variant:
    """Data of one node.

    Attributes
    ----------
    name : str
        What it is, in words.
    alter : callable or None
        What is done with each column or array; None: the data as they are.
    partition : int
        Whose data they are.
    valid : bool
        Whether an app may be expected to take them: NaN and no records are not.
    """

    name: str
    alter: Alter | None = field(default=None, compare=False)
    partition: int = 0
    valid: bool = True

    def of(self, value: Any) -> Any:
        """Return what a loader would have returned, had these been the data."""
        return value if self.alter is None else altered(value, self.alter)


BASE = Variant("the data as they are")


def variants(unit: str, others: bool) -> list[Variant]:
    """Return neighbours of the data as they are.

    Parameters
    ----------
    unit : str
        ``node``: anything may be other; ``record``: one record, and their number is public.
    others : bool
        Whether another node's data are other.
    """
    found = [
        Variant("record 1 turned over", _one(_mirrored)),
        Variant("record 1 at the largest values", _one(_largest)),
        Variant("record 1 times 1,000", _one(_scaled)),
        Variant("record 1 times -1,000", _one(lambda a: _scaled(a, -1000))),
    ]
    if unit == "record":
        return found
    return [
        *found,
        Variant("one record fewer", _only_more_than_one(lambda a: a[1:])),
        Variant("half of the records", _only_more_than_one(lambda a: a[: (len(a) + 1) // 2])),
        Variant("all records turned over", _mirrored),
        Variant("labels turned over", _if(_is_label, _mirrored)),
        Variant("all labels the smallest", _if(_is_label, _same(0.0))),
        Variant("all labels the largest", _if(_is_label, _same(1.0))),
        Variant("all labels the middle one", _if(_is_label, _same(0.5))),
        Variant("features turned over", _if(lambda a: not _is_label(a), _mirrored)),
        Variant("all records like the last", _alike),
        Variant("all records times 1,000", _scaled),
        *([Variant("another node's data", None, partition=1)] if others else []),
        Variant("record 1 is not a number", _one(_nan), valid=False),
        Variant("record 2 is not a number", _one(_nan, 1), valid=False),
        Variant("no records", lambda a: a[:0], valid=False),
    ]


def _one(alter: Alter, which: int = 0) -> Alter:
    def changed(array: Array) -> Array:
        if len(array) <= which:
            return array
        made = array.copy()
        made[which] = alter(array)[which]
        return made

    return changed


def _if(condition: Callable[[Array], bool], alter: Alter) -> Alter:
    return lambda array: alter(array) if condition(array) else array


def _only_more_than_one(alter: Alter) -> Alter:
    return lambda array: alter(array) if len(array) > 1 else array


def _is_label(array: Array) -> bool:
    """Whether this looks like answers to learn, not like what they are learnt from."""
    return array.ndim == 1 and not _is_continuous(array)


def _is_continuous(array: Array) -> bool:
    if array.dtype.kind != "f":
        return False
    finite = array[np.isfinite(array)]
    return bool(len(finite)) and not np.array_equal(finite, np.round(finite))


def _mirrored(array: Array) -> Array:
    """Return values mirrored in the range of their column, so that they stay in it."""
    if not len(array):
        return array
    if array.dtype.kind not in "fiub":
        values, places = np.unique(array.astype(str), return_inverse=True)
        order = {place: array[places == place][0] for place in range(len(values))}
        made = array.copy()
        for i, place in enumerate(places):
            made[i] = order[len(values) - 1 - int(place)]
        return made
    if array.dtype.kind == "b":
        return ~array
    with np.errstate(all="ignore"):
        low, high = np.nanmin(array, axis=0), np.nanmax(array, axis=0)
        flat = np.array_equal(low, high)
        # One record, or records that are all alike, have no range to stay in.
        turned = (-array if array.dtype.kind != "u" else array) if flat else low + high - array
        return np.asarray(turned, array.dtype)


def _largest(array: Array) -> Array:
    if array.dtype.kind not in "fiu" or not len(array):
        return array
    return np.broadcast_to(np.nanmax(array, axis=0), array.shape).astype(array.dtype)


def _same(rank: float) -> Alter:
    """Return a change after which all values are the same, by its rank from 0 to 1."""

    def changed(array: Array) -> Array:
        if not len(array):
            return array
        ordered = array if array.dtype.kind in "fiub" else array.astype(str)
        _, first = np.unique(ordered, return_index=True)
        return np.full_like(array, array[first[round(rank * (len(first) - 1))]])

    return changed


def _alike(array: Array) -> Array:
    if not len(array):
        return array
    # The same record of every column, since all have to agree on it: the last.
    return np.repeat(array[-1:], len(array), axis=0)


def _scaled(array: Array, by: int = 1000) -> Array:
    return np.asarray(array * array.dtype.type(by)) if _is_continuous(array) else array


def _nan(array: Array) -> Array:
    return np.full_like(array, np.nan) if array.dtype.kind == "f" else array
