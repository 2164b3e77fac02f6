"""Neighbouring data: variants of a node's data with changes of one record or of all of them.

Records can have the forms that apps use: arrays, tables, tensors, loaders, lists.
"""

import hashlib
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Index of a table's column and number of columns; None for an array that is not a column.
Column = tuple[int, int] | None
#: Function from an array with records along its first axis, and its place, to a changed array.
Alter = Callable[[Array, Column], Array]

_OTHERS = 30  # number of records that are changed one at a time, in addition to the first
_MAX_ITEMS = 20_000  # largest number of items read from a torch data set; images take some seconds

_Change = Callable[[Array], Array]


@dataclass(frozen=True)
class Variant:
    """Neighbouring data: a node's data with each column or array altered."""

    name: str
    alter: Alter | None = field(default=None, compare=False)
    record: int = 0  # index of the changed record; 0 also if several records are changed

    def of(self, value: Any) -> Any:
        """Return a loader's result ``value``, changed as this variant changes the data."""
        return value if self.alter is None else altered(value, self.alter)

    def neighbours(self, other: "Variant") -> bool:
        """Return True if this variant and ``other`` differ in one record, or in one node's data."""
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


# --------------------------------------------------------------- records in the forms of apps


def altered(value: Any, alter: Alter, depth: int = 4) -> Any:
    """Return a copy of a loader's result in which ``alter`` has changed every array of records."""
    if not getattr(value, "ndim", 1):  # a number
        return value
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(alter(value, None)).astype(value.dtype, copy=False)
    if _is_of(value, "torch", "Tensor"):
        return _tensor(value, alter, None)
    if _is_of(value, "torch.utils.data", "DataLoader"):
        return _loader(value, alter)
    if _is_of(value, "torch.utils.data", "TensorDataset"):
        return type(value)(*(_tensor(tensor, alter, None) for tensor in value.tensors))
    if _is_of(value, "torch.utils.data", "Dataset") and hasattr(value, "__len__"):
        return _rows([value[i] for i in range(min(len(value), _MAX_ITEMS))], alter)
    if _is_of(value, "pandas", "DataFrame"):
        return _frame(value, alter)
    if _is_of(value, "pandas", "Series"):
        return type(value)(alter(value.to_numpy(), None), name=value.name)
    if hasattr(value, "to_pandas") and hasattr(type(value), "from_pandas"):
        # A data set of Hugging Face's datasets.
        made = type(value).from_pandas(_frame(value.to_pandas(), alter), preserve_index=False)
        return made.with_format(**value.format) if getattr(value, "format", None) else made
    if _is_rows(value):
        return _rows(value, alter)
    return _with_parts(value, lambda part: altered(part, alter, depth - 1)) if depth else value


def _with_parts(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a collection or object in which ``change`` was applied to each part."""
    if isinstance(value, dict):
        made = copy(value)  # keeps its class, whose methods the app may call
        made.update({key: change(part) for key, part in value.items()})
        return made
    if isinstance(value, list | tuple):
        parts = map(change, value)
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if _has_fields(value):
        made = copy(value)
        for name, part in vars(value).items():
            object.__setattr__(made, name, change(part))
        return made
    return value


def arrays(value: Any) -> list[Array]:
    """Return all columns and arrays of a value's records."""
    found: list[Array] = []

    def noted(array: Array, place: Column) -> Array:
        found.append(array)
        return array

    altered(value, noted)
    return found


def digest(value: Any) -> bytes:
    """Return a hash of a value's records."""
    made = hashlib.sha256()
    for array in arrays(value):
        made.update(repr((array.shape, array.dtype)).encode())
        plain = array + 0.0 if array.dtype.kind == "f" else array  # -0 is 0
        made.update(repr(plain.tolist()).encode() if array.dtype == object else plain.tobytes())
    return made.digest()


def _is_rows(value: Any) -> bool:
    """Return True if a value is a list of plain records: numbers, texts, tuples or dicts."""
    if not isinstance(value, list) or not value or value[0] is None:
        return False
    first = list(value[0].values()) if isinstance(value[0], dict) else value[0]
    parts = first if isinstance(first, list | tuple) else [first]
    return all(isinstance(part, int | float | str | np.number | None) for part in parts)


def _is_of(value: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)  # the module may not be installed
    return kind is not None and isinstance(value, kind)


def _has_fields(value: Any) -> bool:
    """Return True if a value is an object with plain fields, such as a data class; not a model."""
    if callable(value) or hasattr(value, "fit") or isinstance(value, type(sys)):
        return False
    others = ("torch", "sklearn", "flwr", "numpy", "builtins")
    return hasattr(value, "__dict__") and type(value).__module__.split(".")[0] not in others


def _tensor(tensor: Any, alter: Alter, place: Column) -> Any:
    changed = np.ascontiguousarray(alter(tensor.detach().cpu().numpy(), place))
    return sys.modules["torch"].from_numpy(changed).to(tensor.dtype)


def _frame(frame: Any, alter: Alter) -> Any:
    columns = _columns({name: frame[name].to_numpy() for name in frame.columns}, alter)
    texts = {name: frame[name].dtype for name in frame.columns if frame[name].dtype == object}
    return type(frame)(columns).astype(texts, errors="ignore")


def _loader(loader: Any, alter: Alter) -> Any:
    dataset = altered(loader.dataset, alter)
    return type(loader)(
        dataset,
        batch_size=loader.batch_size,
        shuffle=type(loader.sampler).__name__ == "RandomSampler" and len(dataset) > 0,
        collate_fn=loader.collate_fn,
        drop_last=loader.drop_last,
    )


def _rows(rows: list[Any], alter: Alter) -> list[Any]:
    """Return records with each column altered."""
    if not rows:
        return rows
    first = rows[0]
    if not isinstance(first, dict | tuple | list):
        return list(_cells(rows, alter, None))
    keys = list(first) if isinstance(first, dict) else list(range(len(first)))
    columns = _columns({key: [row[key] for row in rows] for key in keys}, alter)
    made = zip(*columns.values(), strict=True)
    if isinstance(first, dict):
        return [dict(zip(keys, cells, strict=True)) for cells in made]
    return [type(first)(cells) for cells in made]


def _columns(columns: dict[Any, Any], alter: Alter) -> dict[Any, Any]:
    """Return all columns of a table, altered."""
    places = enumerate(columns.items())
    return {key: _cells(cells, alter, (i, len(columns))) for i, (key, cells) in places}


def _cells(cells: Any, alter: Alter, place: Column) -> Any:
    """Return a column, altered: an array, or a list of numbers, texts, arrays or tensors."""
    first = cells[0] if len(cells) else None
    if _is_of(first, "torch", "Tensor"):
        return list(_tensor(sys.modules["torch"].stack(list(cells)), alter, place))
    nested = isinstance(first, np.ndarray | list)  # such as images
    array = np.stack(cells) if nested else np.asarray(cells)
    changed = alter(array, place)
    if isinstance(cells, np.ndarray):
        return list(changed) if nested else changed
    changed = changed.astype(array.dtype, copy=False)
    return list(changed) if isinstance(first, np.generic | np.ndarray) else changed.tolist()
