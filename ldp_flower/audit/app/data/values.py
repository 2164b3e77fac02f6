"""Data as apps hold them: arrays, tables, tensors, loaders, lists, and what is made of these."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from ....guarantee.users import Users
from .stand_in import Rows

#: From a column or an array with records along its first axis to another one.
Alter = Callable[[NDArray[Any]], NDArray[Any]]

_MOST = 20_000  # records of a data set without a known form that are looked at


def is_leaf(value: Any) -> bool:
    """Whether these are records, in a form that can be changed."""
    return (
        (isinstance(value, np.ndarray) and value.ndim > 0)
        or isinstance(value, Users)
        or _is(value, "pandas", "DataFrame")
        or _is(value, "pandas", "Series")
        or (_is(value, "torch", "Tensor") and value.ndim > 0)
        or _is_loader(value)
        or _is_dataset(value)
        or _is_rows(value)
    )


def leaves(value: Any, depth: int = 4) -> Iterator[Any]:
    """Yield every set of records in a value."""
    if is_leaf(value):
        yield value
    elif depth:
        for part in _parts(value):
            yield from leaves(part, depth - 1)


def size(value: Any) -> int:
    """Return how many records the largest set in a value has."""
    return max((len(_plain(leaf)) for leaf in leaves(value)), default=0)


def altered(value: Any, alter: Alter, depth: int = 4) -> Any:
    """Return a copy of a value, all of its records altered."""
    if is_leaf(value):
        return _leaf(value, alter)
    if not depth:
        return value
    if isinstance(value, dict):
        made = copy(value)  # of its own kind, which may have methods that an app calls
        made.update({key: altered(part, alter, depth - 1) for key, part in value.items()})
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(altered(part, alter, depth - 1) for part in value))
    if isinstance(value, NpzFile) and value.zip is not None:
        return _Opened({key: altered(part, alter, depth - 1) for key, part in value.items()})
    if isinstance(value, list | tuple):
        return type(value)(altered(part, alter, depth - 1) for part in value)
    if isinstance(value, bool) or value is None:
        return value
    if _has_fields(value):
        made = copy(value)
        for name, part in vars(value).items():
            object.__setattr__(made, name, altered(part, alter, depth - 1))
        return made
    return value


def kept(value: Any) -> Any:
    """Return a value that is still read when an app has closed its file."""
    return altered(value, np.copy) if isinstance(value, NpzFile) else value


def fingerprint(value: Any) -> bytes:
    """Return a hash of the records in a value."""
    made = hashlib.sha256()
    for leaf in leaves(value):
        made.update(_bytes(leaf.dataset if _is_loader(leaf) else leaf))
    return made.digest()


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, NpzFile):  # reads as long as it is open
        return list(value.values()) if value.zip is not None else []
    if isinstance(value, list | tuple):
        return list(value)
    return list(vars(value).values()) if _has_fields(value) else []


def _has_fields(value: Any) -> bool:
    """Whether this is an object of plain fields, such as a data class; models are none."""
    kind = type(value)
    return (
        hasattr(value, "__dict__")
        and not callable(value)
        and not hasattr(value, "fit")
        and kind.__module__.split(".")[0] not in ("torch", "sklearn", "flwr", "numpy", "builtins")
        and not isinstance(value, type(sys))
    )


def _is(value: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _is_loader(value: Any) -> bool:
    return _is(value, "torch.utils.data", "DataLoader")


def _is_dataset(value: Any) -> bool:
    if _is(value, "torch.utils.data", "Dataset"):
        return hasattr(value, "__len__")
    return hasattr(value, "to_pandas") and hasattr(type(value), "from_pandas")


def _is_rows(value: Any) -> bool:
    """Whether this is a list of plain records: numbers, texts, tuples or dicts of them."""
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    return isinstance(first, int | float | str | np.number) or (
        isinstance(first, list | tuple | dict)
        and all(
            isinstance(part, int | float | str | np.number | None)
            for part in (first.values() if isinstance(first, dict) else first)
        )
    )


def _plain(leaf: Any) -> Any:
    """Return records as something with a length."""
    if isinstance(leaf, Users):
        return range(len(leaf))
    return leaf.dataset if _is_loader(leaf) else leaf


def _bytes(plain: Any) -> bytes:
    if isinstance(plain, Users):
        return plain.features.tobytes() + plain.targets.tobytes() + plain.offsets.tobytes()
    if isinstance(plain, np.ndarray):
        return plain.tobytes() if plain.dtype != object else repr(plain.tolist()).encode()
    if _is(plain, "torch", "Tensor"):
        return bytes(plain.detach().cpu().numpy().tobytes())
    if _is(plain, "pandas", "DataFrame") or _is(plain, "pandas", "Series"):
        return str(plain.to_csv()).encode()
    if hasattr(plain, "to_pandas"):
        return repr(plain.to_pandas().to_dict("list")).encode()
    if _is(plain, "torch.utils.data", "Dataset"):
        return repr([plain[i] for i in range(min(len(plain), 50))]).encode()
    return repr(plain).encode()


def _leaf(leaf: Any, alter: Alter) -> Any:
    if isinstance(leaf, np.ndarray):
        return np.ascontiguousarray(alter(leaf)).astype(leaf.dtype, copy=False)
    if isinstance(leaf, Users):
        return _users(leaf, alter)
    if _is(leaf, "pandas", "DataFrame"):
        return _frame(leaf, alter)
    if _is(leaf, "pandas", "Series"):
        return type(leaf)(alter(leaf.to_numpy()), name=leaf.name)
    if _is(leaf, "torch", "Tensor"):
        import torch

        changed = np.ascontiguousarray(alter(leaf.detach().cpu().numpy()))
        return torch.from_numpy(changed).to(leaf.dtype)
    if _is_loader(leaf):
        return _loader(leaf, alter)
    if hasattr(leaf, "to_pandas"):
        return _of_table(leaf, _frame(leaf.to_pandas(), alter))
    if isinstance(leaf, list):
        return _rows(leaf, alter)
    return _items(leaf, alter)


def _users(users: Users, alter: Alter) -> Users:
    """Return users of whom the first has other rows, and as many."""
    end = int(users.offsets[1]) if len(users.offsets) > 1 else 0
    if not end:
        return users
    x, y = users.features.copy(), users.targets.copy()
    for own in (x, y):
        changed = alter(own[:end])
        own[:end] = changed[np.arange(end) % len(changed)] if len(changed) else np.nan
    return replace(users, features=x, targets=y)


def _frame(frame: Any, alter: Alter) -> Any:
    columns = {name: _cells(frame[name].to_numpy(), alter) for name in frame.columns}
    made = type(frame)(columns)
    return made.astype(
        {n: frame[n].dtype for n in frame.columns if frame[n].dtype == object}, errors="ignore"
    )


def _cells(column: NDArray[Any], alter: Alter) -> Any:
    """Return a column altered; one of arrays, such as images, as if it were one array."""
    if len(column) and isinstance(column[0], np.ndarray | list):
        return list(alter(np.stack(list(column))))
    return alter(column)


def _loader(loader: Any, alter: Alter) -> Any:
    from torch.utils.data import RandomSampler

    dataset = _leaf(loader.dataset, alter) if is_leaf(loader.dataset) else loader.dataset
    return type(loader)(
        dataset,
        batch_size=loader.batch_size,
        shuffle=isinstance(loader.sampler, RandomSampler) and len(dataset) > 0,
        collate_fn=loader.collate_fn,
        drop_last=loader.drop_last,
    )


def _items(dataset: Any, alter: Alter) -> Any:
    """Return the items of a data set of PyTorch's, of tuples or dicts, altered."""
    if type(dataset).__name__ == "TensorDataset":
        return type(dataset)(*(_leaf(tensor, alter) for tensor in dataset.tensors))
    return _Items(_rows([dataset[i] for i in range(min(len(dataset), _MOST))], alter))


