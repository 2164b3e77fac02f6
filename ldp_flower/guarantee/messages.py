"""What crosses the wire: whom a query is for, the query and the report, each with one encoding.

A message is one ConfigRecord that describes it and one packed byte array, since
Flower uploads every array of a message on its own. Decoding trusts nothing: a
field that is missing, unknown, of the wrong type or outside its range is refused,
and no array is built whose size the payload does not bear out.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from ..questions import WIRE_TYPES, Arrays, Question, WireType, question_from_wire
from ..questions import MessageError as MessageError
from ..randomizers import Randomizer, Summary, randomizer_from_config
from ..randomness import Words, derive

Slots = NDArray[np.int64]

#: Hashes lie in [0, HASH_END); 63 bits, so that bounds fit Flower's integers.
HASH_END = 1 << 63

_RUN = 1 << 15  # users that are hashed at a time: their hashes stay in the cache


class Purpose(IntEnum):
    """What a user's key is hashed for; hashes for different purposes have nothing in common."""

    COHORT = 1
    COIN = 2
    NOISE = 3  # this one and those below follow from a secret, in simulation only
    TRAINING = 4
    ROWS = 5


@dataclass(frozen=True)
class NodeKeys:
    """The keys of one node's users: (``group``, ``first`` + i) for slot i of ``count``.

    Everything random about a user hangs on its key, not on the node that hosts it: in simulation
    (0, index among all users), in a deployment (node id, slot on the node). Server and clients hash
    it the same way, so the server can cut users into cohorts of exact sizes by naming two hash
    values, and both can generate a user's public coin. In a series (of panels or of permanent
    answers) a deployed user's key is (0, a number from its ledger), which stays where users join,
    leave or move: ``numbers``, below 2**63, are these.
    """

    group: int
    first: int
    count: int
    numbers: Words | None = field(default=None, compare=False)

    def states(self, purpose: Purpose, seed: int, step: int, slots: Slots) -> Words:
        """Return what users' keys are hashed to, for one step of the run that a seed stands for."""
        if self.numbers is None:
            index = slots.astype(np.uint64) + np.uint64(self.first)
        else:
            index = self.numbers[slots]
        return derive(seed, purpose, step, self.group, index)

    def hashes(self, salt: int) -> Words:
        """Return the position of every user in [0, HASH_END), for cutting cohorts."""
        hashes = np.empty(self.count, np.uint64)
        for start in range(0, self.count, _RUN):
            slots = np.arange(start, min(start + _RUN, self.count))
            hashes[start : start + _RUN] = self.states(Purpose.COHORT, salt, 0, slots) >> np.uint64(
                1
            )
        return hashes

    def addressed(self, salt: int, low: int, high: int) -> Slots:
        """Return the slots of the users whose hash lies in ``[low, high)``."""
        hashes = self.hashes(salt)
        return np.flatnonzero((hashes >= np.uint64(low)) & (hashes < np.uint64(high)))

    def coins(self, salt: int, step: int, slots: Slots) -> Words:
        """Return the users' public coins for one step."""
        return self.states(Purpose.COIN, salt, step, slots)


FORMAT_VERSION = 1
MAX_COLLECTIONS = 1000  # of a series with permanent answers

QUERY = "report"
CENSUS = "census"
NUMBERS = "numbers"  # what the census of a series asks for, and replies


class ErrorCode(IntEnum):
    """Why a client does not answer; code and text depend on public facts only."""

    MALFORMED = 100
    FORBIDDEN = 101
    EXHAUSTED = 102  # no addressed user can afford the answer
    MISCONFIGURED = 103
    FAILED = 104
    GONE = 105  # the answer was paid for before, and is no longer kept


# Of a flat array of bytes, as numpy.save writes it, of 128 bytes.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00v\x00{'descr': '\|u1', 'fortran_order': False, "
    rb"'shape': \(([0-9]{1,18}),\), } *\n"
)

_DTYPES = {"<f8", "<f4", "|u1", "<u2", "<u4", "<i8"}

# What is looked at of a message at all. These bounds come first, so that the work is small
# whatever a message holds.
_MAX_FIELDS, _MAX_CHARS = 64, 256  # number of fields or arrays, characters of a name or text
_MAX_LAYOUT = 1 << 20  # characters of a layout
_MAX_DIGITS, _MAX_DIMS = 13, 8  # digits of a number in a layout, and number of dimensions


def bounded(config: Mapping[str, Any], *long: str) -> dict[str, Any]:
    """Return the fields of a ConfigRecord that anybody may have written.

    Raise MessageError unless they are few, and each is one number of 64 bits or a short text;
    those named in ``long`` may be texts or bytes of any length.
    """
    if len(config) > _MAX_FIELDS:
        raise MessageError(f"Expected at most {_MAX_FIELDS} fields, got {len(config)}.")
    for name, value in config.items():
        if len(name) > _MAX_CHARS:
            raise MessageError(f"Expected names of at most {_MAX_CHARS} characters.")
        if isinstance(value, int):
            fits = -HASH_END <= value < 2 * HASH_END
        elif isinstance(value, str | bytes):
            fits = len(value) <= _MAX_CHARS or name in long
        else:
            fits = isinstance(value, float)
        if not fits:
            raise MessageError(f"Expected one number or a short text for {name!r}.")
    return dict(config)


