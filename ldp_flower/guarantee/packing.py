"""The encoding of messages: plain fields in one record, and all arrays packed into one.

A message is one ConfigRecord that describes it and one packed byte array, since Flower uploads
every array of a message separately. Decoding trusts no message. It refuses a field that is missing,
unknown, of the wrong type or outside its range. It builds an array only if the payload holds all
bytes of the array.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from ..questions import Arrays, MessageError

FORMAT_VERSION = 1

# Header of 128 bytes that numpy.save writes for a flat array of bytes.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00v\x00{'descr': '\|u1', 'fortran_order': False, "
    rb"'shape': \(([0-9]{1,18}),\), } *\n"
)

_DTYPES = {"<f8", "<f4", "|u1", "<u2", "<u4", "<i8"}

# Limits on the size of a message. They are checked first, so that any message, also a hostile one,
# causes little work.
_MAX_FIELDS, _MAX_CHARS = 64, 256  # number of fields or arrays; characters of a name or text
_MAX_LAYOUT = 1 << 20  # characters of a layout
_MAX_DIGITS, _MAX_DIMS = 13, 8  # digits of a number in a layout, and number of dimensions


def checked_fields(config: Mapping[str, Any], *long: str) -> dict[str, Any]:
    """Return the fields of an untrusted ConfigRecord, after a check of their sizes.

    Raise MessageError if there are too many fields, or if a field is neither one number of 64 bits
    nor a short text or short bytes. A field named in ``long`` may be text or bytes of any length.
    """
    if len(config) > _MAX_FIELDS:
        raise MessageError(f"Expected at most {_MAX_FIELDS} fields, got {len(config)}.")
    for name, value in config.items():
        if len(name) > _MAX_CHARS:
            raise MessageError(f"Expected names of at most {_MAX_CHARS} characters.")
        if isinstance(value, int):
            fits = -(1 << 63) <= value < 1 << 64
        elif isinstance(value, str | bytes):
            fits = len(value) <= _MAX_CHARS or name in long
        else:
            fits = isinstance(value, float)
        if not fits:
            raise MessageError(f"Expected one number, or a short text or bytes, for {name!r}.")
    return dict(config)


def pack(arrays: Arrays) -> tuple[str, bytes]:
    """Return two things: a layout of the arrays in JSON, and their bytes, in the order of names."""
    named = sorted(arrays.items())
    layout = [[name, a.dtype.newbyteorder("<").str, list(a.shape)] for name, a in named]
    contents = [np.ascontiguousarray(a, a.dtype.newbyteorder("<")).tobytes() for _, a in named]
    return json.dumps(layout), b"".join(contents)


def unpack(layout: str, payload: bytes, *, own: bool = False) -> dict[str, NDArray[Any]]:
    """Return the arrays of a layout and bytes that :func:`pack` made.

    Raise MessageError if the layout is malformed, or does not fit the payload.

    A message may have few arrays only, with short names. ``own`` lifts these two limits for bytes
    that the caller has packed, such as a network's parameters.
    """
    arrays: dict[str, NDArray[Any]] = {}
    position = 0
    try:
        if len(layout) > _MAX_LAYOUT:
            raise ValueError
        described = json.loads(layout, parse_int=_short)
        if not isinstance(described, list) or (len(described) > _MAX_FIELDS and not own):
            raise ValueError
        for name, dtype, shape in described:
            if not isinstance(name, str) or name in arrays:
                raise ValueError
            if len(name) > _MAX_CHARS and not own:
                raise ValueError
            if dtype not in _DTYPES or not isinstance(shape, list) or len(shape) > _MAX_DIMS:
                raise ValueError
            if not all(type(n) is int and n >= 0 for n in shape):
                raise ValueError
            end = position + math.prod(shape) * np.dtype(dtype).itemsize
            if end > len(payload):
                raise ValueError
            flat = np.frombuffer(payload[position:end], dtype)
            arrays[name] = flat.reshape(shape).copy()
            position = end
        if position != len(payload):
            raise ValueError
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise MessageError("Expected a layout of arrays that fits its payload.") from error
    return arrays


def _short(digits: str) -> int:
    """Return an integer of a layout; raise ValueError if it has more than 13 digits."""
    if len(digits) > _MAX_DIGITS:
        raise ValueError
    return int(digits)


def encoded(config: dict[str, Any], arrays: Arrays) -> RecordDict:
    """Return fields and arrays as the content of a Flower message."""
    layout, payload = pack(arrays)
    described: dict[str, Any] = {"version": FORMAT_VERSION, "layout": layout, **config}
    packed = np.frombuffer(payload, np.uint8)
    return RecordDict({"config": ConfigRecord(described), "arrays": ArrayRecord([packed])})


def decoded(content: RecordDict) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the fields and arrays of an untrusted message; raise MessageError if it is invalid."""
    if set(content) != {"config", "arrays"}:
        raise MessageError("Expected the records 'config' and 'arrays'.")
    described, packed = content["config"], content["arrays"]
    if not isinstance(described, ConfigRecord) or not isinstance(packed, ArrayRecord):
        raise MessageError("Expected a ConfigRecord and an ArrayRecord.")
    config = checked_fields(described, "layout")
    if config.pop("version", None) != FORMAT_VERSION:
        raise MessageError(f"Expected message format version {FORMAT_VERSION}.")
    layout = config.pop("layout", None)
    if not isinstance(layout, str):
        raise MessageError("Expected a layout and one array.")
    return config, unpack(layout, _payload(packed))


def _payload(packed: ArrayRecord) -> bytes:
    """Return the bytes of a record's one array.

    The array's header must equal the one that NumPy writes for a flat array of bytes. To parse any
    other header would take longer than the rest of the message.
    """
    if len(packed) != 1:
        raise MessageError("Expected one packed array.")
    (array,) = packed.values()
    data = array.data if array.stype == "numpy.ndarray" else b""
    header = _HEADER.match(data) if isinstance(data, bytes) else None
    if header is None or int(header[1]) != len(data) - header.end():
        raise MessageError("Expected one flat array of bytes.")
    return data[header.end() :]
