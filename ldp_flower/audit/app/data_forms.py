"""Records in the forms that apps use: arrays, tables, tensors, loaders, lists and objects of them.

The audit of an app changes the records in any of these forms, and hashes them.
"""

import hashlib
import sys
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Index of a table's column and number of columns; None for an array that is not a column.
Column = tuple[int, int] | None
#: Function from an array with records along its first axis, and its place, to a changed array.
Alter = Callable[[Array, Column], Array]

_MAX_ITEMS = 20_000  # largest number of items read from a torch data set; images take some seconds


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
    """Return all columns and arrays of a loader's result; their lengths are numbers of records."""
    found: list[Array] = []

    def noted(array: Array, place: Column) -> Array:
        found.append(array)
        return array

    altered(value, noted)
    return found


def digest(value: Any) -> bytes:
    """Return a hash of the records in a loader's result, by which equal data are recognised."""
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
