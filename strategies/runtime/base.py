"""LdpStrategy: a Flower strategy whose protocol is written as a generator.

A subclass writes its protocol as pseudo-code: it yields a question
to a cohort and gets the estimate of the answers' mean back (or, from randomizers
whose reports do not add up, the single reports). All else that Flower
needs is here and, for what can go wrong on the way, in :mod:`.exchange`.
"""

import logging
import math
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from ldp_flower.data.users import Users
from ldp_flower.expectation import Plannable
from ldp_flower.refusals import TooFew
from ldp_flower.validation import (
    PlainFields,
    check_integer,
    check_range,
    check_seed,
    plain_arguments,
)

from .guarantees import with_guarantee
from .hooks import Hooks
from .live_run import LiveRun, start_run
from .population import MAX_USERS_PER_NODE, SizeOnlyPopulation, fewest_users
from .result import Result
from .run import Arguments, Run, TooFewReports
from .run_store import RunStore, printed, prints_of, recognise

logger = logging.getLogger("flwr")

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]

R = TypeVar("R", bound=Result)

_MAX_CHARS_SHOWN = 90  # characters of a parameter in the log
_REPLACED = (
    "{}.start cannot replace it. Override aggregate_train, which gets every round's replies, or "
    "pass evaluate_fn to start."
)
_CALLED = (
    "call {}.start itself, and of no strategy that wraps it. Flower's wrappers for differential "
    "privacy go: clients have randomised their reports already."
)
_UNDER_WAY = (
    "A run of this {} is under way: Flower's methods would mix up two. Construct another one with "
    "the same arguments. Nobody has been asked anything but a census."
)


def evaluate(
    result: Result, number: int, arrays: ArrayRecord | None, evaluate_fn: EvaluateFn | None
) -> None:
    """Let a server's function evaluate the arrays after a step, if there are both."""
    if evaluate_fn is None or arrays is None:
        return
    if (evaluated := evaluate_fn(number, arrays)) is not None:
        result.evaluate_metrics_serverapp[number] = evaluated


class WithoutEvaluation(Strategy):
    """A strategy of Flower's that asks no node to evaluate: that would cost privacy."""

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return nothing."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return nothing."""
        return None


@dataclass(frozen=True, kw_only=True)
class Card:
    """What to know of a protocol before choosing it; every list of protocols is made of cards.

    Texts are short, with numbers, and go on from the words in brackets. Whom the protocol
    protects is the strategy's ``protects``.

    Parameters
    ----------
    question : str
        What it estimates.
    guarantee : str
        At which privacy parameters.
    rounds : str
        How often the server asks; every user answers once, unless it says otherwise.
    report : str
        Bytes of one report.
    use_when : str
        (Use it when ...)
    fails_when : str
        (It does not work ...)
    page : str
        Name of the page in ``docs`` that has the measurements.
    """

    question: str
    guarantee: str
    rounds: str
    report: str
    use_when: str
    fails_when: str
    page: str


