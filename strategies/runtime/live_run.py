"""LiveRun: a run that sends its questions to nodes, from the census to the result."""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.serverapp import Grid

from ldp_flower.randomizers import NodeSum
from ldp_flower.randomizers.sums import PARTS
from ldp_flower.randomness import public_coin
from ldp_flower.refusals import TooFew

from .ask import Ask, with_known_noise
from .asked import Asked
from .at_node import SPARE
from .census import Facts
from .exchange import Exchange
from .facts import SPENT, Step
from .hooks import Hooks
from .named_study import NamedStudy
from .plain import to_plain
from .population import Cohort, Population
from .result import Result
from .run import AnyProtocol, Arguments, Run, TooFewReports
from .run_store import RunStore

logger = logging.getLogger("flwr")

T = TypeVar("T", bound=Result)

_FACTS = (
    *("num_users", "num_reports", "steps"),
    *("train_metrics_clientapp", "evaluate_metrics_serverapp"),
)
# Planned number of reports of a step over the number with which it goes on: a step with a quarter
# of the planned reports has twice the standard error.
_PLANNED = 4

_REJECTED = "{} answers of nodes were rejected: the users who were asked cannot have sent them."
_OTHERS = "{} nodes were not asked: their users' rows do not have {} features."
_SHORT = (
    "{} of {} steps got fewer than {} reports, since nodes did not answer or users could not "
    "afford them. Standard errors are those of the reports that came."
)
_ENDED = "The run ended early: the estimate is that of the steps before. {} {}"
_LOST = "No store was given, so their reports are lost: start(store=...) keeps them."
_KEPT = (
    "Their reports are kept in {}: start again with it when the nodes are back, and only those "
    "who have not answered are asked."
)
_MAY_HAVE_SPENT = (
    "No reports came from up to {:,} users, but they may have spent budget all the same: their "
    "nodes' answers were lost, came too late, were errors, or were rejected."
)
_FREE = "Start again with {}: users pay nothing more for an answer that was lost after they paid."
_ANEW = "No store was given, so another run costs them budget again."
_REHEARSED = "{} of the nodes ran in rehearsal mode: their reports hold only noise."


