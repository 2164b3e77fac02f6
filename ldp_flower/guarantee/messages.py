"""Messages between server and clients: addressed users, query and report."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from ..questions import WIRE_TYPES, Arrays, Question, WireType, question_from_wire
from ..questions import MessageError as MessageError
from ..randomizers import Randomizer, Summary, randomizer_from_config
from ..randomness import Words, derive
from .packing import decoded, encoded, pack, unpack
from .peers import SIGNATURE_BYTES, is_name

Slots = NDArray[np.int64]

#: Hashes lie in [0, HASH_END). They have 63 bits, so that bounds fit Flower's integers.
HASH_END = 1 << 63

_RUN = 1 << 15  # number of users hashed at a time, so that their hashes stay in the cache


class Purpose(IntEnum):
    """Purpose of a hash of a user's key; hashes for different purposes are unrelated."""

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
        """Return the hashes of the keys of the users in ``slots``, as seeds of random numbers.

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
        """Return a public random number of 64 bits for each user in ``slots``, for one step.

        The server computes the same numbers. Both sides use them for random choices that need not
        be secret, such as a user's hash function, which then need not be sent.
        """
        return self.states(Purpose.COIN, salt, step, slots)


MAX_COLLECTIONS = 1000  # largest number of collections in a series with permanent answers

QUERY = "report"
CENSUS = "census"
NUMBERS = "numbers"  # record in the census of a series that asks for, or holds, users' numbers


class ErrorCode(IntEnum):
    """Reason for which a client does not answer, as the code of Flower's ``Error``.

    Code and text depend on public facts only.
    """

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


@dataclass(frozen=True)
class Query:
    """One question to the users of one cohort.

    Attributes
    ----------
    question, randomizer : Question, Randomizer
        The statistic that each user computes, and the mechanism by which users answer.
    salt : int
        Public random seed of the run, in ``[0, 2**63)``. The users' hashes, which assign them to
        cohorts, and their public random numbers (coins) follow from it.
    low, high : int
        The query addresses the users whose hash lies in ``[low, high)``.
    step : int
        Number of the question in its run, from 1.
    collections : int, optional
        Number of collections in a series with permanent answers. A user's answer then follows from
        its value and from a secret that it keeps for the series.
    numbered : bool (default: False)
        True if a user is identified by its permanent number on the node's ledger, and False if by
        its slot, which is its position on the node.
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
        return encoded(self.to_config(), self.question.to_wire()[1])

    @classmethod
    def from_record_dict(
        cls, content: RecordDict, forms: Mapping[str, WireType] = WIRE_TYPES
    ) -> "Query":
        """Return the query in a Flower message's content.

        ``forms`` maps names of questions to the known wire types. Raise MessageError if the content
        is not a well-formed query.
        """
        return cls.from_config(*decoded(content), forms)

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
        """Names of the question and of the randomizer's class, which the ledger stores."""
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
        return encoded({}, self.arrays)

    @classmethod
    def from_record_dict(cls, content: RecordDict) -> "Report":
        """Return the report in a Flower message's content; raise MessageError if it is invalid."""
        config, arrays = decoded(content)
        by = {"slots", NUMBERS} & set(arrays)
        single = len(by) == 1 and set(arrays) - {"public"} == {*by, "reports"}
        sums = (
            *({"count", "sum", "sum_of_squares"}, {"count", "noisy_sum"}),
            {"count", "masked", "session"},
        )
        if config or (not single and set(arrays) not in sums):
            raise MessageError("Expected single reports or their sums.")
        return cls(arrays)
