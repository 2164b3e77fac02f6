"""Neighbouring data: what a node, or one record of it, might have held instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .places import Alter, Placed, in_tables, one_column
from .values import altered, digest

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
    against : Variant or None
        Data of the same kind, if an app is not expected to take these: its texts say the same.
    in_form : bool
        Whether an app that takes these all the same has no reason to reply in another form.
    record : int
        The number of the record that is other, where it is not the first.
    """

    name: str
    alter: Alter | None = field(default=None, compare=False)
    partition: int = 0
    valid: bool = True
    against: "Variant | None" = None
    in_form: bool = False
    record: int = 0

    def of(self, value: Any) -> Any:
        """Return what a loader would have returned, had these been the data."""
        return value if self.alter is None else altered(value, self.alter)

    def neighbours(self, other: "Variant") -> bool:
        """Whether two data sets differ in no more than one record, or in one node's data."""
        return BASE in (self, other) or self.record == other.record


BASE = Variant("the data as they are")


def variants(unit: str, others: bool, targets_alone: bool) -> list[Variant]:
    """Return neighbours of the data as they are.

    Parameters
    ----------
    unit : str
        ``node``: anything may be other; ``record``: one record, and their number is public.
    others : bool
        Whether another node's data are other.
    targets_alone : bool
        Whether some arrays have one dimension, as targets do; else one column may be these.
    """
    found = [
        Variant("record 1 turned over", _one(_mirrored)),
        Variant("record 1 at the largest values", _one(_largest)),
        Variant("record 1 times 1,000", _one(_scaled(1000))),
        Variant("record 1 times -1,000", _one(_scaled(-1000))),
    ]
    if unit == "record":
        return found
    nan = Variant("record 1 is not a number", _one(_nan), valid=False)
    far = Variant("record 1 far above all", in_tables(_one(_far(1))), valid=False)
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
        Variant("all records times 1,000", _scaled(1000)),
        Variant("all records times -1,000", _scaled(-1000)),
        *(_of_targets() if targets_alone else _of_columns()),
        *([Variant("another node's data", None, partition=1)] if others else []),
        nan,
        Variant("record 2 is not a number", _one(_nan, 1), valid=False, against=nan),
        far,
        Variant("record 1 farther above", in_tables(_one(_far(2))), valid=False, against=far),
        Variant("record 1 a large whole number", _one(_beyond), valid=False, in_form=True),
        Variant("no records", lambda a: a[:0], valid=False),
    ]


def other_records(count: int, most: int) -> list[Variant]:
    """Return neighbours that differ in one of some other records, of so many, each.

    An app may leave the first one aside, for its tests or by a draw that is known.
    """
    which = sorted({round(i) for i in np.linspace(1, count - 1, max(min(count - 1, most), 0))})
    return [Variant(f"record {i + 1} far off", _one(_far_off, i), record=i) for i in which if i]


def _of_targets() -> list[Variant]:
    return [
        Variant("targets times 1,000", Placed(alone=_scaled(1000))),
        Variant("targets times -1,000", Placed(alone=_scaled(-1000))),
        Variant("targets 0", Placed(alone=_scaled(0))),  # nothing to learn, nor to scale noise by
    ]


def _of_columns() -> list[Variant]:
    return [
        Variant(f"{name} column {how}", one_column(alter, which))
        for name, which in (("last", -1), ("first", 0))
        for how, alter in (
            ("turned over", _mirrored),
            ("times 1,000", _scaled(1000)),
            ("times -1,000", _scaled(-1000)),
            ("0", _scaled(0)),
        )
    ]


def that_differ(
    tried: Sequence[Variant], shown: Callable[[Callable[[str, int, Any], object]], None]
) -> list[Variant]:
    """Return those variants that change an app's data, and of those that are alike the first.

    Parameters
    ----------
    tried : sequence of Variant
        Of which some need what data do not have, such as labels.
    shown : callable
        Shows a function all data of a run.
    """
    digests: dict[Variant, list[bytes]] = {variant: [] for variant in (BASE, *tried)}

    def note(label: str, number: int, value: Any) -> None:
        for variant, found in digests.items():
            found.append(digest(variant.of(value)))

    shown(note)
    known, kept = [digests[BASE]], []
    for variant in tried:
        if variant.partition or digests[variant] not in known:
            known.append(digests[variant])
            kept.append(variant)
    return kept


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


def _scaled(by: int) -> Alter:
    return lambda a: np.asarray(a * a.dtype.type(by)) if _is_continuous(a) else a


def _far(by: int) -> Alter:
    """Return a change of whole numbers that are quantities to ones which nobody expects.

    Those from 0 or 1 up, or of few values, may be labels, which nothing can be said about.
    """

    def changed(array: Array) -> Array:
        numbers = array.dtype.kind == "f" or (array.dtype.kind == "i" and array.itemsize >= 4)
        if not numbers or array.ndim > 2 or not len(array) or not np.isfinite(array).all():
            return array
        low, high = array.min(axis=0), array.max(axis=0)
        quantity = (array == np.round(array)).all(axis=0) & (low > 1) & (high - low > 20)
        return np.where(quantity, high + 1000 * by, array).astype(array.dtype)

    return changed


def _far_off(array: Array) -> Array:
    return _scaled(-1000)(array) if _is_continuous(array) else _mirrored(array)


def _beyond(array: Array) -> Array:
    """Return whole numbers, which may be labels, larger than all that there are."""
    if array.dtype.kind != "i" or array.itemsize < 4 or not len(array):
        return array
    return np.asarray(array.max(axis=0) + np.zeros_like(array) + 1000)


def _nan(array: Array) -> Array:
    return np.full_like(array, np.nan) if array.dtype.kind == "f" else array