class LiveRun(Run):
    """A run that sends its questions, counts its steps and returns the strategy's result.

    Parameters
    ----------
    strategy, population, arguments
        As in :class:`Run`; the strategy also has the methods that a run calls.
    exchange : Exchange
        The exchange of messages with the nodes.
    kept : RunStore
        The store of the run.
    census : Step
        The counts of nodes in the census.
    nodes : sequence of Facts
        The answers to the census of the nodes that the run may ask.
    others : int
        Number of nodes left out, since their users' rows have another number of features.
    study : NamedStudy, optional
        The approved study of all questions.
    """

    def __init__(
        self,
        strategy: Hooks,
        population: Population,
        arguments: Arguments,
        exchange: Exchange,
        kept: RunStore,
        census: Step,
        nodes: Sequence[Facts],
        others: int,
        study: NamedStudy | None,
    ) -> None:
        super().__init__(strategy, population, arguments, strategy.share)
        self.strategy = strategy
        self.kept = kept
        self.facts = Result(num_users=sum(each.keys.count for each in nodes), steps=[census])
        self.num_records = sum(each.records for each in nodes)
        self.num_owners = sum(each.owners for each in nodes)
        tolerated = [each.dishonest for each in nodes if each.dishonest is not None]
        self.dishonest = max(tolerated, default=None)
        self._seeded = any(each.seeded for each in nodes)
        self._rehearsing = sum(each.rehearsing for each in nodes)
        self._others = others
        self.ended = ""  # the reason, if the run ended early
        self.needed = 0  # number of reports with which the last step goes on
        self._exchange, self._study = exchange, study
        self._asked: list[Asked] = []
        self._ask: Asked | None = None
        self._condensed: bytes | None = None  # the last answer, if stored instead of its reports
        self._result: Any = None
        self._protocol: AnyProtocol

    def begin(self) -> None:
        """Start the protocol, up to its first question."""
        self._last = self.kept.last_step()  # after a restart, all steps before this one are over
        self._protocol = self.strategy.protocol(self)
        self._advance(None)

    @property
    def number(self) -> int:
        """Number of the next step, counted from 1."""
        return len(self.facts.steps)

    def collect(self, grid: Grid, timeout: float) -> list[Message]:
        """Ask the current question unless it is over; store and return the replies."""
        if self._is_over():
            return []
        if isinstance(ask := self._ask, Ask) and ask.shared and ask.chosen is None:
            members = self._exchange.agree(grid, self.number, ask, self.population, timeout)
            self._ask = replace(ask, chosen=members)
        arrays = ArrayRecord() if self.estimate is None else self.estimate
        config = self.arguments.train_config
        messages = list(self.strategy.configure_train(self.number, arrays, config, grid))
        return self._exchange.collect(grid, self.number, messages, timeout, self._ask)

    def _is_over(self) -> bool:
        """Return True if the current question had been over before the run was restarted."""
        return self.number < self._last or bool(self.kept.get(f"step {self.number} complete"))

    def keep(self, number: int, metrics: MetricRecord | None) -> None:
        """Mark a step as complete in the store, and keep its metrics.

        A step without reports, or one that ended the run early, is not marked.
        """
        if self.facts.steps[number].reports and not self.ended:
            self.kept.put(f"step {number} complete", True)
            if self._condensed is not None:
                counts = to_plain(self.facts.steps[number])
                self.kept.condense(number, self._condensed, counts)
        if metrics is None:  # an app that overrides aggregate_train may return none
            self.facts.train_metrics_clientapp.pop(number, None)
        else:
            self.facts.train_metrics_clientapp[number] = metrics

    def result(self) -> Any:
        """Return the strategy's result; raise RuntimeError if the protocol has not ended."""
        if self.found is None:
            name = type(self.strategy).__name__
            raise RuntimeError(
                f"{name} has not ended after {self.number - 1} steps. Send the messages of "
                "configure_train, and give the replies to aggregate_train."
            )
        if self._result is None:
            self._result = self.strategy.finished(self, self.with_facts(self.found))
        return self._result

    def messages(self) -> list[Message]:
        """Return the messages of the current question to the nodes that have not answered it yet.

        Return none if the question was over at a restart: later questions depended on the answers
        that it had by then.
        """
        if self._ask is None or self._is_over():
            return []
        planned = self.planned_steps
        of = f" of {planned}" if planned is not None and self.number <= planned else ""
        logger.info(
            "[STEP %d%s] %s: asking %d users",
            *(self.number, of, self._ask.name, self._ask.cohort.size),
        )
        return self._exchange.messages(self.number, self._ask, self.population)

    def take(self, replies: Sequence[Message]) -> MetricRecord:
        """Give the replies to the protocol as its answer; return the step's metrics."""
        ask, number = self._ask, self.number
        if ask is None:
            return MetricRecord()
        asked = ask.addressed(self.population)
        # The source of an error that the SuperLink made is no node. Such errors are stored already.
        came = [(r.metadata.src_node_id, r) for r in replies]
        own = [(node, reply) for node, reply in came if node in asked or not reply.has_error()]
        self._exchange.receive(number, own, ask)
        answer, step = self._exchange.answer(number, ask, self.population)
        self.facts.steps.append(step)
        self._asked.append(ask)
        self.facts.num_reports += step.reports
        if isinstance(ask, Ask) and isinstance(ask.randomizer, NodeSum):
            self.facts.num_reports = self.users("reports")  # one sum after the other of the same
        self._condensed = ask.to_bytes(answer) if ask.condensed else None
        logger.info("\t└──> %s", step)
        fewest = -(-self.min_reports // _PLANNED)
        self.needed = needed = fewest if ask.min_reports is None else ask.min_reports
        again = None if step.reports else self._again(ask)
        if again is not None:
            self._ask = again
        elif step.reports < needed:
            few = TooFew(f"{step}.", "answers", needed if step.reports else None, unit="reports")
            self._advance(TooFewReports(few))
        elif step.reports < self.min_reports and isinstance(ask, Ask) and not ask.single:
            self._advance(with_known_noise(answer, ask.randomizer))
        else:
            self._advance(answer)
        public = self.strategy.public_means(self._exchange.public_metrics(number))
        named = {f"public.{name}": value for name, value in public.items()}
        spent = {SPENT: self._epsilon_after(ask.cohort)}
        metrics = MetricRecord({**step.counts(), **ask.metrics(answer), **spent, **named})
        self.facts.train_metrics_clientapp[number] = metrics
        return metrics

    def _again(self, ask: Asked) -> Ask | None:
        """Return a lost question of shared noise with what is left of the spare, or None.

        Masks cancel only if all members answer. So a node that fails between its commit and its sum
        costs the whole step. The rest of the plan is for the steps to come.
        """
        if not isinstance(ask, Ask) or not ask.shared or ask.chosen is None:
            return None
        mechanism = ask.randomizer
        assert isinstance(mechanism, NodeSum)
        sums = [
            (each.question, each.randomizer.parts)
            for each in self._asked
            if isinstance(each, Ask) and isinstance(each.randomizer, NodeSum)
        ]
        repeated = sum(parts for (first, _), (then, parts) in pairwise(sums) if then is first)
        spare = math.floor(SPARE * PARTS * self.share) - repeated
        used = sum(parts for _, parts in sums)
        left = min(mechanism.parts, spare, math.floor(PARTS * self.share) - used)
        try:
            chosen = self._exchange.chosen(self.number)
            return replace(ask, randomizer=replace(mechanism, parts=left), chosen=chosen)
        except ValueError:  # too little is left
            return None

    def _epsilon_after(self, cohort: Cohort) -> float:
        """Return the largest epsilon that any user has spent, now that this cohort was asked."""
        theirs = [each for each in self._asked if each.cohort.overlaps(cohort)]
        now = self.strategy.cost(theirs, self._seeded)
        if self.facts.privacy is None or self.facts.privacy.epsilon < now.epsilon:
            self.facts.privacy = now
        return self.facts.privacy.epsilon

    def _advance(self, answer: Any) -> None:
        """Hand the protocol an answer, or the exception TooFewReports, and get its next question.

        On the exception a protocol may return what it has found, ask further questions, or let the
        exception pass to the caller.
        """
        why = str(answer) if isinstance(answer, TooFewReports) else ""
        try:
            if isinstance(answer, TooFewReports):
                ask = self._protocol.throw(answer)
            else:
                ask = self._protocol.send(answer)
            coin = public_coin(self.population.salt, self.kept.first + self.number)
            own = ask.for_coin(coin)
            if isinstance(own, Ask):
                chosen = self._exchange.chosen(self.number) if own.shared else None
                own = replace(own, chosen=chosen, study=self._study)
            self._ask = own
        except StopIteration as end:
            self._ask, self.found, self.ended = None, end.value, why
            self.estimate = self.found.arrays
        except TooFewReports as error:
            few = error.refusal
            advice = f"{few.advice} {self._spent()}".strip()
            raise TooFewReports(replace(few, advice=advice)) from None

    def _answered(self) -> Iterator[tuple[Asked, Step]]:
        """Return pairs of each question so far and the step with the counts of its answers."""
        return zip(self._asked, self.facts.steps[1:], strict=True)

    def users(self, count: str) -> int:
        """Return the sum over cohorts of a count of users.

        If a cohort was asked in several steps, the largest of its counts is used.
        """
        found: dict[Cohort, int] = {}
        for ask, step in self._answered():
            found[ask.cohort] = max(found.get(ask.cohort, 0), step.counts()[count])
        return sum(found.values())

    def _spent(self) -> str:
        """Return a text: how many users have spent budget, or may have, and what is kept of it."""
        path, said = self.kept.path, []
        if users := self.users("reports"):
            kept = _LOST if path is None else _KEPT.format(path)
            said.append(f"{users:,} users have spent budget. {kept}")
        if more := self._may_have_spent():
            again = _ANEW if path is None else _FREE.format(path)
            said.append(f"{_MAY_HAVE_SPENT.format(more)} {again}")
        return " ".join([*said, self.strategy.charged] if said else []).rstrip()

    def _may_have_spent(self) -> int:
        """Return at most how many users may have spent budget although no report came."""
        lost, reports = Counter[Cohort](), Counter[Cohort]()
        for ask, step in self._answered():
            lost[ask.cohort] += step.lost
            reports[ask.cohort] = max(reports[ask.cohort], step.reports)
        return sum(min(lost[each], each.size - reports[each]) for each in lost)

    def with_facts(self, result: T) -> T:
        """Return the protocol's result with the run's facts in it, and notes on them."""
        strategy = self.strategy
        for fact in _FACTS:
            setattr(result, fact, getattr(self.facts, fact))
        notes = list(result.notes)
        if rejected := sum(step.rejected for step in result.steps):
            notes.append(_REJECTED.format(rejected))
        if (more := self._may_have_spent()) and not self.ended:
            notes.append(f"{_MAY_HAVE_SPENT.format(more)} {strategy.charged}".rstrip())
        needed = [step for ask, step in self._answered() if ask.min_reports is None]
        if short := sum(step.reports < self.min_reports for step in needed):
            notes.append(_SHORT.format(short, self.number - 1, self.min_reports))
        if self.ended:
            result.ended_early = True
            notes.append(_ENDED.format(self.ended, self._spent()))
        if self._others:
            notes.append(_OTHERS.format(self._others, strategy.row_features))
        if self._rehearsing:
            notes.append(_REHEARSED.format(self._rehearsing))
        result.notes = notes
        result.no_budget = self.users("no_budget")
        result.strategy = type(strategy).__name__
        card = getattr(strategy, "card", None)  # an app's own strategy may have none
        result.question = card.question if card else ""
        if result.schema is None:
            result.schema = strategy.row_schema
        result.privacy = strategy.cost(self._asked, self._seeded)
        return result
