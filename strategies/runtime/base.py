"""LdpStrategy: a Flower strategy whose protocol is written as a generator.

A subclass writes its protocol the way the paper prints it: it yields a question
to a cohort and gets the estimate of the answers' mean back (or, from randomizers
whose reports do not add up, the single reports). All else that Flower
needs is here and, for what can go wrong on the way, in :mod:`.exchange`.
"""

import copy
import logging
import re
import secrets
import textwrap
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from ldp_flower.expectation import Plannable
from ldp_flower.guarantee.keys import HASH_END, NodeKeys
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers import Estimate
from ldp_flower.randomness import public_coin
from ldp_flower.schema import Schema
from ldp_flower.validation import check_integer, check_number, is_integer, make_plain

from .census import MAX_USERS_PER_NODE, advice, wait_for_nodes, with_features
from .exchange import Answers, Ask, Exchange, means_of, privacy_spent, with_known_noise
from .facts import SPENT, Card, Step
from .identity import printed, prints_of, recognise
from .population import Cohort, Population, SizeOnlyPopulation, fewest_users
from .result import Result
from .run_store import RunStore

logger = logging.getLogger("flwr")

#: Questions out; an Estimate, or Answers if the randomizer is not summable, back in.
Protocol = Generator[Ask, Any, Result]

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]

R = TypeVar("R", bound=Result)
T = TypeVar("T", bound=Result)

_FACTS = (
    *("num_users", "num_reports", "steps"),
    *("train_metrics_clientapp", "evaluate_metrics_serverapp"),
)

_MAX_SIZES_SHOWN = 12  # cohorts that a refusal names
_MAX_CHARS_SHOWN = 90  # characters of a parameter in the log
_REJECTED = "{} answers of nodes were left out: those asked cannot have sent them."
_SEEDED = (
    "Expected no seed outside a simulation, where runs with the same one would all ask the same "
    "users first. Nobody has been asked anything but the census."
)
_OTHER_SCHEMA = (
    "Expected all nodes to have the schema of this strategy: of {} with another one the first is "
    "node {}, where {}. Agree on one schema (`Schema.to_dict`). Nobody has been asked anything "
    "but the census."
)
_OTHERS = "{} nodes were not asked: their users' rows do not have {} features."
_SHORT = (
    "{} of {} steps got fewer than {} reports, as nodes or budgets were missing: standard errors "
    "are those of the reports there are."
)
_ENDED = "The run ended early: the estimate is that of the steps before. {} {}"
_LOST = "No store was given, so their reports are lost: start(store=...) keeps them."
_KEPT = (
    "Their reports are kept in {}: start again with it when the nodes are back, and only those "
    "who have not answered are asked."
)
_NUMBER = re.compile(r"[\d,]+ (users|nodes) are needed")  # in a refusal that has it already
_PLANNED = 4  # times the reports with which a step goes on that it is planned for: twice the error
_REPLACED = (
    "{}.start cannot replace it. Override aggregate_train, which gets every round's replies, or "
    "pass evaluate_fn to start."
)
_CALLED = (
    "call {}.start itself, and of no strategy that wraps it. Flower's wrappers for differential "
    "privacy go: clients have randomised their reports already."
)
_REHEARSED = "{} of the nodes ran in rehearsal mode: their reports hold only noise."


def _is_ours(kind: type) -> bool:
    """Whether it is a class of this library, and none that an app made of one."""
    return kind.__module__.startswith(__name__.split(".", 1)[0] + ".")


class TooFewReports(RuntimeError):
    """A step got, or would get, too few answers to go on."""

    @property
    def needed(self) -> int | None:
        """With how many users, by its own text, a run that was refused starts."""
        found = re.search(r"([\d,]+) (?:users|nodes) are needed", str(self))
        return None if found is None else int(found[1].replace(",", ""))


