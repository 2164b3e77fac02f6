"""LdpStrategy: a Flower strategy whose protocol is written as a generator.

A subclass writes its protocol the way the paper prints it: it yields a question
to a cohort and gets the estimate of the answers' mean back (or, from randomizers
whose reports do not add up, the single reports). All else that Flower
needs is here and, for what can go wrong on the way, in :mod:`.exchange`.
"""

import logging
import re
import secrets
import textwrap
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from ldp_flower.guarantee.keys import HASH_END
from ldp_flower.guarantee.users import Users
from ldp_flower.planning import Plannable
from ldp_flower.randomizers import Estimate
from ldp_flower.randomness import public_coin
from ldp_flower.schema import Schema
from ldp_flower.validation import check_integer, check_number, is_integer, make_plain

from .card import Card
from .census import MAX_USERS_PER_NODE, advice, wait_for_nodes, with_features
from .exchange import Answers, Ask, Exchange, means_of, privacy_spent
from .identity import printed, prints_of, recognise
from .population import Cohort, Population
from .result import Result
from .run_store import RunStore

logger = logging.getLogger("flwr")

#: Questions out; an Estimate, or Answers if the randomizer is not summable, back in.
Protocol = Generator[Ask, Any, Result]

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]

R = TypeVar("R", bound=Result)

_FACTS = (
    *("num_users", "num_reports", "steps"),
    *("train_metrics_clientapp", "evaluate_metrics_serverapp"),
)

_SHOWN = 90  # characters of a parameter in the log
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
_REHEARSED = "{} of the nodes rehearsed: their reports say nothing about any data."


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
        Fewest reports with which a step goes on.

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
        if refusal := self._too_few(self.num_users):
            raise TooFewReports(refusal)

    def _too_few(self, num_users: int) -> str:
        """Say that so many users are not enough for a step; nothing if they are."""
        if num_users >= self.min_reports:
            return ""
        return f"At least {self.min_reports} users are needed, got {num_users}."

    def _too_small(self, sizes: Sequence[int], num_users: int) -> str:
        """Say that so many users do not give cohorts of these sizes."""
        return (
            f"{type(self).__name__} needs cohorts of at least {self.min_reports} users; "
            f"{num_users} users would give cohorts of {list(sizes)}."
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
        self._exchange.receive(server_round, [(r.metadata.src_node_id, r) for r in replies])
        ask = self._current_ask()
        answer, step = self._exchange.answer(server_round, ask, self._population)
        self._facts.steps.append(step)
        self._facts.num_reports += step.reports
        self._asked.append(ask)
        logger.info("\t└──> %s", step)
        needed = self.min_reports if ask.min_reports is None else ask.min_reports
        if step.reports < needed:
            raise TooFewReports(f"{step}. At least {needed} reports are needed.")
        self._advance(answer)
        public = self._aggregated(self._exchange.public_metrics(server_round))
        told = {f"public.{name}": value for name, value in public.items()}
        return self._estimate(), MetricRecord({**step.counts(), **told})

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
            shown = textwrap.shorten(str(value), _SHOWN, placeholder=" ...")
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
            If a step gets too few answers; what was collected is in the store.
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
        self._of_start["max_users_per_node"] = max_users_per_node
        with RunStore(store).open() as kept:
            if store is not None:
                prints = {name: printed(value) for name, value in self._of_start.items()}
                recognise(kept, type(self), {**prints_of(self), **prints})
            self._open_run(grid, kept, seed, timeout, num_nodes, roster_timeout, max_users_per_node)
            self._evaluate(0, evaluate_fn)
            while self._found is None:
                number = len(self._facts.steps)
                if not kept.get(f"step {number} complete"):
                    messages = self.configure_train(number, ArrayRecord(), ConfigRecord(), grid)
                    self._exchange.collect(grid, number, messages, timeout)
                _, metrics = self.aggregate_train(number, [])
                kept.put(f"step {number} complete", True)
                if metrics is not None:
                    self._facts.train_metrics_clientapp[number] = metrics
                self._evaluate(number, evaluate_fn)
            result = self._finished(self._found, self._seeded)
        logger.info("Finished in %.1f s:", time.monotonic() - started)
        for line in repr(result).splitlines():
            logger.info("\t%s", line)
        return result

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
        self._population = Population(keys, kept.get("salt"))
        self._asked, self._found = [], None
        self._facts = Result(num_users=self.num_users, steps=[step])
        logger.info("[CENSUS] %d users", self.num_users)
        if (card := getattr(self, "card", None)) is not None:
            logger.info("\t├── steps to come: %s", card.rounds)
        logger.info("\t└──> %s", step)
        self.check_census()
        self._running = self.protocol()
        self._advance(None)

    def _parameters(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _current_ask(self) -> Ask:
        if self._ask is None:
            raise RuntimeError("No protocol is running; call start.")
        return self._ask

    def _advance(self, answer: Estimate | Answers | None) -> None:
        try:
            ask = self._running.send(answer)
            coin = public_coin(self._population.salt, len(self._facts.steps))
            self._ask = replace(ask, randomizer=ask.randomizer.for_cohort(ask.cohort.size, coin))
        except StopIteration as end:
            self._ask, self._found = None, end.value

    def _finished(self, result: R, seeded: bool) -> R:
        """Add what is known of the run to what the protocol has found."""
        for fact in _FACTS:
            setattr(result, fact, getattr(self._facts, fact))
        if rejected := sum(step.rejected for step in result.steps):
            result.notes = [*result.notes, _REJECTED.format(rejected)]
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
