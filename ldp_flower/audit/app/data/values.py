"""Data as apps hold them: arrays, tables, tensors, loaders, lists, and what is made of these."""

import hashlib
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from ....guarantee.users import Users
from .forms import content, has_fields, is_leaf, is_loader, is_of
from .places import Alter, Placed, in_column
from .stand_in import Rows

_MOST = 20_000  # records of a data set without a known form that are looked at


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
    if has_fields(value):
        made = copy(value)
        for name, part in vars(value).items():
            object.__setattr__(made, name, altered(part, alter, depth - 1))
        return made
    return value


def digest(value: Any) -> bytes:
    """Return a hash of every number and text in a value's records, which takes a while."""
    made = hashlib.sha256()

    def noted(array: NDArray[Any]) -> NDArray[Any]:
        made.update(repr((array.shape, array.dtype)).encode())
        made.update(content(array + 0.0 if array.dtype.kind == "f" else array))  # -0 is 0
        return array

    altered(value, noted)
    return made.digest()


def stands_alone(value: Any) -> bool:
    """Whether a value has arrays of one dimension that are no columns, as targets are."""
    found: list[int] = []

    def noted(array: NDArray[Any]) -> NDArray[Any]:
        found.append(len(array))
        return array

    altered(value, Placed(alone=noted))
    return bool(found)


def kept(value: Any) -> Any:
    """Return a value that is still read when an app has closed its file."""
    return altered(value, np.copy) if isinstance(value, NpzFile) else value


def _leaf(leaf: Any, alter: Alter) -> Any:
    if isinstance(leaf, np.ndarray):
        return np.ascontiguousarray(alter(leaf)).astype(leaf.dtype, copy=False)
    if isinstance(leaf, Users):
        return _users(leaf, alter)
    if is_of(leaf, "pandas", "DataFrame"):
        return _frame(leaf, alter)
    if is_of(leaf, "pandas", "Series"):
        return type(leaf)(alter(leaf.to_numpy()), name=leaf.name)
    if is_of(leaf, "torch", "Tensor"):
        import torch

        changed = np.ascontiguousarray(alter(leaf.detach().cpu().numpy()))
        return torch.from_numpy(changed).to(leaf.dtype)
    if is_loader(leaf):
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
    columns = {
        name: _cells(frame[name].to_numpy(), in_column(alter, i, len(frame.columns)))
        for i, name in enumerate(frame.columns)
    }
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
        columns = {
            key: _column([row[key] for row in rows], in_column(alter, i, len(first)))
            for i, key in enumerate(first)
        }
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
    if isinstance(first, tuple | list):
        count = len(first)
        parts = [
            _column([row[i] for row in rows], in_column(alter, i, count)) for i in range(count)
        ]
        return [type(first)(values) for values in zip(*parts, strict=True)]
    return _column(rows, alter)


def _column(values: list[Any], alter: Alter) -> list[Any]:
    first = values[0]
    if is_of(first, "torch", "Tensor"):
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
