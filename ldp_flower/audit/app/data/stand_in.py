"""A stand-in for ``flwr_datasets``, and for the rows it returns, made of a file.

Where neither is installed, or their data cannot be fetched, an app's own loading code then works
on the rows of a sample.
"""

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.random import PCG64, Generator

from ..errors import CannotAuditError

#: Packages in whose place it stands.
NAMES = ("flwr_datasets", "datasets")
#: Those of them that an app has asked.
served: set[str] = set()
_stood_in: set[str] = set()  # those that it stands for in this process


def read(path: Path) -> pd.DataFrame:
    """Return the rows of a sample.

    Raises
    ------
    CannotAuditError
        If it cannot be read.
    """
    kind = path.suffix.lower()
    try:
        if kind == ".csv":
            return pd.read_csv(path)
        if kind == ".parquet":
            return pd.read_parquet(path)
        if kind == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                # One cell for each record, whatever its shape.
                return pd.DataFrame({name: pd.Series(list(arrays[name])) for name in arrays})
    except (OSError, ValueError, ImportError) as error:
        raise CannotAuditError(f"The sample {path} cannot be read: {error}") from error
    raise CannotAuditError(f"Expected a sample in a .csv, .parquet or .npz file, got {path}.")


class Rows:
    """Rows as a ``datasets.Dataset`` has them, as far as loaders of apps use one."""

    def __init__(
        self,
        frame: pd.DataFrame,
        form: str | None = None,
        transform: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self._frame, self._form, self._transform = frame.reset_index(drop=True), form, transform

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, like: "Rows | None" = None) -> "Rows":
        """Return a table's rows, in the form of others."""
        return cls(frame) if like is None else cls(frame, like._form, like._transform)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a table."""
        return self._frame.copy()

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self._frame.columns)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self._frame)

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, str):
            return self._formed(self._frame[which])
        one = isinstance(which, int | np.integer)
        rows = self._frame.iloc[[which] if one else which]
        if self._form == "pandas":
            return rows.reset_index(drop=True)
        found = {name: self._formed(rows[name]) for name in rows.columns}
        if self._transform is not None:
            found = self._transform(found)
        return {name: values[0] for name, values in found.items()} if one else found

    def _formed(self, column: Any) -> Any:
        values = column.tolist()
        if self._form in ("numpy", "np"):
            return np.asarray(values)
        if self._form == "torch":
            import torch

            return torch.as_tensor(np.asarray(values))
        return column.reset_index(drop=True) if self._form == "pandas" else values

    def with_format(self, type: str | None = None, **_: Any) -> "Rows":
        """Return the rows in another form."""
        return Rows(self._frame, type)

    def set_format(self, type: str | None = None, **_: Any) -> None:
        """Put the rows in another form."""
        self._form, self._transform = type, None

    def with_transform(self, transform: Callable[[dict[str, Any]], Any], **_: Any) -> "Rows":
        """Return rows that a function is applied to when they are read, in place of a form."""
        return Rows(self._frame, None, transform)

    def set_transform(self, transform: Callable[[dict[str, Any]], Any], **_: Any) -> None:
        """Apply a function to the rows when they are read, in place of a form."""
        self._form, self._transform = None, transform

    def train_test_split(
        self, test_size: float = 0.25, seed: int | None = None, shuffle: bool = True, **_: Any
    ) -> dict[str, "Rows"]:
        """Return two parts of the rows."""
        order = np.arange(len(self))
        if shuffle:
            Generator(PCG64(seed)).shuffle(order)
        cut = len(self) - max(1, round(test_size * len(self)))
        parts = {"train": order[:cut], "test": order[cut:]}
        return _Split(
            {k: Rows(self._frame.iloc[i], self._form, self._transform) for k, i in parts.items()}
        )

    def select(self, which: Any) -> "Rows":
        """Return some of the rows."""
        return Rows(self._frame.iloc[list(which)], self._form, self._transform)

    def shuffle(self, seed: int | None = None, **_: Any) -> "Rows":
        """Return the rows in another order."""
        return self.select(Generator(PCG64(seed)).permutation(len(self)))

    def remove_columns(self, names: str | list[str]) -> "Rows":
        """Return the rows without some columns."""
        return Rows(self._frame.drop(columns=names), self._form, self._transform)

    def rename_column(self, old: str, new: str) -> "Rows":
        """Return the rows with a column of another name."""
        return Rows(self._frame.rename(columns={old: new}), self._form, self._transform)


class _Split(dict[str, Rows]):
    """Several sets of rows."""

    def with_transform(self, transform: Callable[[dict[str, Any]], Any]) -> Self:
        return type(self)({k: rows.with_transform(transform) for k, rows in self.items()})

    def with_format(self, type_: str | None = None) -> Self:
        return type(self)({k: rows.with_format(type_) for k, rows in self.items()})


def installed(sample: Path) -> None:
    """Put a sample's rows in the place of packages that are not installed."""
    frame = read(sample)
    served.clear()
    if _absent("flwr_datasets"):

        class FederatedDataset:
            """Partitions of the sample."""

            def __init__(self, *, partitioners: dict[str, Any] | None = None, **_: Any) -> None:
                self._partitioners = partitioners or {}

            def load_partition(self, partition_id: int, split: str | None = None) -> Rows:
                served.add("flwr_datasets")
                chosen = self._partitioners.get(split or "train")
                count = getattr(chosen, "num_partitions", chosen if isinstance(chosen, int) else 1)
                return Rows(frame.iloc[int(partition_id) :: max(int(count), 1)])

            def load_split(self, split: str) -> Rows:
                served.add("flwr_datasets")
                return Rows(frame)

        class Partitioner:
            """Whatever an app partitions by: here, every so many rows."""

            def __init__(self, num_partitions: int = 1, *_: Any, **__: Any) -> None:
                self.num_partitions = num_partitions

            def __class_getitem__(cls, _: Any) -> type:
                return cls

        def named(name: str) -> type:
            if name.startswith("__"):  # the import system asks for some
                raise AttributeError(name)
            return Partitioner

        partitioners = ModuleType("flwr_datasets.partitioner")
        partitioners.__getattr__ = named  # type: ignore[method-assign]
        package = ModuleType("flwr_datasets")
        package.__path__ = []
        vars(package).update(FederatedDataset=FederatedDataset, partitioner=partitioners)
        _put(package, partitioners)
    if _absent("datasets"):

        def load_dataset(*_: Any, split: str | None = None, **__: Any) -> Rows | _Split:
            served.add("datasets")
            return Rows(frame) if split else _Split(train=Rows(frame), test=Rows(frame))

        package = ModuleType("datasets")
        vars(package).update(Dataset=Rows, load_dataset=load_dataset)
        _put(package)


def _absent(name: str) -> bool:
    return name in _stood_in or find_spec(name) is None


def _put(package: ModuleType, *modules: ModuleType) -> None:
    _stood_in.add(package.__name__)
    for module in (package, *modules):
        # Other libraries ask whether these are installed, which fails without a specification.
        module.__spec__ = ModuleSpec(module.__name__, None)
        sys.modules[module.__name__] = module


__all__ = ["NAMES", "Rows", "installed", "read"]
