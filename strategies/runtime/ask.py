"""Questions of a protocol to cohorts: their messages, and the checks and sums of the replies."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from ldp_flower.guarantee.messages import NUMBERS, MessageError, NodeKeys, Query, Report, Slots
from ldp_flower.guarantee.shared_sums import SET
from ldp_flower.guarantee.training import with_query
from ldp_flower.questions import Arrays, Question
from ldp_flower.randomizers import Estimate, NodeSum, Randomizer, Summary
from ldp_flower.randomness import Words
from ldp_flower.validation import Floats, PlainFields

from .asked import Asked
from .named_study import NamedStudy
from .node_sums import NodeSums, mean_of_sums, node_part
from .population import Cohort, Population
from .shared_sums import Chosen, MaskedSum, masked_part, unmasked


@dataclass(frozen=True)
class Answers:
    """The single reports of users, as opposed to their sum.

    They are kept if the randomizer's reports cannot be summed, if public data come with them, or if
    answers are permanent.
    """

    reports: NDArray[np.generic]  # (users, *report_shape): the reports
    coins: Words  # (users,): the public coins of the reports
    # (users, *public_shape): the same users' public data; no columns if none were requested
    public: NDArray[np.float32]
    randomizer: Randomizer  # the randomizer of the reports, with the coin of their cohort

    @property
    def values(self) -> Floats:
        """An unbiased estimate of each user's value, shape (users, width)."""
        return self.randomizer.debias(self.reports, self.coins)

    @property
    def count(self) -> int:
        """Number of reports."""
        return len(self.reports)


@dataclass(frozen=True)
class NodeEstimates:
    """The estimate for each node, by its id, and the estimate for the users of all nodes."""

    whole: Estimate
    nodes: Mapping[int, Estimate]

    @property
    def count(self) -> int:
        """Number of users."""
        return self.whole.count


#: One node's part of an answer.
Part = Summary | Answers | NodeSums | MaskedSum