def pack(arrays: Arrays) -> tuple[str, bytes]:
    """Return arrays as a layout (JSON) and their bytes, in order of their names."""
    named = sorted(arrays.items())
    layout = [[name, a.dtype.newbyteorder("<").str, list(a.shape)] for name, a in named]
    contents = [np.ascontiguousarray(a, a.dtype.newbyteorder("<")).tobytes() for _, a in named]
    return json.dumps(layout), b"".join(contents)


def unpack(layout: str, payload: bytes, *, own: bool = False) -> dict[str, NDArray[Any]]:
    """Undo :func:`pack`; MessageError if the layout is malformed or does not fit the payload.

    A message has few arrays of short names; what one has packed and kept oneself, a network's
    parameters, may have more.
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
    """Return an integer of a layout; raise ValueError if it has more digits than any array's."""
    if len(digits) > _MAX_DIGITS:
        raise ValueError
    return int(digits)


def _to_record_dict(config: dict[str, Any], arrays: Arrays) -> RecordDict:
    layout, payload = pack(arrays)
    described: dict[str, Any] = {"version": FORMAT_VERSION, "layout": layout, **config}
    packed = np.frombuffer(payload, np.uint8)
    return RecordDict({"config": ConfigRecord(described), "arrays": ArrayRecord([packed])})


def _from_record_dict(content: RecordDict) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if set(content) != {"config", "arrays"}:
        raise MessageError("Expected the records 'config' and 'arrays'.")
    described, packed = content["config"], content["arrays"]
    if not isinstance(described, ConfigRecord) or not isinstance(packed, ArrayRecord):
        raise MessageError("Expected a ConfigRecord and an ArrayRecord.")
    config = bounded(described, "layout")
    if config.pop("version", None) != FORMAT_VERSION:
        raise MessageError(f"Expected message format version {FORMAT_VERSION}.")
    layout = config.pop("layout", None)
    if not isinstance(layout, str):
        raise MessageError("Expected a layout and one array.")
    return config, unpack(layout, _payload(packed))


def _payload(packed: ArrayRecord) -> bytes:
    """Return the bytes of a record's one array.

    Its header is compared with the only one that NumPy writes for it: to read whatever
    else a header may say takes longer than all the rest of a message.
    """
    if len(packed) != 1:
        raise MessageError("Expected one packed array.")
    (array,) = packed.values()
    data = array.data if array.stype == "numpy.ndarray" else b""
    header = _HEADER.match(data) if isinstance(data, bytes) else None
    if header is None or int(header[1]) != len(data) - header.end():
        raise MessageError("Expected one flat array of bytes.")
    return data[header.end() :]


