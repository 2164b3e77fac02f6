"""LdpStrategy: a Flower strategy whose protocol is written as a generator.

A subclass writes its protocol like pseudo-code. The protocol yields a question to a cohort and
gets back the estimated mean of the answers, or the single reports if the randomizer's reports
cannot be summed. This module has the methods that Flower calls; :mod:`.exchange` collects and
checks the replies.
"""

import logging
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from ldp_flower.data.users import Users
from ldp_flower.expectation import Plannable
from ldp_flower.guarantee.budget import NOISE
from ldp_flower.guarantee.peers import is_name
from ldp_flower.validation import (
    Count,
    PlainFields,
    Seconds,
    check_choice,
    check_integer,
    check_unused,
    plain_arguments,
)

from .at_node import AtNode
from .card import Card
from .guarantees import AT_NODE, with_guarantee
from .hooks import Hooks
from .live_run import LiveRun
from .population import MAX_USERS_PER_NODE
from .prints import LATER, printed, recognise
from .progress import Callback, Reporter
from .result import Result
from .run import Arguments
from .run_store import RunStore
from .start import start_run

logger = logging.getLogger("flwr")

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]

R = TypeVar("R", bound=Result)

_MAX_CHARS_SHOWN = 90  # largest number of characters of a parameter in the log
_REPLACED = (
    "{kind} runs its own rounds, so {own}.start cannot replace {kind}.start. Remove {own}.start. "
    "To see every round's replies, override aggregate_train; to evaluate the model, pass "
    "evaluate_fn to start."
)
_CALLED = (
    "{kind} runs its own rounds, so a strategy that wraps it cannot run them. Call {kind}.start "
    "directly. Flower's wrappers for differential privacy are not needed, since clients randomise "
    "their reports."
)
_UNDER_WAY = (
    "A run of this {} is under way, and Flower's methods would mix up two runs. Construct another "
    "strategy with the same arguments. Nobody has been asked anything but a census."
)


def add_evaluation(
    result: Result, number: int, arrays: ArrayRecord | None, evaluate_fn: EvaluateFn | None
) -> None:
    """Evaluate the arrays after a step by the server's function, and add the metrics to ``result``.

    Do nothing if there are no arrays or no function.
    """
    if evaluate_fn is None or arrays is None:
        return
    if (evaluated := evaluate_fn(number, arrays)) is not None:
        result.evaluate_metrics_serverapp[number] = evaluated