@dataclass(kw_only=True, eq=False, repr=False)
class LdpStrategy(Strategy, Plannable, Generic[R]):
    """Base class of all protocols, each with its type of result.

    Subclasses are keyword-only dataclasses of public parameters, as the randomizers are:
    fields are the constructor's arguments, ``__post_init__`` checks them.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of all that one user reports.
    min_reports : int (default: 20)
        Fewest users that a step is planned for. Where answers are missing a step goes on with a
        quarter as many, at twice the standard error.

    Notes
    -----
    Nothing here can weaken anybody's privacy: a strategy sees reports only, and the
    clients check every query by themselves.
    """

    #: Who is protected.
    protects: ClassVar[str] = "user"
    #: What to know before choosing the protocol; every public strategy has one.
    card: ClassVar[Card]

    epsilon: float
    min_reports: int = 20

    def __post_init__(self) -> None:
        make_plain(self)
        for given in fields(self):
            # A copy: what happens to an argument later does not count.
            if isinstance(value := getattr(self, given.name, None), np.ndarray):
                setattr(self, given.name, value.copy())
        check_number("epsilon", self.epsilon)
        check_integer("min_reports", self.min_reports, 1)
        self._ask: Ask | None = None
        self._found: R | None = None
        self._planned_steps: int | None = None  # of the run under way, where the protocol knows
        self._asked: list[Ask] = []
        self._of_start: dict[str, object] = {}  # what decides a run besides the parameters
        self._exchange: Exchange
        self._population: Population
        self._running: Protocol
        self._facts: Result  # of the run under way
        self._seeded: bool
        self._rehearsing: int  # nodes
        self._others: int  # nodes with other features
        self._ended: str  # why the run ended early; empty if it did not
        self._kept_in: str | Path | None  # the run's store
        self._first_step: int  # as the store numbers it

    def __repr__(self) -> str:
        """Return the arguments that are plain values other than the defaults."""
        given = {each.name: (getattr(self, each.name, None), each.default) for each in fields(self)}
        told = (
            f"{name}={value!r}"
            for name, (value, default) in given.items()
            if isinstance(value, int | float | str) and value != default
        )
        return f"{type(self).__name__}({', '.join(told)})"

    @abstractmethod
    def protocol(self) -> Protocol:
        """Yield questions, get estimates, return the result."""

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield runs that, together, ask every question of the protocol, for the audit.

        Parameters
        ----------
        dim : int
            Number of features, or of items.
        epsilon : float
            Privacy parameter.

        Yields
        ------
        strategy, users
            A variant of the protocol, and few users who are enough for it.
        """
        yield from ()

    @property
    def _rides_on(self) -> str | None:
        """Type of an app's own messages that the questions ride on, if they do."""
        return None

    def _census_content(self) -> RecordDict:
        """Return the records of an app's own that the census rides on, if it rides on any."""
        return RecordDict()

    @property
    def _num_features(self) -> int | None:
        """Number of features that users' rows need to have; None: any."""
        schema = getattr(self, "schema", None)  # where a family takes one
        return None if schema is None else schema.num_features

    @property
    def _fewest_nodes(self) -> int:
        """Fewest nodes with which a run starts."""
        return 1

    def _aggregated(self, public: list[MetricRecord]) -> MetricRecord:
        """Return the means of what clients declared public and sent."""
        return means_of(public)

    @property
    def num_users(self) -> int:
        """Number of users in the census."""
        return len(self._population)

    @property
    def num_unasked(self) -> int:
        """Number of users in no cohort yet."""
        return self._population.remaining

    def cohorts(self, sizes: Sequence[int]) -> list[Cohort]:
        """Take users that have not been asked yet into disjoint random cohorts.

        Raises
        ------
        TooFewReports
            If a cohort would be smaller than ``min_reports``.
        """
        if sum(sizes) > self._population.remaining or min(sizes) < self.min_reports:
            raise TooFewReports(self._too_small(sizes, self.num_users))
        return self._population.cut(sizes)

    def check_census(self) -> None:
        """Refuse fewer users than one step needs.

        Raises
        ------
        TooFewReports
            If there are.
        """
        if why := LdpStrategy._too_few(self, self.num_users) or self._refusal(self.num_users):
            raise TooFewReports(why)

    def refusal(self, num_users: int) -> str:
        """Return why a run of so many users does not start, and how many would do.

        It is empty if the run starts. Found by starting it, without asking anybody.

        Parameters
        ----------
        num_users : int
            How many users there are.
        """
        return self._with_enough(self._tried, num_users)

    def _with_enough(self, refused: Callable[[int], str], num_users: int) -> str:
        """Return why so many users are refused, with the number that is not, unless it has one."""
        why = refused(num_users)
        if not why or _NUMBER.search(why):
            return why
        needed = fewest_users(refused, num_users)
        return why if needed is None else f"{why} {self._needed(needed)}"

    def _needed(self, num_users: int) -> str:
        """Say that so many users are needed."""
        return f"At least {num_users:,} users are needed."

    def _tried(self, num_users: int) -> str:
        """Return why a run of so many users would not ask its first question."""
        tried = copy.copy(self)
        tried._population = SizeOnlyPopulation(num_users)
        told, logger.disabled = logger.disabled, True
        try:
            tried.check_census()
            next(tried.protocol(), None)
        except TooFewReports as refused:
            return str(refused)
        finally:
            logger.disabled = told
        return ""

    def _refusal(self, num_users: int) -> str:
        """Say why so many users are not asked, from public numbers; nothing if they are."""
        return self._too_few(num_users)

    def _too_few(self, num_users: int) -> str:
        """Say that so many users are not enough for a step; nothing if they are."""
        if num_users >= self.min_reports:
            return ""
        return f"{num_users} users are too few for a step of {self.min_reports}."

    def _too_small(self, sizes: Sequence[int], num_users: int) -> str:
        """Say that so many users do not give cohorts of these sizes."""
        some = list(sizes[:_MAX_SIZES_SHOWN])
        return (
            f"{type(self).__name__} plans cohorts of {self.min_reports} users or more; "
            f"{num_users} users would give cohorts of {some}{' ...' * (len(sizes) > len(some))}."
        )

    # ---------------------------------------------------------------- Flower's methods

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return the messages of the protocol's current question."""
        ask = self._current_ask()
        messages = self._exchange.messages(server_round, ask, self._population)
        of = "" if self._planned_steps is None else f" of {self._planned_steps}"
        logger.info(
            "[STEP %d%s] %s: asking %d users",
            *(server_round, of, ask.question.name, ask.cohort.size),
        )
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Hand what came back to the protocol."""
        ask = self._current_ask()
        self._exchange.receive(server_round, [(r.metadata.src_node_id, r) for r in replies])
        answer, step = self._exchange.answer(server_round, ask, self._population)
        self._facts.steps.append(step)
        self._facts.num_reports += step.reports
        self._asked.append(ask)
        logger.info("\t└──> %s", step)
        needed = -(-self.min_reports // _PLANNED) if ask.min_reports is None else ask.min_reports
        if step.reports < needed:
            self._advance(TooFewReports(f"{step}. At least {needed} reports are needed."))
        elif step.reports < self.min_reports and isinstance(answer, Estimate):
            self._advance(with_known_noise(answer, ask.randomizer))
        else:
            self._advance(answer)
        public = self._aggregated(self._exchange.public_metrics(server_round))
        told = {f"public.{name}": value for name, value in public.items()}
        spent = {SPENT: self._epsilon_after(ask.cohort)}
        return self._estimate(), MetricRecord({**step.counts(), **spent, **told})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return nothing: evaluating on users' data would cost them privacy."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return nothing."""
        return None

    def summary(self) -> None:
        """Log the protocol's parameters."""
        logger.info("Starting %s:", type(self).__name__)
        for name, value in self._parameters().items():
            shown = textwrap.shorten(str(value), _MAX_CHARS_SHOWN, placeholder=" ...")
            logger.info("\t├── %s = %s", name, shown)

    # ------------------------------------------------------------------------- the run

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 0,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
        *,
        num_nodes: int | None = None,
        roster_timeout: float = 120.0,
        max_users_per_node: int = MAX_USERS_PER_NODE,
        seed: int | None = None,
        store: str | Path | None = None,
    ) -> R:
        """Run the protocol.

        Parameters
        ----------
        grid : Grid
            Flower's grid, or an :class:`~ldp_flower.InProcessGrid`.
        initial_arrays, num_rounds, train_config : optional
            For Flower's signature; a protocol starts from nothing and knows its rounds.
        evaluate_config : ConfigRecord, optional
            For Flower's signature: no node is asked to evaluate, so it has to be empty.
        timeout : float (default: 3600)
            Seconds to wait for the answers of one step.
        evaluate_fn : callable, optional
            Called with the number of a step and the estimate after it, where a protocol
            has one: by default after the last.
        num_nodes : int, optional
            Number of nodes to wait for; by default until no new one comes.
        roster_timeout : float (default: 120.0)
            Seconds to wait for the nodes.
        max_users_per_node : int (default: 16,777,216)
            Largest number of users that a node may claim to hold, and with it the share of
            the estimate that it may decide; one that claims more is rejected.
        seed : int, optional
            Seed of public randomness (cohorts, coins), for simulations only. It has no part in
            privacy. Two runs with the same one ask the same users, in the same order.
        store : str or Path, optional
            File that keeps the run. Started again with the same file, the strategy
            replays the answers that it has and goes on, in the cohorts that it began with;
            nobody is asked twice. It is the same run if class and arguments of the strategy,
            and what it takes from this method's, are the same.

        Returns
        -------
        Result
            The estimate with its standard errors, what each user spent, who answered.

        Raises
        ------
        TimeoutError
            If the nodes do not come or none of them answers the census in time.
        TooFewReports
            If users are too few to begin, or a step gets too few answers and there is no estimate
            yet; what was collected is in the store.
        ValueError
            If the store cannot be used or belongs to another run, there is a seed and a node
            that is not simulated, or an argument is out of range.
        """
        started = time.monotonic()
        check_integer("max_users_per_node", max_users_per_node, 1, MAX_USERS_PER_NODE)
        check_number("timeout", timeout)
        check_number("roster_timeout", roster_timeout)
        if num_nodes is not None:
            check_integer("num_nodes", num_nodes, 1)
        if seed is not None and not is_integer(seed):
            raise ValueError(f"Expected an integer seed, got {seed!r}.")
        if evaluate_config:
            raise ValueError(
                f"Expected no evaluate_config, got {dict(evaluate_config)}: no node is asked to "
                "evaluate. Take evaluate_fn, on the server's own rows."
            )
        self._take(initial_arrays, num_rounds, train_config)
        self.summary()
        self._kept_in = store
        self._of_start["max_users_per_node"] = max_users_per_node
        with self._opened(store) as kept:
            self._open_run(grid, kept, seed, timeout, num_nodes, roster_timeout, max_users_per_node)
            self._evaluate(0, evaluate_fn)
            last = kept.last_step()  # of a run that is started again: all before it are over
            while self._found is None:
                number = len(self._facts.steps)
                if number >= last and not kept.get(f"step {number} complete"):
                    messages = self.configure_train(number, ArrayRecord(), ConfigRecord(), grid)
                    self._exchange.collect(grid, number, messages, timeout)
                _, metrics = self.aggregate_train(number, [])
                # What nobody answered, or ended the run, is asked again if it is started again.
                if self._facts.steps[number].reports and not self._ended:
                    kept.put(f"step {number} complete", True)
                if metrics is not None:
                    self._facts.train_metrics_clientapp[number] = metrics
                self._evaluate(number, evaluate_fn)
            result = self._finished(self._found, self._seeded)
        logger.info("Finished in %.1f s:", time.monotonic() - started)
        for line in repr(result).splitlines():
            logger.info("\t%s", line)
        return result

    @contextmanager
    def _opened(self, store: str | Path | None) -> Iterator[RunStore]:
        """Open what keeps this run; refuse the store of another one."""
        with RunStore(store).open() as kept:
            if store is not None:
                prints = {name: printed(value) for name, value in self._of_start.items()}
                recognise(kept, type(self), {**prints_of(self), **prints})
            yield kept

    def _of_census(self, nodes: Mapping[int, NodeKeys], salt: int) -> Population:
        """Return the users whom the run may ask, of all in the census."""
        return Population(nodes, salt)

    def _take(
        self, initial_arrays: ArrayRecord | None, num_rounds: int, train_config: ConfigRecord | None
    ) -> None:
        """Take what Flower's signature of :meth:`start` gives."""
        if initial_arrays or num_rounds or train_config:
            logger.info("Not used: initial arrays, number of rounds, configs")

    def _estimate(self) -> ArrayRecord | None:
        """Return the estimate so far, where there is one."""
        return self._found.arrays if self._found else None

    def _evaluate(self, number: int, evaluate_fn: EvaluateFn | None) -> None:
        arrays = self._estimate()
        if evaluate_fn is None or arrays is None:
            return
        if (evaluated := evaluate_fn(number, arrays)) is not None:
            self._facts.evaluate_metrics_serverapp[number] = evaluated

    def _open_run(
        self,
        grid: Grid,
        kept: RunStore,
        seed: int | None,
        timeout: float,
        num_nodes: int | None,
        roster_timeout: float,
        max_users_per_node: int,
    ) -> None:
        self._first_step = kept.first
        if kept.get("roster") is None:
            roster = wait_for_nodes(grid, num_nodes, roster_timeout, self._fewest_nodes)
            kept.put("roster", roster)
        schema = next((own for own in vars(self).values() if isinstance(own, Schema)), None)
        self._exchange = Exchange(
            kept, self._rides_on, None if schema is None else schema.digests()
        )
        if not kept.get("step 0 complete"):
            messages = self._exchange.census_messages(kept.get("roster"), self._census_content())
            self._exchange.collect(grid, 0, messages, timeout)
        nodes, step = self._exchange.census(kept.get("roster"), max_users_per_node)
        if others := self._exchange.other_schemas():
            node, difference = next(iter(others.items()))
            raise ValueError(_OTHER_SCHEMA.format(len(others), node, difference))
        if not nodes:
            hint = advice(step.reasons)
            if step.silent:
                raise TimeoutError(
                    f"No node answered the census within {timeout:g} s. {step}{hint}"
                )
            raise TooFewReports(f"No node answered the census as it should. {step}{hint}")
        kept.put("step 0 complete", True)
        if seed is not None and not all(facts.simulated for facts in nodes.values()):
            raise ValueError(_SEEDED)
        if kept.get("salt") is None:
            kept.put("salt", secrets.randbits(63) if seed is None else int(seed) % HASH_END)
        told = len(nodes)
        nodes = with_features(nodes, self._num_features, type(self).__name__)
        self._others = told - len(nodes)
        self._seeded = any(facts.seeded for facts in nodes.values())
        self._rehearsing = sum(facts.rehearsing for facts in nodes.values())
        keys = {node: facts.keys for node, facts in nodes.items()}
        everyone = sum(each.count for each in keys.values())
        self._asked, self._found, self._ended = [], None, ""
        self._facts = Result(num_users=everyone, steps=[step])
        self._population = self._of_census(keys, kept.get("salt"))
        logger.info("[CENSUS] %d users", everyone)
        if (card := getattr(self, "card", None)) is not None:
            logger.info("\t├── steps to come: %s", card.rounds)
        logger.info("\t└──> %s", step)
        try:
            self.check_census()
            self._running = self.protocol()
            self._advance(None)
        except TooFewReports as refused:
            raise TooFewReports(self.refusal(everyone) or str(refused)) from None

    def _parameters(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _current_ask(self) -> Ask:
        if self._ask is None:
            own = type(self)
            kind = next(k for k in own.__mro__ if issubclass(k, LdpStrategy) and _is_ours(k))
            called = own.start is kind.start
            why = _CALLED.format(kind.__name__) if called else _REPLACED.format(own.__name__)
            raise RuntimeError(f"{kind.__name__} runs its own rounds: {why}")
        return self._ask

    def _advance(self, answer: Estimate | Answers | TooFewReports | None) -> None:
        """Hand the protocol an answer, or that too few came, and take its next question.

        A protocol to which too few came returns what it has, or asks on without them, or leaves
        the exception to whoever started the run.
        """
        running, why = self._running, ""
        try:
            if isinstance(answer, TooFewReports):
                why = str(answer)
                ask = running.throw(answer)
            else:
                ask = running.send(answer)
            coin = public_coin(self._population.salt, self._first_step + len(self._facts.steps))
            self._ask = replace(ask, randomizer=ask.randomizer.for_cohort(ask.cohort.size, coin))
        except StopIteration as end:
            self._ask, self._found = None, end.value
            self._ended = why
        except TooFewReports as error:
            raise TooFewReports(f"{error} {self._spent()}".rstrip()) from None

    def _answered(self) -> Iterator[tuple[Ask, Step]]:
        """Return the questions so far, each with what became of it."""
        return zip(self._asked, self._facts.steps[1:], strict=True)

    def _epsilon_after(self, cohort: Cohort) -> float:
        """Return what a user has spent so far at most, now that this cohort was asked."""
        theirs = [each for each in self._asked if each.cohort.overlaps(cohort)]
        now = privacy_spent(theirs, self.protects, self._seeded)
        if self._facts.privacy is None or self._facts.privacy.epsilon < now.epsilon:
            self._facts.privacy = now
        return self._facts.privacy.epsilon

    def _users(self, count: str) -> int:
        """Return a sum over steps of a count of users, those of one cohort counted once."""
        found: dict[Cohort, int] = {}
        for ask, step in self._answered():
            found[ask.cohort] = max(found.get(ask.cohort, 0), step.counts()[count])
        return sum(found.values())

    def _spent(self) -> str:
        """Say how many users have spent budget so far, and where their reports are."""
        if not (users := self._users("reports")):
            return ""
        kept = _LOST if self._kept_in is None else _KEPT.format(self._kept_in)
        return f"{users:,} users have spent budget. {kept}"

    def _finished(self, result: R, seeded: bool) -> R:
        """Return the result of the run, given what the protocol has found."""
        return self._with_facts(result, seeded)

    def _with_facts(self, result: T, seeded: bool) -> T:
        """Add what is known of the run to what a protocol has found."""
        for fact in _FACTS:
            setattr(result, fact, getattr(self._facts, fact))
        if rejected := sum(step.rejected for step in result.steps):
            result.notes = [*result.notes, _REJECTED.format(rejected)]
        result.no_budget = self._users("no_budget")
        needed = [step for ask, step in self._answered() if ask.min_reports is None]
        if short := sum(step.reports < self.min_reports for step in needed):
            told = _SHORT.format(short, len(result.steps) - 1, self.min_reports)
            result.notes = [*result.notes, told]
        if self._ended:
            result.ended_early = True
            result.notes = [*result.notes, _ENDED.format(self._ended, self._spent())]
        if self._others:
            features = _OTHERS.format(self._others, self._num_features)
            result.notes = [*result.notes, features]
        if self._rehearsing:
            result.notes = [*result.notes, _REHEARSED.format(self._rehearsing)]
        result.strategy = type(self).__name__
        card = getattr(self, "card", None)  # which an app's own strategy need not have
        result.question = card.question if card else ""
        if result.schema is None:
            result.schema = getattr(self, "schema", None)  # where a family takes one
        result.privacy = privacy_spent(self._asked, self.protects, seeded)
        return result
