"""Messages between server and clients: addressed users, query and report, with their encodings.

A message is one ConfigRecord that describes it and one packed byte array, since Flower uploads
every array of a message separately. Decoding trusts no message. It refuses a field that is missing,
unknown, of the wrong type or outside its range. It builds an array only if the payload holds all
bytes of the array.
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
from .peers import SIGNATURE_BYTES, is_name

Slots = NDArray[np.int64]

#: Hashes lie in [0, HASH_END). They have 63 bits, so that bounds fit Flower's integers.
HASH_END = 1 << 63

_RUN = 1 << 15  # number of users hashed at a time, so that their hashes stay in the cache


class Purpose(IntEnum):
    """Purpose for which a user's key is hashed; different purposes give unrelated hashes."""

    COHORT = 1
    COIN = 2
    NOISE = 3  # this purpose and those below use a secret seed, in simulation only
    TRAINING = 4
    ROWS = 5


@dataclass(frozen=True)
class NodeKeys:
    """The keys of a node's ``count`` users. The user in slot i has (``group``, ``first`` + i).

    A user's random choices depend on its key, not on the node that hosts the user. The key is
    (0, index among all users) in simulation and (node id, slot on the node) in a deployment. Server
    and clients hash the key in the same way. So the server can cut users into cohorts of exact
    sizes by naming two hash values, and both sides can generate a user's public coin. In a series
    of panels or of permanent answers, a deployed user's key is (0, a number from its ledger). This
    number stays the same when users join, leave or move. ``numbers`` holds these numbers, all below
    2**63.
    """

    group: int
    first: int
    count: int
    numbers: Words | None = field(default=None, compare=False)

    def states(self, purpose: Purpose, seed: int, step: int, slots: Slots) -> Words:
        """Return the hashes of the keys of the users in ``slots``.

        Hashes for another purpose, another seed (of a run) or another step are unrelated.
        """
        if self.numbers is None:
            index = slots.astype(np.uint64) + np.uint64(self.first)
        else:
            index = self.numbers[slots]
        return derive(seed, purpose, step, self.group, index)

    def hashes(self, salt: int) -> Words:
        """Return every user's hash, in [0, HASH_END), by which the server puts it into a cohort."""
        hashes = np.empty(self.count, np.uint64)
        for start in range(0, self.count, _RUN):
            slots = np.arange(start, min(start + _RUN, self.count))
            states = self.states(Purpose.COHORT, salt, 0, slots)
            hashes[start : start + _RUN] = states >> np.uint64(1)
        return hashes

    def addressed(self, salt: int, low: int, high: int) -> Slots:
        """Return the slots of the users in a cohort: those whose hash lies in ``[low, high)``."""
        hashes = self.hashes(salt)
        return np.flatnonzero((hashes >= np.uint64(low)) & (hashes < np.uint64(high)))

    def coins(self, salt: int, step: int, slots: Slots) -> Words:
        """Return the public random words that the users in ``slots`` have in one step."""
        return self.states(Purpose.COIN, salt, step, slots)


FORMAT_VERSION = 1
MAX_COLLECTIONS = 1000  # largest number of collections in a series with permanent answers

QUERY = "report"
CENSUS = "census"
NUMBERS = "numbers"  # record in the census of a series that asks for, or holds, users' numbers


class ErrorCode(IntEnum):
    """Reason for which a client does not answer; code and text depend on public facts only."""

    MALFORMED = 100
    FORBIDDEN = 101
    EXHAUSTED = 102  # no addressed user can afford the answer
    MISCONFIGURED = 103
    FAILED = 104
    GONE = 105  # the answer was paid for before, and its bytes were deleted since
    # Reasons of shared sums. No such refusal costs anything. ANOTHER_SET shows an earlier payment.
    PEERS_FILE = 110
    NO_COMMIT = 111
    NOT_A_MEMBER = 112
    UNKNOWN_PEER = 113
    SIGNATURE = 114
    TWICE = 115
    SET_TOO_SMALL = 116
    ANOTHER_SET = 117
    # Reasons of approved studies. No such refusal costs anything.
    STUDIES_FILE = 120
    NOT_APPROVED = 121
    NOT_SIGNED = 122
    STUDY_OVER = 123


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
    nor a short text. A field named in ``long`` may be text or bytes of any length.
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


