"""What a server sees of one reply: its form, piece by piece, and the numbers in it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message

from ...validation import Floats

#: Follows the path of a text: its length, which ciphers and random texts have, too.
LENGTH = ": length"
#: Follows the path of floats: their last bits, which noise has to reach, too.
LAST_BITS = ": last bits"
_LOW = {2: 0xF, 4: 0xFF, 8: 0xFFFF}  # masks, by bytes of a float: a quarter of its bits
_NOW = 1.0  # seconds within which a time is that of the reply


@dataclass
class Seen:
    """One reply: its form and its numbers, by record and key."""

    # Names and order of records and keys, types, shapes, texts, errors, metadata.
    form: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Floats] = field(default_factory=dict)

    def without_values(self) -> "Seen":
        """Return names, types, lengths and errors only."""
        return Seen({p: form for p, form in self.form.items() if "/" not in p or ": " in p})


def seen(message: Message, reply: Message | None, now: float) -> Seen:
    """Return what a server sees of the reply to a message that was answered now."""
    if reply is None:
        return Seen({"reply": "none"})
    asked, given = message.metadata, reply.metadata
    # Flower lets a reply live as long as its question does.
    until = given.created_at + given.ttl - asked.created_at - asked.ttl
    form: dict[str, object] = {
        "reply": "content",
        "metadata: message type": given.message_type,
        "metadata: group": given.group_id,
        "metadata: receiver": given.dst_node_id,
        "metadata: ttl": "as asked" if abs(until) < _NOW else round(given.ttl, 3),
        "metadata: created at": "now" if abs(given.created_at - now) < _NOW else given.created_at,
    }
    numbers: dict[str, Floats] = {}
    if reply.has_error():
        form["reply"] = f"error {reply.error.code}: {reply.error.reason}"
    else:
        content = reply.content
        form["records"] = tuple((name, type(record).__name__) for name, record in content.items())
        for name, record in content.items():
            form[f"{name}: keys"] = tuple(record)
            for key, value in record.items():
                _add(f"{name}/{key}", value, isinstance(record, ArrayRecord), form, numbers)
    seen = {path: repr(value) for path, value in form.items()}
    return Seen(seen | {"reply": str(form["reply"])}, numbers)


def _add(
    path: str, value: Any, is_array: bool, form: dict[str, object], numbers: dict[str, Floats]
) -> None:
    if is_array:
        try:
            array = np.asarray(value.numpy())
        except Exception as error:  # of a type that NumPy's reader refuses
            form[path] = (value.dtype, tuple(value.shape), type(error).__name__, value.data)
            return
        form[f"{path}: type"] = (str(array.dtype), array.flags.f_contiguous)
        form[f"{path}: shape"] = array.shape
    else:
        array = np.asarray(value)
        form[f"{path}: type"] = type(value).__name__
        if isinstance(value, list):
            form[f"{path}: shape"] = len(value)
            form[f"{path}: type"] = f"list of {type(value[0]).__name__}" if value else "list"
    if array.dtype.kind not in "fiub":
        form[path] = array.tobytes() if is_array else value
        if not is_array:
            texts = value if isinstance(value, list) else [value]
            form[path + LENGTH] = [len(text) for text in texts]
        return
    flat = array.ravel()
    bad = np.flatnonzero(~np.isfinite(flat.astype(np.float64)))
    if len(bad):  # by their bits: a NaN has room for a message
        form[f"{path}: not finite"] = [(int(i), flat[i].tobytes().hex()) for i in bad[:1000]]
    numbers[path] = np.nan_to_num(flat.astype(np.float64), posinf=1e300, neginf=-1e300)
    if array.dtype.kind == "f":
        bits = np.ascontiguousarray(flat).view(f"u{array.dtype.itemsize}")
        numbers[path + LAST_BITS] = (bits & _LOW[array.dtype.itemsize]).astype(np.float64)