@dataclass(kw_only=True, eq=False, repr=False)
class LdpStrategy(PlainFields, Plannable, Hooks, Generic[R]):
    """Base class of all protocols; the type parameter is the protocol's type of result.

    Subclasses are keyword-only dataclasses, as the randomizers are: their fields are public
    parameters and the constructor's arguments. The arguments are checked by the fields' types
    (such as :class:`~ldp_flower.validation.Positive`) or by ``__post_init__``.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of all that one user reports.
    min_reports : int (default: 20)
        Smallest number of users for which a step is planned. If answers are missing, a step goes on
        with a quarter as many reports, at twice the standard error.
    noise : {"user", "node", "shared"} (default: "user")
        Where noise is added, see :class:`~.at_node.AtNode`.
    study : str, optional
        Name of the study under which operators have approved the questions. Operators with a file
        of approved studies answer nothing else (docs/approved-studies.md).
    study_key : str, optional
        File of the key that signs the questions of the study, for operators who ask for this.

    Raises
    ------
    ValueError
        If an argument is out of range or does not agree with the others. The message says which
        values are accepted.

    Notes
    -----
    This class cannot weaken a user's privacy: a strategy sees only reports, and clients check every
    query themselves.
    """

    #: A summary for choosing the protocol; every public strategy has one.
    card: ClassVar[Card]
    #: The points of the section Guarantee, which is added at the end of the class's docstring.
    #: Empty if the docstring has such a section already.
    guarantee: ClassVar[tuple[str, ...]] = ()

    #: The strategy that answers a question like this one's with noise at the node.
    instead_at_node: ClassVar[str] = (
        "Means, Counts, TwoWay, Difference, Quantiles, Distribution, Describe, Synthesize, "
        "Correlation, HeavyHitters, UserLevelMean, PrivateRegression, PrivateClassification, "
        "PrivateEvaluation, LdpIht, SparseRegression or LdpFedAvg(network=)"
    )

    epsilon: float
    min_reports: Count = 20
    noise: str = field(default="user", metadata={LATER: True})
    study: str | None = field(default=None, metadata={LATER: True})
    study_key: str | None = field(default=None, metadata={LATER: True})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__doc__ and cls.guarantee and "card" in vars(cls):
            either = issubclass(cls, AtNode) and "user" in cls.noises
            more = (AT_NODE,) if either else ()
            cls.__doc__ = with_guarantee(cls.__doc__, (*cls.guarantee, *more))

    def __post_init__(self) -> None:
        super().__post_init__()
        for given in fields(self):
            # Copied, so that the strategy does not change if the caller changes the array later.
            if isinstance(value := getattr(self, given.name, None), np.ndarray):
                setattr(self, given.name, value.copy())
        check_choice("noise", self.noise, NOISE)
        if self.noise != "user" and not isinstance(self, AtNode):
            raise ValueError(
                f"Expected noise='user' with {type(self).__name__}, got {self.noise!r}. With noise "
                f"at the node, or shared, ask by {self.instead_at_node}."
            )
        self._check_study()
        self._run: LiveRun | None = None  # the current run, for Flower's methods

    def _check_study(self) -> None:
        if self.study is None:
            check_unused(self, "without a study", "study_key")
            return
        if not is_name(self.study):
            raise ValueError(
                "Expected study to be 1 to 40 lowercase letters, digits or hyphens, got "
                f"{self.study!r}."
            )
        if self.carrier is not None:
            raise ValueError(
                f"Expected no study with {type(self).__name__}, got {self.study!r}: operators "
                "approve questions, not trainings."
            )

    def __repr__(self) -> str:
        """Return the class's name and those plain arguments that differ from their defaults."""
        given = {each.name: (getattr(self, each.name, None), each.default) for each in fields(self)}
        shown = (
            f"{name}={value!r}"
            for name, (value, default) in given.items()
            if isinstance(value, int | float | str) and value != default
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield runs for the audit, which together ask every question of the protocol.

        Parameters
        ----------
        dim : int
            Number of features, or of items.
        epsilon : float
            Privacy parameter.

        Yields
        ------
        strategy, users
            A variant of the protocol, and a small number of users that is enough for it.
        """
        yield from ()

    # ---------------------------------------------------------------- Flower's methods

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return the messages of the protocol's current question; none once it has ended."""
        return self._current_run().messages()

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Give the replies to the protocol; return the model so far and the step's metrics."""
        run = self._current_run()
        metrics = run.take(list(replies))
        return run.estimate, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return no messages: nodes evaluate nothing, which would cost privacy."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return None: nodes evaluate nothing, which would cost privacy."""
        return None

    def summary(self) -> None:
        """Log the protocol's parameters."""
        logger.info("Starting %s:", type(self).__name__)
        for given in fields(self):
            value = str(getattr(self, given.name))
            shown = textwrap.shorten(value, _MAX_CHARS_SHOWN, placeholder=" ...")
            logger.info("\t├── %s = %s", given.name, shown)

    # ------------------------------------------------------------------------- the run

    @plain_arguments
    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 0,
        timeout: Seconds = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
        *,
        num_nodes: int | None = None,
        roster_timeout: Seconds = 120.0,
        max_users_per_node: int = MAX_USERS_PER_NODE,
        seed: int | None = None,
        store: str | Path | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> R:
        """Run the protocol.

        Parameters
        ----------
        grid : Grid
            Flower's grid, or an :class:`~ldp_flower.InProcessGrid`.
        initial_arrays, num_rounds, train_config : optional
            Part of Flower's signature. Protocols do not use them unless they say so.
        evaluate_config : ConfigRecord, optional
            Part of Flower's signature. It has to be empty, since no node is asked to evaluate.
        timeout : float (default: 3600)
            Seconds to wait for the answers of one step, at least 0.
        evaluate_fn : callable, optional
            Function of a step's number and the estimate after that step. It is called after each
            step that has an estimate: by default only after the last.
        num_nodes : int, optional
            Number of nodes to wait for. By default the strategy waits until no new node connects.
        roster_timeout : float (default: 120.0)
            Seconds to wait for the nodes, at least 0.
        max_users_per_node : int (default: 16,777,216)
            Largest number of users that a node may claim to hold, which also limits its share of
            the estimate. A node that claims more is rejected.
        seed : int, optional
            Seed of public randomness (cohorts, coins), for simulations only. It does not affect
            privacy. Two runs with the same seed query the same users in the same order.
        store : str or Path, optional
            File that keeps the run. If the strategy is started again with the same file, it
            replays the stored answers and resumes with the same cohorts, so that no user is queried
            twice. The file is accepted if the strategy's class, the strategy's arguments and those
            arguments of this method that the strategy uses are the same.
        callbacks : iterable of callable, optional
            Functions of the run's :class:`~.progress.Progress`, such as exports to monitoring
            systems (docs/monitoring.md). They are called after the census, after each step, and at
            the end, also if the run fails. A callback that raises an exception is logged and not
            called again.

        Returns
        -------
        Result
            The estimate with its standard errors, each user's privacy cost, and counts of answers.

        Raises
        ------
        TimeoutError
            If too few nodes connect, or none of them answers the census in time.
        TooFewReports
            If there are too few users to begin, or if a step gets too few answers and there is no
            estimate yet. The store keeps the reports that were collected.
        ValueError
            If the store cannot be used or belongs to another run, if there is a seed and a node
            is not simulated, if a callback is not a function, or if an argument is out of range.
        """
        if evaluate_config:
            raise ValueError(
                f"Expected no evaluate_config, got {dict(evaluate_config)}: no node is asked to "
                "evaluate. Take evaluate_fn, on the server's own rows."
            )
        arguments = self._arguments(initial_arrays, num_rounds, train_config)
        self.summary()
        with (
            Reporter(self, callbacks) as reporter,
            self.opened(
                grid,
                arguments,
                timeout=timeout,
                num_nodes=num_nodes,
                roster_timeout=roster_timeout,
                max_users_per_node=max_users_per_node,
                seed=seed,
                store=store,
            ) as run,
        ):
            add_evaluation(run.facts, 0, run.estimate, evaluate_fn)
            while run.found is None:
                reporter.report(run)
                number = run.number
                # No reference is kept, so that a step's replies are freed before the next step.
                _, metrics = self.aggregate_train(number, run.collect(grid, timeout))
                run.keep(number, metrics)
                add_evaluation(run.facts, number, run.estimate, evaluate_fn)
            result: R = run.result()
            reporter.report(run, result)
        logger.info("Finished in %.1f s:", reporter.seconds)
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
        timeout: Seconds = 3600,
        num_nodes: Count | None = None,
        roster_timeout: Seconds = 120.0,
        max_users_per_node: int = MAX_USERS_PER_NODE,
        seed: int | None = None,
        store: str | Path | None = None,
    ) -> Iterator[LiveRun]:
        """Begin a run whose rounds are asked by Flower's own loop, ``Strategy.start``.

        Other parameters and exceptions are those of :meth:`start`.

        Parameters
        ----------
        arguments : Arguments, optional
            The initial arrays, number of rounds and train config that ``start`` takes, for a
            protocol that uses them.

        Yields
        ------
        LiveRun
            The run. :meth:`configure_train` returns its messages and :meth:`aggregate_train` takes
            the replies. The run's ``result`` is available once the protocol has ended.

        Raises
        ------
        RuntimeError
            If another run of this strategy is under way.
        """
        check_integer("max_users_per_node", max_users_per_node, 1, MAX_USERS_PER_NODE)
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
            self._check_idle()  # again, since another thread may have begun a run meanwhile
            self._run = run
            try:
                yield run
            finally:
                self._run = None

    @contextmanager
    def _opened_store(
        self, store: str | Path | None, arguments: Arguments, max_users_per_node: int
    ) -> Iterator[RunStore]:
        """Open the run's store; raise ValueError if it is another strategy's or another run's."""
        with RunStore(store).open() as kept:
            if store is not None:
                own = {**self._identity(arguments), "max_users_per_node": max_users_per_node}
                prints = {name: printed(value) for name, value in own.items()}
                recognise(kept, type(self), {**self.prints(), **prints})
            yield kept

    def _identity(self, arguments: Arguments) -> dict[str, object]:
        """Return the arguments of :meth:`start` that must be the same to resume a stored run."""
        return {}

    def _check_idle(self) -> None:
        if self._run is not None:
            raise RuntimeError(_UNDER_WAY.format(type(self).__name__))

    def _current_run(self) -> LiveRun:
        if self._run is None:
            own, ours = type(self), __name__.split(".", 1)[0] + "."  # classes of apps are left out
            kinds = (kind for kind in own.__mro__ if kind.__module__.startswith(ours))
            kind = next(kind for kind in kinds if issubclass(kind, LdpStrategy))
            called = own.start is kind.start
            text = _CALLED if called else _REPLACED
            raise RuntimeError(text.format(kind=kind.__name__, own=own.__name__))
        return self._run
