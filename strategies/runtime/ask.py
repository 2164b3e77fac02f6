"""What a protocol asks a cohort: the message, and what becomes of the replies."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from ldp_flower.guarantee.messages import NUMBERS, MessageError, NodeKeys, Query, Report, Slots
from ldp_flower.guarantee.training import with_query
from ldp_flower.questions import Arrays, Question
from ldp_flower.randomizers import Estimate, Randomizer, RecordMechanism, Summary
from ldp_flower.randomness import Words
from ldp_flower.validation import Floats, PlainFields

from .facts import PrivacySpent
from .population import Cohort


class Asked(ABC):
    """What a cohort is asked in one step.

    Attributes
    ----------
    cohort : Cohort
        Whom to ask.
    min_reports : int or None
        Fewest reports with which the run goes on; None: a quarter of the strategy's.
    condensed : bool
        Whether a store keeps the answers of all nodes together once a step is over, as where each
        of them is large.
    """

    cohort: Cohort
    min_reports: int | None
    condensed: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """What a result calls the question."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """What randomises the answers."""

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """Size of one user's report."""

    @abstractmethod
    def for_coin(self, coin: int) -> "Asked":
        """Return the question as it is asked with a public coin."""

    @abstractmethod
    def sent(self, salt: int, number: int, numbered: bool) -> RecordDict:
        """Return what a node is sent."""

    @abstractmethod
    def read(self, content: RecordDict) -> bytes:
        """Return a reply as the store keeps it; raise MessageError if it is none."""

    @abstractmethod
    def part(
        self, content: bytes, keys: NodeKeys, salt: int, number: int, slots: Slots
    ) -> Any | None:
        """Return a node's part of the answer, with a ``count`` of users; None if it is forged."""

    @abstractmethod
    def together(self, parts: Sequence[Any]) -> Any:
        """Return the answer, with a ``count`` of users, that parts make."""

    def metrics(self, answer: Any) -> dict[str, int | float]:
        """Return what a step's metrics hold of an answer besides its counts."""
        return {}

    def to_bytes(self, answer: Any) -> bytes:
        """Return an answer as the store keeps it, where it is kept ``condensed``."""
        raise NotImplementedError

    def from_bytes(self, kept: bytes) -> Any:
        """Undo :meth:`to_bytes`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Answers:
    """Single reports: of randomizers that do not add up, with public data, or permanent."""

    reports: NDArray[np.generic]  # (users, *report_shape): the reports
    coins: Words  # (users,): the public coins that they were made with
    # (users, *public_shape): the same users' public data, of no columns if none were asked for
    public: NDArray[np.float32]
    randomizer: Randomizer  # that made them, with the coin of their cohort

    @property
    def values(self) -> Floats:
        """An unbiased estimate of each user's value, shape (users, width)."""
        return self.randomizer.debias(self.reports, self.coins)

    @property
    def count(self) -> int:
        """Number of reports."""
        return len(self.reports)


@dataclass(frozen=True)
class Ask(PlainFields, Asked):
    """One question to one cohort, as a protocol yields it.

    Attributes
    ----------
    cohort : Cohort
        Whom to ask.
    question : Question
        What each user computes.
    randomizer : Randomizer
        How each user's value becomes a report.
    content : RecordDict, optional
        Records of an app's own that the question rides on, instead of arrays.
    public : tuple of int, optional
        Shape of each user's public data, which the question has sent beside the reports:
        then the answer is :class:`Answers`, whatever the randomizer.
    min_reports : int, optional
        Fewest reports with which the run goes on; by default a quarter of the strategy's. Fewer
        will do for a question whose answer helps but is not needed.
    collections : int, optional
        Of a series with permanent answers, as of :class:`Query`: then the answer is
        :class:`Answers`.
    """

    cohort: Cohort
    question: Question
    randomizer: Randomizer
    content: RecordDict | None = None
    public: tuple[int, ...] | None = None
    min_reports: int | None = None
    collections: int | None = None

    @property
    def single(self) -> bool:
        """Whether single reports are asked for, not their sums."""
        several = self.public is not None or self.collections is not None
        return several or not self.randomizer.summable

    @property
    def name(self) -> str:
        """What a result calls the question."""
        return self.question.name

    @property
    def mechanism(self) -> str:
        """The randomizer that answers."""
        return type(self.randomizer).__name__

    @property
    def report_bytes(self) -> int:
        """Size of one user's report."""
        return self.randomizer.report_bytes

    def for_coin(self, coin: int) -> "Ask":
        """Return the question with the randomizer that its cohort uses."""
        return replace(self, randomizer=self.randomizer.for_cohort(self.cohort.size, coin))

    def sent(self, salt: int, number: int, numbered: bool) -> RecordDict:
        """Return what a node is sent: a query, or an app's own records that it rides on."""
        query = replace(self.query(salt, number), numbered=numbered)
        return query.to_record_dict() if self.content is None else with_query(self.content, query)

    def read(self, content: RecordDict) -> bytes:
        """Return a reply as the store keeps it; raise MessageError if it is none."""
        return Report.from_record_dict(content).to_bytes()

    def part(
        self, content: bytes, keys: NodeKeys, salt: int, number: int, slots: Slots
    ) -> Summary | Answers | None:
        """Return a node's part, or None if it cannot come from the users who were asked."""
        coin_step = number if self.collections is None else 0
        return _checked(content, self, coin_step, keys, salt, slots)

    def together(self, parts: Sequence[Summary | Answers]) -> Estimate | Answers:
        """Return the mean of all reports, or the reports if they do not add up."""
        return _together(self, parts)

    def query(self, salt: int, number: int) -> Query:
        """Return the question as the wire numbers it, in the run of this salt."""
        cohort = self.cohort
        return Query(
            *(self.question, self.randomizer, salt, cohort.low, cohort.high, number),
            self.collections,
        )


