"""Questions out, answers in: collection and checking of replies."""

import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from ldp_flower.guarantee.messages import (
    CENSUS,
    NUMBERS,
    QUERY,
    MessageError,
    NodeKeys,
    Query,
    Report,
    Slots,
)
from ldp_flower.guarantee.questions import Arrays, Question
from ldp_flower.guarantee.training import PUBLIC, census, with_query
from ldp_flower.randomizers import Estimate, Randomizer, RecordMechanism, Summary
from ldp_flower.randomness import Words
from ldp_flower.validation import PlainFields

from .population import (
    OTHER_SCHEMA,
    Cohort,
    Facts,
    Population,
    census_content,
    census_facts,
    objection,
)
from .result import PrivacySpent, Step
from .run_store import Reply, RunStore

logger = logging.getLogger("flwr")

_MAX_REASON_CHARS = 200  # characters of an error that are kept
_NO_BUDGET = "error 102: No addressed user"  # how a node says so of all whom it was asked about
_PAUSES = 5  # times as long as asking for replies takes, while some come


@dataclass(frozen=True)
class Ask(PlainFields):
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

    def query(self, salt: int, number: int) -> Query:
        """Return the question as the wire numbers it, in the run of this salt."""
        cohort = self.cohort
        return Query(
            *(self.question, self.randomizer, salt, cohort.low, cohort.high, number),
            self.collections,
        )


@dataclass(frozen=True)
class Answers:
    """Single reports: of randomizers that do not add up, with public data, or permanent."""

    reports: NDArray[np.generic]  # (users, *report_shape): the reports
    coins: Words  # (users,): the public coins that they were made with
    # (users, *public_shape): the same users' public data, of no columns if none were asked for
    public: NDArray[np.float32]

    @property
    def count(self) -> int:
        """Number of reports."""
        return len(self.reports)


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


def means_of(metrics: Iterable[MetricRecord]) -> MetricRecord:
    """Return the mean of every finite number over the records that have it."""
    sent: dict[str, list[float]] = {}
    for record in metrics:
        for name, value in record.items():
            if isinstance(value, int | float) and math.isfinite(value):
                sent.setdefault(name, []).append(float(value))
    return MetricRecord({name: sum(values) / len(values) for name, values in sent.items()})


def with_known_noise(answer: Estimate, randomizer: Randomizer) -> Estimate:
    """Return the mean of few reports, whose spread shows less of the noise than is known of it."""
    known = math.sqrt(randomizer.variance / max(answer.count, 1))
    return replace(answer, std_error=np.maximum(answer.std_error, known))


