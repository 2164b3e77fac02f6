"""Conversion of results to plain values for JSON, and back, by the types of the results' fields.

The conversion back makes objects only of the classes that a result's fields declare, and accepts
only values of the declared types. A dict from an untrusted source may therefore hold wrong values,
but cannot make other objects or run code.
"""

import base64
import types
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord

from ldp_flower.data.schema import Schema

_KINDS = "biuf"  # kinds of NumPy's types: booleans, signed and unsigned integers, floats
_RECORDS = (MetricRecord, ConfigRecord)


def to_plain(value: Any) -> Any:
    """Convert a value to dicts, lists, texts, numbers and None, which JSON can hold.

    Raise TypeError if it has a type that cannot be converted.
    """
    if isinstance(value, np.generic | np.ndarray):
        if value.dtype.kind in _KINDS:
            return value.tolist()
    elif value is None or isinstance(value, bool | int | float | str):
        return value
    elif isinstance(value, ArrayRecord):
        return {name: _array_fields(array.numpy()) for name, array in value.items()}
    elif isinstance(value, Schema):
        return value.to_dict()
    elif isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    elif is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(
        f"A result cannot be written as plain values with a {type(value).__name__} in it."
    )


def from_plain(kind: Any, value: Any) -> Any:
    """Convert the output of :func:`to_plain` back to a value of type ``kind``.

    Raise ValueError if it does not describe such a value.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value)
    if kind is None or kind is type(None):
        return _required(value, value is None, "null")
    if origin is Literal:
        return _required(value, value in arguments, f"one of {list(arguments)}")
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(_required(value, number, "a number"))
    if kind in (bool, int, str):
        return _required(value, type(value) is kind, f"a value of type {kind.__name__}")
    if origin is np.ndarray:
        return _array(get_args(arguments[1])[0], value)
    if kind is ArrayRecord:
        pairs = _required(value, isinstance(value, dict), "named arrays").items()
        return ArrayRecord({name: Array(_decoded(array)) for name, array in pairs})
    if kind in _RECORDS:
        return kind(_required(value, isinstance(value, dict), "named numbers"))
    if kind is Schema:
        return Schema.from_dict(_required(value, isinstance(value, dict), "a schema"))
    if origin in (list, tuple):
        _required(value, isinstance(value, list), "a list")
        if origin is list or arguments[1:] == (...,):
            return origin(from_plain(arguments[0], each) for each in value)
        _required(value, len(value) == len(arguments), f"{len(arguments)} values")
        return tuple(from_plain(k, each) for k, each in zip(arguments, value, strict=True))
    if origin in (dict, Counter):
        _required(value, isinstance(value, dict), "a mapping")
        of_values = arguments[1] if origin is dict else int
        pairs = ((_key(arguments[0], key), each) for key, each in value.items())
        return origin({key: from_plain(of_values, each) for key, each in pairs})
    if is_dataclass(kind) and isinstance(kind, type):
        return made(kind, value)
    raise TypeError(f"A result's fields cannot be of type {kind!r}.")


def made(kind: type[Any], plain: Any) -> Any:
    """Return an object of the dataclass ``kind`` from the plain values of its fields.

    Raise ValueError if a value is missing, unknown or of another type.
    """
    values = _required(plain, isinstance(plain, dict), f"the values of a {kind.__name__}")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind) if field.init]
    if unknown := [name for name in values if name not in names]:
        raise ValueError(f"Expected the values of a {kind.__name__}, got {unknown[0]!r} as well.")
    found = {}
    for name in names:
        if name in values:
            try:
                found[name] = from_plain(hints[name], values[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    try:
        return kind(**found)
    except TypeError:
        missing = [
            field.name
            for field in fields(kind)
            if field.name not in found
            and field.default is MISSING
            and field.default_factory is MISSING
        ]
        raise ValueError(f"Expected the values of a {kind.__name__}, without {missing}.") from None


def _required(value: Any, fits: bool, expected: str) -> Any:
    if not fits:
        shown = f"{value!r}"
        shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
        raise ValueError(f"Expected {expected}, got {shown}.")
    return value


def _one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    # None is tried first, since the error message is that of the last type.
    *others, last = sorted(kinds, key=lambda kind: kind is not type(None))
    for kind in others:
        with suppress(ValueError):
            return from_plain(kind, value)
    return from_plain(last, value)


def _key(kind: type, key: Any) -> Any:
    try:
        return kind(_required(key, isinstance(key, str | int), "a name or a number"))
    except ValueError:
        raise ValueError(f"Expected keys of type {kind.__name__}, got {key!r}.") from None


def _array(dtype: Any, value: Any) -> Any:
    _required(value, isinstance(value, list), "a list of numbers")
    try:
        array = np.array(value) if value else np.empty(0, dtype)
    except ValueError:
        raise ValueError("Expected rows of one length.") from None
    if not array.size:
        return array.astype(dtype)
    wanted = np.dtype(dtype).kind
    fits = {"f": "iuf", "i": "iu", "u": "iu", "b": "b"}.get(wanted, "")
    _required(value, array.dtype.kind in fits, "numbers")
    return array.astype(dtype)


def _array_fields(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def _decoded(plain: Any) -> np.ndarray[Any, Any]:
    """Return an array of numbers from its bytes, without unpickling anything."""
    try:
        dtype = np.dtype(str(plain["dtype"]))
        shape = [int(size) for size in plain["shape"]]
        data = base64.b64decode(plain["data"], validate=True)
        if dtype.kind not in _KINDS:
            raise ValueError
        return np.frombuffer(data, dtype).reshape(shape).copy()
    except (ValueError, KeyError, TypeError):
        raise ValueError("Expected an array's type, shape and bytes.") from None