@dataclass(frozen=True)
class Query:
    """One question to the users of one cohort.

    Attributes
    ----------
    salt : int
        Public salt of the run, in ``[0, 2**63)``. It seeds the hashes of keys for cohorts and
        coins.
    low, high : int
        The query addresses the users whose hash lies in ``[low, high)``.
    step : int
        Number of the question in its run, from 1.
    collections : int, optional
        Number of collections in a series with permanent answers. A user's answer then follows from
        its value and from a secret that it keeps for the series.
    numbered : bool (default: False)
        True if keys are built from the numbers on the users' ledgers, not from their slots on a
        node.
    study : str, optional
        Name of the approved study to which the query belongs.
    signature : bytes, optional
        Signature of the query for its study. It is not part of the query's digest.
    """

    question: Question
    randomizer: Randomizer
    salt: int
    low: int
    high: int
    step: int
    collections: int | None = None
    numbered: bool = False
    study: str | None = None
    signature: bytes | None = None

    def __post_init__(self) -> None:
        if self.study is not None and not is_name(self.study):
            raise MessageError(f"Expected the name of a study, got {self.study!r}.")
        if self.signature is not None and (
            type(self.signature) is not bytes or len(self.signature) != SIGNATURE_BYTES
        ):
            raise MessageError(f"Expected a signature of {SIGNATURE_BYTES} bytes.")
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
        """Name of the question on the wire and in the ledger."""
        return self.question.name

    @property
    def series(self) -> str:
        """Identifier of a series of permanent answers: the query's digest without its step."""
        return replace(self, step=1).digest()

    @property
    def coin_step(self) -> int:
        """Step of the users' public coins; always 0 in a series with permanent answers."""
        return self.step if self.collections is None else 0

    def to_config(self) -> dict[str, Any]:
        """Return the query without its arrays as plain values for a Flower ConfigRecord."""
        statistic, _, params = self.question.to_wire()
        return (
            {"statistic": statistic, "salt": self.salt, "step": self.step}
            | {"low": self.low, "high": self.high}
            | ({} if self.collections is None else {"collections": self.collections})
            | ({"numbered": True} if self.numbered else {})
            | ({} if self.study is None else {"study": self.study})
            | ({} if self.signature is None else {"signature": self.signature})
            | {f"param.{name}": number for name, number in params.items()}
            | {f"randomizer.{name}": v for name, v in self.randomizer.to_config().items()}
        )

    def to_record_dict(self) -> RecordDict:
        """Return the query as the content of a Flower message."""
        return _to_record_dict(self.to_config(), self.question.to_wire()[1])

    @classmethod
    def from_record_dict(
        cls, content: RecordDict, forms: Mapping[str, WireType] = WIRE_TYPES
    ) -> "Query":
        """Return the query in a Flower message's content.

        ``forms`` maps names of questions to the known wire types. Raise MessageError if the content
        is not a well-formed query.
        """
        return cls.from_config(*_from_record_dict(content), forms)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], arrays: Arrays, forms: Mapping[str, WireType] = WIRE_TYPES
    ) -> "Query":
        """Return the query of untrusted plain values; raise MessageError if they are invalid."""
        sections: dict[str, dict[str, Any]] = {"param": {}, "randomizer": {}, "": {}}
        for name, value in config.items():
            section, _, rest = name.rpartition(".")
            if section not in sections:
                raise MessageError(f"Unknown field {name!r} in a query.")
            sections[section][rest] = value
        own = sections[""]
        optional = {"collections", "numbered", "study", "signature"}
        if set(own) - optional != {"statistic", "salt", "low", "high", "step"}:
            raise MessageError(f"Unknown or missing fields in a query: {sorted(own)}.")
        question = question_from_wire(own.pop("statistic"), arrays, sections["param"], forms)
        try:
            randomizer = randomizer_from_config(sections["randomizer"])
        except (ValueError, TypeError, OverflowError) as error:
            raise MessageError(f"Refused randomizer: {error}") from error
        return cls(question, randomizer, **own)

    @property
    def summary(self) -> tuple[str, str]:
        """Names of the question and of the randomizer's class."""
        return self.statistic, type(self.randomizer).__name__

    def digest(self, *about: object) -> str:
        """Return a hash of all that decides the reports: this query and ``about`` (keys, users).

        The hash leaves out the ids of the run and of the message, so that a repeated query has the
        same digest. It leaves out the query's signature, which is over its digest.
        """
        layout, payload = pack(self.question.to_wire()[1])
        config = replace(self, signature=None).to_config()
        described = json.dumps([config, layout, *map(str, about)], sort_keys=True)
        return hashlib.sha256(described.encode() + b"\0" + payload).hexdigest()


