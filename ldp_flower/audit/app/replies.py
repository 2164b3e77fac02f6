"""What a server sees of one reply: its form, piece by piece, and the numbers in it."""

import hashlib
import io
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message

from ...validation import Floats

#: Follows the path of a text, or of bytes, where numbers in it are meant.
IN_TEXT = ": numbers in it"
#: Follows it where its length is meant, which ciphers and random texts have, too.
LENGTH = ": length"
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_NPY = b"\x93NUMPY"
_LOW = {2: 0xF, 4: 0xFF, 8: 0xFFFF}  # by bytes of a float
_NOW = 1.0  # seconds: a reply was made between the question and this long after its arrival


@dataclass
class Seen:
    """One reply.

    Attributes
    ----------
    form : dict of str to object
        All that is no number, by what it is: names and order of records and keys, types,
        shapes, texts, codes of errors, metadata, and where numbers are not finite.
    numbers : dict of str to ndarray
        Every array and every metric, by record and key, as floats in one dimension.
    low_bits : dict of str to ndarray
        The last bits of those that are floats, which noise has to reach, too.
    clocks : frozenset of str
        Those numbers that are readings of a clock, and differ between runs for that reason.
    """

    form: dict[str, object] = field(default_factory=dict)
    numbers: dict[str, Floats] = field(default_factory=dict)
    low_bits: dict[str, Floats] = field(default_factory=dict)
    clocks: frozenset[str] = frozenset()

    @property
    def form_digest(self) -> bytes:
        """A hash of the form: what is there, how long and under which names."""
        texts = {path.removesuffix(IN_TEXT) for path in self.numbers if path.endswith(IN_TEXT)}
        form = [item for item in self.form.items() if item[0].removesuffix(LENGTH) not in texts]
        return hashlib.sha256(repr(sorted(form, key=lambda item: item[0])).encode()).digest()[:8]

    @property
    def digest(self) -> bytes:
        """A hash of everything."""
        made = hashlib.sha256(repr(sorted(self.form.items(), key=lambda item: item[0])).encode())
        for name, values in self.numbers.items():
            if name in self.clocks:
                continue
            made.update(name.encode() + values.tobytes())
        return made.digest()[:8]


def seen(message: Message, reply: Message | None, started: float, ended: float) -> Seen:
    """Return what a server sees of the reply to a message, made between two times."""
    if reply is None:
        return Seen({"reply": "none"})
    found = Seen({"reply": "content"})
    found.form |= _metadata(message, reply, started, ended)
    if reply.has_error():
        found.form |= {
            "reply": "error",
            "error code": reply.error.code,
            "error text": str(reply.error.reason),
        }
        _add_numbers_of(found, "error text", str(reply.error.reason))
        return found
    content = reply.content
    found.form["records"] = tuple((name, type(record).__name__) for name, record in content.items())
    for name, record in content.items():
        found.form[f"{name}: keys"] = tuple(record)
        for key, value in record.items():
            _add(found, f"{name}/{key}", value, isinstance(record, ArrayRecord))
    return found


def _metadata(message: Message, reply: Message, started: float, ended: float) -> dict[str, object]:
    asked, given = message.metadata, reply.metadata
    made: object = "then"
    if not started - _NOW <= given.created_at <= ended + _NOW:
        made = round(given.created_at, 6)
    # Flower lets a reply live as long as its question does; else somebody chose.
    until = given.created_at + given.ttl - asked.created_at - asked.ttl
    lives: object = "as asked" if abs(until) < _NOW else round(given.ttl, 3)
    return {
        "metadata: message type": given.message_type,
        "metadata: group": given.group_id,
        "metadata: receiver": given.dst_node_id,
        "metadata: ttl": lives,
        "metadata: created at": made,
    }


def _add_numbers_of(found: Seen, path: str, value: object) -> None:
    """Add numbers that a text has, or an array that bytes are: of what is beside them, noise."""
    if isinstance(value, bytes) and value.startswith(_NPY):
        try:
            array = np.load(io.BytesIO(value), allow_pickle=False)
        except ValueError:
            return
        if array.dtype.kind in "fiub":
            found.numbers[f"{path}{IN_TEXT}"] = np.nan_to_num(array.astype(np.float64).ravel())
        return
    texts = value if isinstance(value, list) else [value]
    numbers = [n for text in texts if isinstance(text, str) for n in _NUMBER.findall(text)]
    if numbers:
        found.numbers[f"{path}{IN_TEXT}"] = np.nan_to_num(np.array(numbers, np.float64))


def _add(found: Seen, path: str, value: Any, is_array: bool) -> None:
    if is_array:
        try:
            array = np.asarray(value.numpy())
        except Exception as error:  # of a type that NumPy's reader refuses
            found.form[path] = (value.dtype, tuple(value.shape), type(error).__name__, value.data)
            return
        found.form[f"{path}: type"] = (str(array.dtype), array.flags.f_contiguous)
        found.form[f"{path}: shape"] = array.shape
    else:
        array = np.asarray(value)
        found.form[f"{path}: type"] = type(value).__name__
        if isinstance(value, list):
            found.form[f"{path}: shape"] = len(value)
            found.form[f"{path}: type"] = f"list of {type(value[0]).__name__}" if value else "list"
    if array.dtype.kind not in "fiub":
        found.form[path] = value if not is_array else array.tobytes()
        if not is_array:
            texts = value if isinstance(value, list) else [value]
            found.form[path + LENGTH] = [len(text) for text in texts]
        _add_numbers_of(found, path, value if not is_array else array.tolist())
        return
    numbers = array.astype(np.float64).ravel()
    bad = ~np.isfinite(numbers)
    if bad.any():
        # By their bits: a NaN has room for a message.
        found.form[f"{path}: not finite"] = tuple(
            (int(i), array.ravel()[i].tobytes().hex()) for i in np.flatnonzero(bad)[:1000]
        )
    if array.dtype.kind == "f":
        bits = np.ascontiguousarray(array).ravel().view(f"u{array.dtype.itemsize}")
        found.low_bits[path] = (bits & _LOW[array.dtype.itemsize]).astype(np.float64)
    found.numbers[path] = np.nan_to_num(numbers, posinf=1e300, neginf=-1e300)