class Exchange:
    """The traffic of a run, which may ride on an app's own messages; step 0 is the census."""

    def __init__(
        self, store: RunStore, rides_on: str | None = None, schema: Mapping[str, int] | None = None
    ) -> None:
        self._store = store
        self._rides_on = rides_on
        self._schema = schema
        self._public: dict[int, dict[int, MetricRecord]] = {}
        self._read_from: set[tuple[int, int]] = set()  # steps and nodes

    def collect(
        self, grid: Grid, step: int, messages: list[Message], timeout: float
    ) -> list[Message]:
        """Send messages and store every reply as it arrives, until all are there; return them."""
        if not messages:
            return []
        pushed = list(grid.push_messages(messages))
        if len(pushed) != len(messages):
            raise RuntimeError("The SuperLink did not take this step's messages; its log says why.")
        receivers = [message.metadata.dst_node_id for message in messages]
        waiting = {i: node for i, node in zip(pushed, receivers, strict=True) if i is not None}
        end, pause, logged = time.monotonic() + timeout, 0.05, time.monotonic()
        came: list[Message] = []
        while waiting:
            asked, before = time.monotonic(), len(waiting)
            replies = list(grid.pull_messages(list(waiting)))
            # In Flower's engine whoever asks about thousands of messages keeps it from work.
            took = time.monotonic() - asked
            answered = [(waiting.pop(r.metadata.reply_to_message_id, None), r) for r in replies]
            self.receive(step, [(node, r) for node, r in answered if node is not None])
            came += [reply for node, reply in answered if node is not None]
            remaining = end - time.monotonic()
            if not waiting or remaining <= 0:
                break
            if time.monotonic() - logged > 10:
                logged = time.monotonic()
                logger.info("\t     waiting for %d of %d nodes", len(waiting), len(messages))
            time.sleep(min(pause, remaining))
            pause = min(1.5 * pause, 0.5)
            if len(waiting) < before:
                pause = min(pause, max(_PAUSES * took, 0.05))
        return came

    def receive(self, step: int, replies: Iterable[tuple[int, Message]]) -> None:
        """Store the replies of nodes; of each node the first counts."""
        new = [(node, reply) for node, reply in replies if (step, node) not in self._read_from]
        self._read_from.update((step, node) for node, _ in new)
        self._store.add_replies(step, [self._read(step, node, reply) for node, reply in new])

    def _read(self, step: int, node: int, reply: Message) -> Reply:
        """Decode one reply; what cannot be decoded is empty, and rejected later."""
        if reply.has_error():
            reason = f"{reply.error.reason}"
            if len(reason) > _MAX_REASON_CHARS:  # a traceback, which says at its end what it is
                reason = f"{reason[:60]} ... {reason[65 - _MAX_REASON_CHARS :]}"
            return node, None, f"error {reply.error.code}: {reason}"
        try:
            if step == 0:
                if (other := objection(reply.content, self._schema)) is not None:
                    return node, None, other  # is asked again when the run is started again
                content = census_content(reply.content)
            else:
                records = dict(reply.content.items())
                public = records.pop(PUBLIC, None)
                content = Report.from_record_dict(RecordDict(records)).to_bytes()
                if isinstance(public, MetricRecord):
                    self._public.setdefault(step, {})[node] = public
        except (MessageError, KeyError, TypeError, ValueError, OverflowError):
            content = b""
        return node, content, None

    def public_metrics(self, step: int) -> list[MetricRecord]:
        """Return what this step's clients declared public and sent."""
        return list(self._public.get(step, {}).values())

    def census_messages(self, roster: list[int], own: RecordDict) -> list[Message]:
        """Return the messages that ask nodes how many users they hold, with more records."""
        content = own if self._rides_on is None else census(own)
        kind = self._rides_on or f"query.{CENSUS}"
        return [Message(content, node, kind) for node in self._waiting(0, roster)]

    def census(self, roster: list[int], max_users: int) -> tuple[dict[int, Facts], Step]:
        """Return what nodes of at most so many users say, and the step, which counts nodes."""
        replies = self._store.replies(0)
        nodes: dict[int, Facts] = {}
        rejected = 0
        for node in roster:
            content, _ = replies.get(node, (None, None))
            if content is None:
                continue
            if (facts := census_facts(content, node, max_users)) is None:
                rejected += 1
            else:
                nodes[node] = facts
        reasons = Counter(error for _, error in replies.values() if error is not None)
        errors, silent = sum(reasons.values()), len(roster) - len(replies)
        asked = len(roster), len(nodes), errors, rejected, silent
        spent = sum(facts.exhausted for facts in nodes.values())
        return nodes, Step(0, "census", "", 0, *asked, reasons, spent)

    def other_schemas(self) -> dict[int, str]:
        """Return what differs in the schemas of nodes that have another one."""
        errors = {node: error or "" for node, (_, error) in self._store.replies(0).items()}
        return {
            node: error.removeprefix(OTHER_SCHEMA)
            for node, error in errors.items()
            if error.startswith(OTHER_SCHEMA)
        }

    def _waiting(self, step: int, nodes: Iterable[int]) -> list[int]:
        replies = self._store.replies(step)
        return [node for node in nodes if replies.get(node, (None, None))[0] is None]

    def messages(self, step: int, ask: Ask, population: Population) -> list[Message]:
        """Return the messages to the nodes that have not answered this step yet."""
        query = ask.query(population.salt, self._store.first + step)
        kind = self._rides_on or f"query.{QUERY}"
        waiting = self._waiting(step, population.addressed(ask.cohort))
        numbered = [population.nodes[node].numbers is not None for node in waiting]
        contents = {}
        for each in set(numbered):
            asked, own = replace(query, numbered=each), ask.content
            contents[each] = asked.to_record_dict() if own is None else with_query(own, asked)
        return [
            Message(contents[each], node, kind, group_id=str(step))
            for node, each in zip(waiting, numbered, strict=True)
        ]

    def answer(
        self, number: int, ask: Ask, population: Population
    ) -> tuple[Estimate | Answers, Step]:
        """Check and put together a step's stored replies: a mean, or reports that do not add up."""
        randomizer = ask.randomizer
        parts: list[Summary | Answers] = []
        errors = rejected = silent = no_budget = 0
        reasons = Counter[str]()
        replies = self._store.replies(number)
        coin_step = ask.query(population.salt, self._store.first + number).coin_step
        for node, slots in population.addressed(ask.cohort).items():
            content, error = replies.get(node, (None, None))
            if error is not None:
                errors += 1
                reasons[error] += 1
                no_budget += len(slots) if error.startswith(_NO_BUDGET) else 0
            elif content is None:
                silent += 1
            else:
                keys = population.nodes[node]
                part = _checked(content, ask, coin_step, keys, population.salt, slots)
                if part is None:
                    rejected += 1
                else:
                    parts.append(part)
                    no_budget += len(slots) - part.count
        answer = _together(ask, parts)
        return answer, Step(
            number,
            ask.question.name,
            type(randomizer).__name__,
            randomizer.report_bytes,
            ask.cohort.size,
            answer.count,
            errors,
            rejected,
            silent,
            reasons,
            no_budget,
        )


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
    return Answers(reports, keys.coins(salt, coin_step, answered), public)


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


def _together(ask: Ask, parts: list[Summary | Answers]) -> Estimate | Answers:
    randomizer = ask.randomizer
    single = [part for part in parts if isinstance(part, Answers)]
    nothing = np.empty((0, *randomizer.report_shape), randomizer.report_dtype)
    answers = Answers(
        np.concatenate([nothing, *(part.reports for part in single)]),
        np.concatenate([np.empty(0, np.uint64), *(part.coins for part in single)]),
        np.concatenate([_no_data(0, ask.public), *(part.public for part in single)]),
    )
    if ask.single:
        return answers
    summaries = [part for part in parts if isinstance(part, Summary)]
    return randomizer.estimate(sum(summaries, randomizer.summarize(answers.reports, answers.coins)))
