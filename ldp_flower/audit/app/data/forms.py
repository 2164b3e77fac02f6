"""Which values are records, in forms that can be changed, and what is in them."""

import hashlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from ....guarantee.users import Users


def is_leaf(value: Any) -> bool:
    """Whether these are records, in a form that can be changed."""
    return (
        (isinstance(value, np.ndarray) and value.ndim > 0)
        or isinstance(value, Users)
        or is_of(value, "pandas", "DataFrame")
        or is_of(value, "pandas", "Series")
        or (is_of(value, "torch", "Tensor") and value.ndim > 0)
        or is_loader(value)
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


def fingerprint(value: Any) -> bytes:
    """Return a hash of the records in a value."""
    made = hashlib.sha256()
    for leaf in leaves(value):
        made.update(content(leaf.dataset if is_loader(leaf) else leaf))
    return made.digest()


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, NpzFile):  # reads as long as it is open
        return list(value.values()) if value.zip is not None else []
    if isinstance(value, list | tuple):
        return list(value)
    return list(vars(value).values()) if has_fields(value) else []


def has_fields(value: Any) -> bool:
    """Whether this is an object of plain fields, such as a data class; models are none."""
    kind = type(value)
    return (
        hasattr(value, "__dict__")
        and not callable(value)
        and not hasattr(value, "fit")
        and kind.__module__.split(".")[0] not in ("torch", "sklearn", "flwr", "numpy", "builtins")
        and not isinstance(value, type(sys))
    )


def is_of(value: Any, module: str, name: str) -> bool:
    """Whether a value is of a class of a module that may not be there."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def is_loader(value: Any) -> bool:
    """Whether this is a loader of batches of PyTorch's."""
    return is_of(value, "torch.utils.data", "DataLoader")


def _is_dataset(value: Any) -> bool:
    if is_of(value, "torch.utils.data", "Dataset"):
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
    return leaf.dataset if is_loader(leaf) else leaf


def content(plain: Any) -> bytes:
    """Return records as bytes; of some forms not all of them."""
    if isinstance(plain, Users):
        return plain.features.tobytes() + plain.targets.tobytes() + plain.offsets.tobytes()
    if isinstance(plain, np.ndarray):
        return plain.tobytes() if plain.dtype != object else repr(plain.tolist()).encode()
    if is_of(plain, "torch", "Tensor"):
        return bytes(plain.detach().cpu().numpy().tobytes())
    if is_of(plain, "pandas", "DataFrame") or is_of(plain, "pandas", "Series"):
        return str(plain.to_csv()).encode()
    if hasattr(plain, "to_pandas"):
        return repr(plain.to_pandas().to_dict("list")).encode()
    if is_of(plain, "torch.utils.data", "Dataset"):
        return repr([plain[i] for i in range(min(len(plain), 50))]).encode()
    return repr(plain).encode()
