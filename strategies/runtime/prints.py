"""Prints of parameters: the hashes by which a store recognises the run that it belongs to.

A run is recognised by the class of its strategy and by all of the strategy's parameters.
"""

import hashlib
import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from ldp_flower.guarantee.training import digest
from ldp_flower.validation import plain

from .run_store import RunStore

_MAX_CHARS_SHOWN = 60  # largest number of characters of a parameter in a message

_NONE = ("", "nothing")  # print of a parameter that is missing

#: The hash of a parameter, and a short description for messages.
Print = tuple[str, str]


def printed(value: object) -> Print:
    """Return the SHA-256 of a parameter's whole content, and a short description.

    Equal numbers have the same hash, whatever their type, and so have equal lists and tuples.
    Arrays have the same hash if their types, shapes and bytes are equal. Other objects have the
    same hash if they are of one class and hold equal values. Raise ValueError for a value that
    cannot be compared, such as a function.
    """
    found = hashlib.sha256(_encoded(value)).hexdigest()
    if isinstance(value, np.ndarray):
        return found, f"{value.dtype} array of shape {value.shape}, SHA-256 {found[:8]}..."
    text = f"{plain(value)!r}"
    if len(text) > _MAX_CHARS_SHOWN:
        text = f"{text[:_MAX_CHARS_SHOWN]}... (SHA-256 {found[:8]}...)"
    return found, text


def recognise(store: RunStore, kind: type, parameters: Mapping[str, Print | str]) -> None:
    """Assign a new store to this strategy, or check that an old store belongs to it.

    The check compares the class and the hashes of all parameters. Raise ValueError if the store
    belongs to another run, with the parameters that differ, or if a parameter has no hash.
    """
    expected = f"Expected a store of {kind.__name__}"
    for name, found in parameters.items():
        if isinstance(found, str):
            raise ValueError(
                f"Expected parameters by which a store can identify a run, got {name}: {found}."
            )
    kept = store.get("protocol")
    if kept is None:
        store.put("protocol", {"class": _name(kind), "parameters": parameters})
        return
    if not isinstance(kept, dict):
        raise ValueError(f"{expected}, got one that another version of ldp-flower has written.")
    if kept["class"] != _name(kind):
        raise ValueError(f"{expected}, got one of {kept['class']}.")
    theirs = kept["parameters"]
    others = [
        f"{name} = {theirs.get(name, _NONE)[1]}, here {parameters.get(name, _NONE)[1]}"
        for name in dict.fromkeys((*theirs, *parameters))
        if theirs.get(name, _NONE)[0] != parameters.get(name, _NONE)[0]
    ]
    if others:
        raise ValueError(f"{expected} with the same parameters, got one with {'; '.join(others)}.")


#: Mark, in a field's metadata, of an argument that older versions did not have. At its default it
#: has no print, so that stores of these versions are still recognised.
LATER = "later"


def prints_of(strategy: object) -> dict[str, Print | str]:
    """Return the hash and description of every parameter of a strategy, by name.

    If a parameter has no hash, its entry is the reason, a string. Raise ValueError if the
    strategy's class defines its own ``__init__``, since then its fields may not be its arguments.
    """
    for kind in type(strategy).__mro__:
        if "__dataclass_fields__" in vars(kind):
            break
        if "__init__" in vars(kind):
            raise ValueError(
                f"Expected {kind.__name__} to be a dataclass, whose fields identify a run."
            )
    prints: dict[str, Print | str] = {}
    for field in fields(strategy):  # type: ignore[arg-type]
        if LATER in field.metadata and getattr(strategy, field.name) == field.default:
            continue  # stores of older versions lack it
        try:
            prints[field.name] = printed(getattr(strategy, field.name))
        except ValueError as error:
            prints[field.name] = str(error)
    return prints


def _encoded(value: Any) -> bytes:
    """Return bytes that are the same for equal values, and differ for others."""
    value = plain(value)
    if value is None or isinstance(value, bool | str | bytes):
        kind = next(kind for kind in (str, bytes, object) if isinstance(value, kind))
        return _joined(kind.__name__, value if isinstance(value, bytes) else str(value))
    if isinstance(value, int | float):
        finite = isinstance(value, int) or math.isfinite(value)
        return _joined("number", str(value.as_integer_ratio() if finite else value))
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _joined("array", value.dtype.str, str(value.shape), value.tobytes())
    if isinstance(value, ArrayRecord | ConfigRecord):
        return _joined("records", digest(RecordDict({"": value})))
    if isinstance(value, Mapping):
        # The order counts: it matters in a mapping of a table's columns.
        pairs = [_encoded(part) for pair in value.items() for part in pair]
        return _joined("mapping", *pairs)
    if isinstance(value, Set):
        return _joined("set", *sorted(map(_encoded, value)))
    if isinstance(value, list | tuple):
        return _joined("sequence", *map(_encoded, value))
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        return _joined("object", _name(type(value)), _encoded(held))
    raise ValueError(f"Cannot compare one {type(value).__name__} with another")


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _joined(*parts: str | bytes) -> bytes:
    """Return the parts, each after its length, as bytes: different parts give different bytes."""
    contents = [p.encode("utf-8", "surrogatepass") if isinstance(p, str) else p for p in parts]
    return b"".join(b"%d:%b" % (len(content), content) for content in contents)