@dataclass(frozen=True)
class Ask(PlainFields, Asked):
    """One question to one cohort, which a protocol yields and the run sends.

    Attributes
    ----------
    cohort : Cohort
        The users to ask.
    question : Question
        The value that each user computes.
    randomizer : Randomizer
        The randomizer that turns each user's value into a report.
    content : RecordDict, optional
        An app's own records, which carry the question.
    public : tuple of int, optional
        Shape of each user's public data, which are sent with the reports. The answer is then
        :class:`Answers`, for any randomizer.
    min_reports : int, optional
        Smallest number of reports with which the run goes on; by default a quarter of the
        strategy's ``min_reports``. It may be smaller for a question whose answer is useful but not
        necessary.
    collections : int, optional
        Number of collections of a series with permanent answers, as in :class:`Query`. The answer
        is then :class:`Answers`.
    chosen : Chosen, optional
        The members of a sum whose noise is shared, once they are chosen.
    study : NamedStudy, optional
        The approved study of the question, which the run sets for all of its questions.
    by_node : bool (default: False)
        True if the answer is :class:`NodeEstimates`, for sums with noise at the node.
    """

    cohort: Cohort
    question: Question
    randomizer: Randomizer
    content: RecordDict | None = None
    public: tuple[int, ...] | None = None
    min_reports: int | None = None
    collections: int | None = None
    chosen: Chosen | None = None
    study: NamedStudy | None = None
    by_node: bool = False

    @property
    def shared(self) -> bool:
        """True if nodes share the noise, so that they first commit to the question."""
        return self.randomizer.shared

    @property
    def single(self) -> bool:
        """True if nodes send the reports of single users, not the sum of all reports."""
        several = self.public is not None or self.collections is not None
        return several or not self.randomizer.summable

    @property
    def name(self) -> str:
        """Name by which results list the question."""
        return self.question.name

    @property
    def mechanism(self) -> str:
        """Name of the randomizer's class."""
        return type(self.randomizer).__name__

    @property
    def report_bytes(self) -> int:
        """Size of one user's report in bytes."""
        return self.randomizer.report_bytes

    def for_coin(self, coin: int) -> "Ask":
        """Return the question with the randomizer for its cohort and public random number."""
        return replace(self, randomizer=self.randomizer.for_cohort(self.cohort.size, coin))

    def addressed(self, population: Population) -> dict[int, Slots]:
        """Return the users to ask, as slots by node; for a shared sum, only members' users."""
        users = population.addressed(self.cohort)
        if not self.shared:
            return users
        members = self.chosen.commits if self.chosen else {}
        return {node: slots for node, slots in users.items() if node in members}

    def sent(self, salt: int, number: int, numbered: bool) -> RecordDict:
        """Return the content of the message to a node: a query, or app records that carry it."""
        query = self.query(salt, number, numbered)
        content = query.to_record_dict()
        if self.chosen is not None:
            content[SET] = self.chosen.members.to_record()
        return content if self.content is None else with_query(self.content, query)

    def read(self, content: RecordDict) -> bytes:
        """Return a reply as bytes for the store; raise MessageError if it is invalid."""
        return Report.from_record_dict(content).to_bytes()

    def part(
        self, content: bytes, keys: NodeKeys, salt: int, number: int, slots: Slots
    ) -> Part | None:
        """Return a node's part of the answer, or None if the users asked cannot have sent it."""
        coin_step = number if self.collections is None else 0
        try:
            arrays = Report.from_bytes(content).arrays
        except MessageError:
            return None
        randomizer = self.randomizer
        if isinstance(randomizer, NodeSum):
            read = masked_part if randomizer.shared else node_part
            return read(arrays, randomizer, slots)
        if "reports" not in arrays:
            if self.single or "sum" not in arrays:
                return None
            count = arrays["count"]
            if count.shape != (1,) or not 1 <= count[0] <= len(slots):
                return None
            summary = Summary(int(count[0]), arrays["sum"], arrays["sum_of_squares"])
            coins = keys.coins(salt, coin_step, slots)
            return summary if randomizer.accepts(summary, coins) else None
        if keys.numbers is not None:
            arrays = _with_slots(arrays, keys.numbers, slots)
        if "slots" not in arrays:  # users have numbers in the report only, or in the census only
            return None
        answered, reports = arrays["slots"], arrays["reports"]
        if answered.ndim != 1 or answered.dtype.kind != "u" or not np.isin(answered, slots).all():
            return None
        answered = answered.astype(np.int64)
        if len(np.unique(answered)) != len(answered):
            return None
        if not randomizer.well_formed(reports, len(answered)):
            return None
        public = arrays.get("public", _no_data(len(answered), None))
        if public.dtype != np.float32 or public.shape != _no_data(len(answered), self.public).shape:
            return None
        return Answers(reports, keys.coins(salt, coin_step, answered), public, randomizer)

    def together(self, parts: Mapping[int, Part]) -> Estimate | Answers | NodeEstimates:
        """Return the estimated mean of all reports, or the single reports if they are kept."""
        whole = _together(self, [*parts.values()])
        if not (self.by_node and isinstance(whole, Estimate)):
            return whole
        each = {node: _together(self, [part]) for node, part in parts.items()}
        return NodeEstimates(whole, {n: e for n, e in each.items() if isinstance(e, Estimate)})

    def query(self, salt: int, number: int, numbered: bool = False) -> Query:
        """Return the query that nodes get, with the run's salt and the step's number in it."""
        cohort = self.cohort
        query = Query(
            *(self.question, self.randomizer, salt, cohort.low, cohort.high, number),
            self.collections,
            numbered,
        )
        return query if self.study is None else self.study.naming(query)


def with_known_noise(answer: Estimate, randomizer: Randomizer) -> Estimate:
    """Return the estimate with standard errors at least as large as the known noise alone gives.

    The spread of few reports may understate this noise.
    """
    if isinstance(randomizer, NodeSum):
        return answer  # its standard error is computed from the known noise
    known = math.sqrt(randomizer.variance / max(answer.count, 1))
    return replace(answer, std_error=np.maximum(answer.std_error, known))


def _with_slots(arrays: Arrays, numbers: Words, slots: Slots) -> Arrays:
    """Return a report's arrays with its users' slots in place of their permanent numbers.

    Users who are not in the census are left out. A malformed report gives no arrays.
    """
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
    """Return public data of zeros for ``users`` users; without a shape it has no columns."""
    return np.zeros((users, *((0,) if shape is None else shape)), np.float32)


def _together(ask: Ask, parts: Sequence[Part]) -> Estimate | Answers:
    randomizer = ask.randomizer
    if isinstance(randomizer, NodeSum):
        sums = [part for part in parts if isinstance(part, NodeSums)]
        if randomizer.shared:
            masked = [part for part in parts if isinstance(part, MaskedSum)]
            sums = [unmasked(masked, randomizer, len(ask.chosen.commits) if ask.chosen else 0)]
        return mean_of_sums(sums, randomizer)
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