@dataclass(kw_only=True, eq=False, repr=False)
class LdpStrategy(PlainFields, WithoutEvaluation, Plannable, Hooks, Generic[R]):
    """Base class of all protocols, each with its type of result.

    Subclasses are keyword-only dataclasses of public parameters, as the randomizers are:
    fields are the constructor's arguments. Their types (:class:`~ldp_flower.validation.Positive`)
    or ``__post_init__`` check them.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of all that one user reports.
    min_reports : int (default: 20)
        Fewest users that a step is planned for. Where answers are missing a step goes on with a
        quarter as many, at twice the standard error.

    Raises
    ------
    ValueError
        If an argument is out of range or does not go with the others; the text says what does.

    Notes
    -----
    Nothing here can weaken anybody's privacy: a strategy sees reports only, and the
    clients check every query by themselves.
    """

    #: What to know before choosing the protocol; every public strategy has one.
    card: ClassVar[Card]
    #: The last section of its docstring, unless that has one of its own.
    guarantee: ClassVar[tuple[str, ...]] = ()

    epsilon: float
    min_reports: int = 20

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__doc__ and cls.guarantee and "card" in vars(cls):
            cls.__doc__ = with_guarantee(cls.__doc__, cls.guarantee)

    def __post_init__(self) -> None:
        super().__post_init__()
        for given in fields(self):
            # A copy: what happens to an argument later does not count.
            if isinstance(value := getattr(self, given.name, None), np.ndarray):
                setattr(self, given.name, value.copy())
        check_integer("min_reports", self.min_reports, 1)
        self._run: LiveRun | None = None  # the one that is under way, for Flower's methods

    def __repr__(self) -> str:
        """Return the arguments that are plain values other than the defaults."""
        given = {each.name: (getattr(self, each.name, None), each.default) for each in fields(self)}
        shown = (
            f"{name}={value!r}"
            for name, (value, default) in given.items()
            if isinstance(value, int | float | str) and value != default
        )
        return f"{type(self).__name__}({', '.join(shown)})"

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

    def check_census(self, run: Run) -> None:
        """Refuse fewer users than one step needs.

        Raises
        ------
        TooFewReports
            If there are.
        """
        users = run.num_users
        if why := LdpStrategy._too_few(self, users) or self._refusal(users):
            raise TooFewReports(why)

    def refusal(self, num_users: int, arguments: Arguments | None = None) -> TooFew | None:
        """Return why a run of so many users does not start, and how many would do.

        None if the run starts. Found by starting it, without asking anybody.

        Parameters
        ----------
        num_users : int
            How many users there are.
        arguments : Arguments, optional
            What the run would be started with.
        """
        return self._with_enough(lambda users: self._tried(users, arguments), num_users)

    def _with_enough(
        self, refused: Callable[[int], TooFew | None], num_users: int
    ) -> TooFew | None:
        """Return why so many users are refused, with the number that is not, unless it has one."""
        few = refused(num_users)
        if few is None or few.needed is not None:
            return few
        return replace(few, needed=fewest_users(refused, num_users))

    def _tried(self, num_users: int, arguments: Arguments | None = None) -> TooFew | None:
        """Return why a run of so many users would not ask its first question."""
        arguments = arguments or self._arguments(None, 0, None)
        run = Run(self, SizeOnlyPopulation(num_users), arguments)
        disabled, logger.disabled = logger.disabled, True
        try:
            self.check_census(run)
            next(self.protocol(run), None)
        except TooFewReports as refused:
            return refused.refusal
        finally:
            logger.disabled = disabled
        return None

    def _refusal(self, num_users: int) -> TooFew | None:
        """Return why so many users are not asked, from public numbers; None if they are."""
        return self._too_few(num_users)

    def _too_few(self, num_users: int) -> TooFew | None:
        """Return that so many users are not enough for a step; None if they are."""
        return None if num_users >= self.min_reports else self.too_small(num_users)

    # ---------------------------------------------------------------- Flower's methods

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return the messages of the protocol's current question; none once it has ended."""
        return self._current_run().messages()

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Hand what came back to the protocol."""
        run = self._current_run()
        metrics = run.take(list(replies))
        return run.estimate, metrics

    def summary(self) -> None:
        """Log the protocol's parameters."""
        logger.info("Starting %s:", type(self).__name__)
        for name, value in self._parameters().items():
            shown = textwrap.shorten(str(value), _MAX_CHARS_SHOWN, placeholder=" ...")
            logger.info("\t├── %s = %s", name, shown)

    # ------------------------------------------------------------------------- the run

    @plain_arguments
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
            Seconds to wait for the answers of one step, at least 0.
        evaluate_fn : callable, optional
            Called with the number of a step and the estimate after it, where a protocol
            has one: by default after the last.
        num_nodes : int, optional
            Number of nodes to wait for; by default until no new one comes.
        roster_timeout : float (default: 120.0)
            Seconds to wait for the nodes, at least 0.
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
        if evaluate_config:
            raise ValueError(
                f"Expected no evaluate_config, got {dict(evaluate_config)}: no node is asked to "
                "evaluate. Take evaluate_fn, on the server's own rows."
            )
        check_range("timeout", timeout, 0, math.inf)
        arguments = self._arguments(initial_arrays, num_rounds, train_config)
        self.summary()
        with self.opened(
            grid,
            arguments,
            timeout=timeout,
            num_nodes=num_nodes,
            roster_timeout=roster_timeout,
            max_users_per_node=max_users_per_node,
            seed=seed,
            store=store,
        ) as run:
            evaluate(run.facts, 0, run.estimate, evaluate_fn)
            while run.found is None:
                number = run.number
                # No reference is kept: replies of a step are freed before the next ones come.
                _, metrics = self.aggregate_train(number, run.collect(grid, timeout))
                run.keep(number, metrics)
                evaluate(run.facts, number, run.estimate, evaluate_fn)
            result: R = run.result()
        logger.info("Finished in %.1f s:", time.monotonic() - started)
        for line in repr(result).splitlines():
            logger.info("\t%s", line)
        return result

    @plain_arguments
    @contextmanager
    def opened(
        self,
        grid: Grid,
        arguments: Arguments | None = None,
        *,
        timeout: float = 3600,
        num_nodes: int | None = None,
        roster_timeout: float = 120.0,
        max_users_per_node: int = MAX_USERS_PER_NODE,
        seed: int | None = None,
        store: str | Path | None = None,
    ) -> Iterator[LiveRun]:
        """Begin a run, for a loop of Flower's: its ``Strategy.start`` asks the rounds.

        Other parameters, and the exceptions, are those of :meth:`start`.

        Parameters
        ----------
        arguments : Arguments, optional
            The initial arrays, number of rounds and train config that ``start`` takes, for a
            protocol that uses them.

        Yields
        ------
        LiveRun
            The run: :meth:`configure_train` returns its messages, :meth:`aggregate_train` takes
            the replies, and its ``result`` is there once the protocol has ended.

        Raises
        ------
        RuntimeError
            If another run of this strategy is under way.
        """
        check_integer("max_users_per_node", max_users_per_node, 1, MAX_USERS_PER_NODE)
        check_range("timeout", timeout, 0, math.inf)
        check_range("roster_timeout", roster_timeout, 0, math.inf)
        if num_nodes is not None:
            check_integer("num_nodes", num_nodes, 1)
        check_seed("seed", seed)
        arguments = arguments or self._arguments(None, 0, None)
        self._check_idle()
        with self._opened_store(store, arguments, max_users_per_node) as kept:
            run = start_run(
                self,
                grid,
                kept,
                arguments,
                timeout=timeout,
                num_nodes=num_nodes,
                roster_timeout=roster_timeout,
                max_users_per_node=max_users_per_node,
                seed=seed,
            )
            self._check_idle()  # again: another thread may have begun one
            self._run = run
            try:
                yield run
            finally:
                self._run = None

    @contextmanager
    def _opened_store(
        self, store: str | Path | None, arguments: Arguments, max_users_per_node: int
    ) -> Iterator[RunStore]:
        """Open the run's store; refuse that of another strategy, other arguments or else."""
        with RunStore(store).open() as kept:
            if store is not None:
                own = {**self._identity(arguments), "max_users_per_node": max_users_per_node}
                prints = {name: printed(value) for name, value in own.items()}
                recognise(kept, type(self), {**prints_of(self), **prints})
            yield kept

    def _identity(self, arguments: Arguments) -> dict[str, object]:
        """Return which of the arguments of a start make it another run."""
        return {}

    def _arguments(
        self, initial_arrays: ArrayRecord | None, num_rounds: int, train_config: ConfigRecord | None
    ) -> Arguments:
        """Return what the protocol takes of Flower's signature of :meth:`start`: nothing."""
        if initial_arrays or num_rounds or train_config:
            logger.info("Not used: initial arrays, number of rounds, configs")
        return Arguments()

    def _parameters(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _check_idle(self) -> None:
        if self._run is not None:
            raise RuntimeError(_UNDER_WAY.format(type(self).__name__))

    def _current_run(self) -> LiveRun:
        if self._run is None:
            own, ours = type(self), __name__.split(".", 1)[0] + "."  # and none of an app's
            kinds = (kind for kind in own.__mro__ if kind.__module__.startswith(ours))
            kind = next(kind for kind in kinds if issubclass(kind, LdpStrategy))
            called = own.start is kind.start
            why = _CALLED.format(kind.__name__) if called else _REPLACED.format(own.__name__)
            raise RuntimeError(f"{kind.__name__} runs its own rounds: {why}")
        return self._run