@dataclass(frozen=True)
class Report:
    """A node's answer: single randomised reports, or their sums if these are shorter.

    For single reports, ``arrays`` holds ``slots`` and ``reports``, and ``public`` if the statistic
    sends public data of the same users. For sums of reports, it holds ``count``, ``sum`` and
    ``sum_of_squares``. For a node's sum with noise, it holds ``count`` and ``noisy_sum``. If nodes
    share the noise, it holds ``count``, ``masked`` and ``session``. In a series where users have
    numbers on their ledger, ``numbers`` replaces ``slots``.
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
        """Return a report with the single reports of the users in ``slots``, and public data.

        ``numbers`` holds the ledger numbers of all users of the node. If it is given, the report
        identifies users by these numbers instead of by slots.
        """
        users = {"slots": slots.astype(np.uint32)}
        if numbers is not None:
            users = {NUMBERS: numbers[slots].astype(np.int64)}
        single = {**users, "reports": reports}
        return cls(single if public is None else single | {"public": public})

    @classmethod
    def of_summary(cls, summary: Summary) -> "Report":
        """Return a report that has the sums of a node's reports instead of the reports."""
        count = np.array([summary.count], np.int64)
        return cls({"count": count, "sum": summary.sum, "sum_of_squares": summary.sum_of_squares})

    @classmethod
    def of_node(cls, num_users: int, noisy_sum: NDArray[np.int64]) -> "Report":
        """Return a report of a noisy sum over a node's users, and of their public number."""
        return cls({"count": np.array([num_users], np.int64), "noisy_sum": noisy_sum})

    @classmethod
    def of_shared(cls, num_users: int, masked: NDArray[np.uint64], session: bytes) -> "Report":
        """Return a report of a node's masked sum, and of the session for which it was masked.

        The sum includes the node's share of the noise.
        """
        return cls(
            {
                "count": np.array([num_users], np.int64),
                "masked": masked.view(np.int64),
                "session": np.frombuffer(session, np.uint8),
            }
        )

    def to_bytes(self) -> bytes:
        """Return the report as bytes, for the ledger."""
        layout, payload = pack(self.arrays)
        return layout.encode() + b"\n" + payload

    @classmethod
    def from_bytes(cls, encoded: bytes) -> "Report":
        """Return the report that :meth:`to_bytes` has encoded."""
        layout, _, payload = encoded.partition(b"\n")
        return cls(unpack(layout.decode(), payload, own=True))

    def to_record_dict(self) -> RecordDict:
        """Return the report as the content of a Flower message."""
        return _to_record_dict({}, self.arrays)

    @classmethod
    def from_record_dict(cls, content: RecordDict) -> "Report":
        """Return the report in a Flower message's content; raise MessageError if it is invalid."""
        config, arrays = _from_record_dict(content)
        by = {"slots", NUMBERS} & set(arrays)
        single = len(by) == 1 and set(arrays) - {"public"} == {*by, "reports"}
        sums = (
            *({"count", "sum", "sum_of_squares"}, {"count", "noisy_sum"}),
            {"count", "masked", "session"},
        )
        if config or (not single and set(arrays) not in sums):
            raise MessageError("Expected single reports or their sums.")
        return cls(arrays)