def privacy_spent(asked: Sequence[Ask], unit: str, seeded: bool) -> PrivacySpent:
    """Return what one user spent, at most, by answering all these questions."""
    # Costs add up where cohorts overlap; the sum is largest at the low end of one.
    places = {ask.cohort.low for ask in asked}
    costs = [
        _charged([ask.randomizer for ask in asked if ask.cohort.low <= at < ask.cohort.high])
        for at in places
    ]
    return PrivacySpent(
        max(sum(mechanism.epsilon for mechanism in those) for those in costs),
        max(sum(mechanism.delta for mechanism in those) for those in costs),
        unit,
        all(ask.randomizer.exact for ask in asked),
        seeded,
    )


def _charged(mechanisms: Sequence[Randomizer]) -> list[Randomizer]:
    """Leave out those that belong to a plan already paid."""
    plans = Counter[str]()
    charged = []
    for mechanism in mechanisms:
        if isinstance(mechanism, RecordMechanism):
            plans[mechanism.plan] += 1
            if plans[mechanism.plan] % mechanism.steps != 1 % mechanism.steps:
                continue
        charged.append(mechanism)
    return charged


def with_known_noise(answer: Estimate, randomizer: Randomizer) -> Estimate:
    """Return the mean of few reports, whose spread shows less of the noise than is known of it."""
    known = math.sqrt(randomizer.variance / max(answer.count, 1))
    return replace(answer, std_error=np.maximum(answer.std_error, known))


def _checked(
    content: bytes, ask: Ask, coin_step: int, keys: NodeKeys, salt: int, slots: Slots
) -> Summary | Answers | None:
    """Return a node's part, or None if it cannot come from the users who were asked."""
    try:
        arrays = Report.from_bytes(content).arrays
    except MessageError:
        return None
    randomizer = ask.randomizer
    if "reports" not in arrays:
        if ask.single:
            return None
        count = arrays["count"]
        if count.shape != (1,) or not 1 <= count[0] <= len(slots):
            return None
        summary = Summary(int(count[0]), arrays["sum"], arrays["sum_of_squares"])
        return summary if randomizer.accepts(summary, keys.coins(salt, coin_step, slots)) else None
    if keys.numbers is not None:
        arrays = _with_slots(arrays, keys.numbers, slots)
    if "slots" not in arrays:  # by numbers, though there are none, or the other way round
        return None
    answered, reports = arrays["slots"], arrays["reports"]
    if answered.ndim != 1 or answered.dtype.kind != "u" or not np.isin(answered, slots).all():
        return None
    answered = answered.astype(np.int64)
    if len(np.unique(answered)) != len(answered):
        return None
    if not randomizer.well_formed(reports, len(answered)):
        return None
    public = arrays.get("public")
    if public is None:
        public = _no_data(len(answered), None)
    if public.dtype != np.float32 or public.shape != _no_data(len(answered), ask.public).shape:
        return None
    return Answers(reports, keys.coins(salt, coin_step, answered), public, randomizer)


def _with_slots(arrays: Arrays, numbers: Words, slots: Slots) -> Arrays:
    """Return reports by users' numbers as reports by slots, of those who were in the census."""
    own = arrays.get(NUMBERS)
    if own is None or own.dtype != np.int64 or own.ndim != 1:
        return {}
    if any(each.shape[:1] != own.shape for each in arrays.values()):
        return {}
    order = slots[np.argsort(numbers[slots])]
    places = np.searchsorted(numbers[order], own.astype(np.uint64))
    found = order[np.minimum(places, len(order) - 1)]
    known = numbers[found] == own.astype(np.uint64)
    others = {name: each[known] for name, each in arrays.items() if name != NUMBERS}
    return {**others, "slots": found[known].astype(np.uint32)}


def _no_data(users: int, shape: tuple[int, ...] | None) -> NDArray[np.float32]:
    """Return public data of zeros; without a shape, of no columns."""
    return np.zeros((users, *((0,) if shape is None else shape)), np.float32)


def _together(ask: Ask, parts: Sequence[Summary | Answers]) -> Estimate | Answers:
    randomizer = ask.randomizer
    single = [part for part in parts if isinstance(part, Answers)]
    nothing = np.empty((0, *randomizer.report_shape), randomizer.report_dtype)
    answers = Answers(
        np.concatenate([nothing, *(part.reports for part in single)]),
        np.concatenate([np.empty(0, np.uint64), *(part.coins for part in single)]),
        np.concatenate([_no_data(0, ask.public), *(part.public for part in single)]),
        randomizer,
    )
    if ask.single:
        return answers
    summaries = [part for part in parts if isinstance(part, Summary)]
    return randomizer.estimate(sum(summaries, randomizer.summarize(answers.reports, answers.coins)))