class _Opened(dict[str, Any]):
    """Arrays of an ``.npz`` file, as NumPy's own object has them."""

    @property
    def files(self) -> list[str]:
        return list(self)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Items(list[Any]):
    """A data set that is a list."""


def _rows(rows: list[Any], alter: Alter) -> list[Any]:
    """Return records, a column after the other altered."""
    if not rows:
        return rows
    first = rows[0]
    if isinstance(first, dict):
        columns = {key: _column([row[key] for row in rows], alter) for key in first}
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
    if isinstance(first, tuple | list):
        parts = [_column([row[i] for row in rows], alter) for i in range(len(first))]
        return [type(first)(values) for values in zip(*parts, strict=True)]
    return _column(rows, alter)


def _column(values: list[Any], alter: Alter) -> list[Any]:
    first = values[0]
    if _is(first, "torch", "Tensor"):
        import torch

        return list(_leaf(torch.stack(values), alter))
    array = np.asarray(values)
    changed = alter(array).astype(array.dtype, copy=False)
    return list(changed) if isinstance(first, np.generic | np.ndarray) else changed.tolist()


def _of_table(like: Any, frame: Any) -> Any:
    """Return rows of ``datasets``, or of what stands in for it, in the form of others."""
    if isinstance(like, Rows):
        return Rows.from_pandas(frame, like)
    made = type(like).from_pandas(frame, preserve_index=False)
    return made.with_format(**like.format) if getattr(like, "format", None) else made