@dataclass(frozen=True)
class Query:
    """One question to the users of one cohort.

    Attributes
    ----------
    salt : int
        Public salt of the run, in ``[0, 2**63)``: hashes keys into cohorts and coins.
    low, high : int
        Users whose hash lies in ``[low, high)`` are addressed.
    step : int
        Number of the question in its run, from 1.
    collections : int, optional
        Of a series with permanent answers: how many times it is asked in all. What a user answers
        then follows from its value and from a secret that it keeps for the series.
    numbered : bool (default: False)
        Whether keys are those of the numbers that users keep, not of their places on a node.
    """

    question: Question
    randomizer: Randomizer
    salt: int
    low: int
    high: int
    step: int
    collections: int | None = None
    numbered: bool = False

    def __post_init__(self) -> None:
        if type(self.numbered) is not bool:
            raise MessageError(f"Expected numbered true or false, got {self.numbered!r}.")
        if self.collections is not None and (
            type(self.collections) is not int or not 2 <= self.collections <= MAX_COLLECTIONS
        ):
            raise MessageError(
                f"Expected 2 <= collections <= {MAX_COLLECTIONS}, got {self.collections!r}."
            )
        for name, limit in (("salt", HASH_END - 1), ("low", HASH_END), ("high", HASH_END)):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= limit:
                raise MessageError(f"Expected 0 <= {name} <= {limit}, got {value!r}.")
        if type(self.step) is not int or not 1 <= self.step < 1 << 32:
            raise MessageError(f"Expected 1 <= step < 2**32, got {self.step!r}.")

    @property
    def statistic(self) -> str:
        """What the wire and the ledger call the question."""
        return self.question.name

    @property
    def series(self) -> str:
        """What identifies a series of permanent answers: all but the number of the question."""
        return replace(self, step=1).digest()

    @property
    def coin_step(self) -> int:
        """The step of the users' public coins: of a series with permanent answers always 0."""
        return self.step if self.collections is None else 0

    def to_config(self) -> dict[str, Any]:
        """Return all but the arrays as plain values for a Flower ConfigRecord."""
        statistic, _, params = self.question.to_wire()
        return (
            {"statistic": statistic, "salt": self.salt, "step": self.step}
            | {"low": self.low, "high": self.high}
            | ({} if self.collections is None else {"collections": self.collections})
            | ({"numbered": True} if self.numbered else {})
            | {f"param.{name}": number for name, number in params.items()}
            | {f"randomizer.{name}": v for name, v in self.randomizer.to_config().items()}
        )

    def to_record_dict(self) -> RecordDict:
        """Encode for a Flower message."""
        return _to_record_dict(self.to_config(), self.question.to_wire()[1])

    @classmethod
    def from_record_dict(
        cls, content: RecordDict, forms: Mapping[str, WireType] = WIRE_TYPES
    ) -> "Query":
        """Decode a Flower message's content; ``forms`` is what can be asked by.

        Raises MessageError if it is not a well-formed query.
        """
        return cls.from_config(*_from_record_dict(content), forms)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], arrays: Arrays, forms: Mapping[str, WireType] = WIRE_TYPES
    ) -> "Query":
        """Build a query from untrusted plain values; raise MessageError if it is none."""
        sections: dict[str, dict[str, Any]] = {"param": {}, "randomizer": {}, "": {}}
        for name, value in config.items():
            section, _, rest = name.rpartition(".")
            if section not in sections:
                raise MessageError(f"Unknown field {name!r} in a query.")
            sections[section][rest] = value
        own = sections[""]
        if set(own) - {"collections", "numbered"} != {"statistic", "salt", "low", "high", "step"}:
            raise MessageError(f"Unknown or missing fields in a query: {sorted(own)}.")
        question = question_from_wire(own.pop("statistic"), arrays, sections["param"], forms)
        try:
            randomizer = randomizer_from_config(sections["randomizer"])
        except (ValueError, TypeError, OverflowError) as error:
            raise MessageError(f"Refused randomizer: {error}") from error
        return cls(question, randomizer, **own)

    @property
    def summary(self) -> tuple[str, str]:
        """What is asked and how it is randomised, by name."""
        return self.statistic, type(self.randomizer).__name__

    def digest(self, *about: object) -> str:
        """Hash all that decides the reports: this query and ``about`` (keys, users).

        The id of the run and of the message are no part of it: the same question
        asked again is the same question.
        """
        layout, payload = pack(self.question.to_wire()[1])
        described = json.dumps([self.to_config(), layout, *map(str, about)], sort_keys=True)
        return hashlib.sha256(described.encode() + b"\0" + payload).hexdigest()


@dataclass(frozen=True)
class Report:
    """What a node answers: single randomised reports, or their sums if those are shorter.

    ``arrays`` are ``slots`` and ``reports``, with ``public`` if the statistic sends public data of
    the same users; ``count``, ``sum`` and ``sum_of_squares``; or, with noise at the node,
    ``count`` and ``noisy_sum``. Where users have numbers
    that stay theirs, ``numbers`` take the place of ``slots``.
    """

    arrays: Arrays

    @classmethod
    def of_reports(
        cls,
        slots: NDArray[np.int64],
        reports: NDArray[Any],
        public: NDArray[np.float32] | None = None,
        numbers: Words | None = None,
    ) -> "Report":
        """Return the single reports of the users in ``slots``, and their public data.

        ``numbers`` are those of all users of the node, if they have any.
        """
        users = {"slots": slots.astype(np.uint32)}
        if numbers is not None:
            users = {NUMBERS: numbers[slots].astype(np.int64)}
        single = {**users, "reports": reports}
        return cls(single if public is None else single | {"public": public})

    @classmethod
    def of_summary(cls, summary: Summary) -> "Report":
        """Return the sums of a node's reports."""
        count = np.array([summary.count], np.int64)
        return cls({"count": count, "sum": summary.sum, "sum_of_squares": summary.sum_of_squares})

    @classmethod
    def of_node(cls, num_users: int, noisy_sum: NDArray[np.int64]) -> "Report":
        """Return the sum over a node's users with noise, and the public number of these users."""
        return cls({"count": np.array([num_users], np.int64), "noisy_sum": noisy_sum})

    def to_bytes(self) -> bytes:
        """Encode for the ledger."""
        layout, payload = pack(self.arrays)
        return layout.encode() + b"\n" + payload

    @classmethod
    def from_bytes(cls, encoded: bytes) -> "Report":
        """Undo :meth:`to_bytes`."""
        layout, _, payload = encoded.partition(b"\n")
        return cls(unpack(layout.decode(), payload, own=True))

    def to_record_dict(self) -> RecordDict:
        """Encode for a Flower message."""
        return _to_record_dict({}, self.arrays)

    @classmethod
    def from_record_dict(cls, content: RecordDict) -> "Report":
        """Decode a Flower message's content; raise MessageError if it is no well-formed report."""
        config, arrays = _from_record_dict(content)
        by = {"slots", NUMBERS} & set(arrays)
        single = len(by) == 1 and set(arrays) - {"public"} == {*by, "reports"}
        sums = ({"count", "sum", "sum_of_squares"}, {"count", "noisy_sum"})
        if config or (not single and set(arrays) not in sums):
            raise MessageError("Expected single reports or their sums.")
        return cls(arrays)
