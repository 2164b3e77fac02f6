"""Simulation in one process: a grid for tests and sweeps, and ``simulate``, which uses it.

The grid calls a ClientApp directly, one node after the other, with the semantics of
Flower's simulation engine: a node keeps its context between messages, the changes of a handler
that raises are lost, and a reply that does not answer the message is lost.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity  # private: messages need it
from numpy.typing import NDArray

from ..data.numbers import without_numbers
from ..data.users import Users, UserSource, partition_range, users_instead_of
from ..guarantee.budget import PrivacyPolicy, in_process_grid
from ..validation import PlainFields, check_integer, plain_arguments

if TYPE_CHECKING:
    from ..clients.statistics import OwnStatistics
    from ..strategies import LdpStrategy, Result
    from ..strategies.runtime.progress import Callback

_CLIENT_RAISED = 2  # Flower's error code
_RUN_ID = 1
_AFTER, _EVERY = 2.0, 0.2  # seconds until the first progress line, and between two updates
_WIDTH = 60  # characters of the progress line


class InProcessGrid(Grid):
    """Grid of simulated nodes in this process.

    Parameters
    ----------
    client_app : ClientApp
        The app that every node runs.
    num_nodes : int
        Number of nodes, at least 1. Their ids are 1 to ``num_nodes``. Each has a context in
        ``contexts``.
    run_config : dict, optional
        The run's configuration, which is part of every node's context.
    """

    late_nodes = False  # all nodes are there from the start, so servers need not wait for more

    @plain_arguments
    def __init__(
        self,
        client_app: ClientApp,
        num_nodes: int,
        run_config: dict[str, bool | float | int | str] | None = None,
    ) -> None:
        check_integer("num_nodes", num_nodes, 1)
        self._client_app = client_app
        self.contexts = {
            node_id: Context(
                run_id=_RUN_ID,
                node_id=node_id,
                node_config={"partition-id": node_id - 1, "num-partitions": num_nodes},
                state=RecordDict(),
                run_config=run_config or {},
            )
            for node_id in range(1, num_nodes + 1)
        }
        self._replies: dict[str, Message] = {}
        self._one_at_a_time = Lock()
        if vars(TaskIdentity)["_run_id"] is None:  # not inside one of Flower's own processes
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = _RUN_ID, 0, 1

    def set_run(self, run: Any) -> None:
        """Do nothing, since there is only one run."""

    @property
    def run(self) -> Any:
        """Flower's run, of which only the id is known, since there is no SuperLink."""
        return SimpleNamespace(run_id=_RUN_ID)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message, as Flower's deprecated method of this name does."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of all nodes."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let every addressed node handle its message at once."""
        ids = []
        for message in messages:
            message_id = str(uuid4())
            message.metadata.__dict__["_message_id"] = message_id
            ids.append(message_id)
            with self._one_at_a_time:  # Flower's legacy servers send from many threads
                reply = self._handle(message)
            if reply is not None:
                self._replies[message_id] = reply
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages that have not been pulled yet."""
        return [self._replies.pop(i) for i in list(message_ids) if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push messages and return the replies to them."""
        return self.pull_messages(self.push_messages(messages))

    def _handle(self, message: Message) -> Message | None:
        context = self.contexts.get(message.metadata.dst_node_id)
        if context is None:
            return None
        message = copy(message)
        message.content = _copied(message.content)
        working = copy(context)
        working.state = _copied(context.state)
        token = in_process_grid.set(True)
        try:
            reply = self._client_app(message, working)
        except Exception as error:
            text = f"{type(error)}:<{str(error)!r}>"
            return Message(Error(_CLIENT_RAISED, text), reply_to=message)
        finally:
            in_process_grid.reset(token)
        self.contexts[context.node_id] = working
        answers = reply is not None and (
            reply.metadata.reply_to_message_id == message.metadata.message_id
        )
        return reply if answers else None


class TellingGrid(InProcessGrid):
    """In-process grid that shows the current step on one line.

    The line appears only in a terminal or a notebook, and only after two seconds, so short runs
    and scripts show nothing. :meth:`wipe` removes it at the end.
    """

    _started, _shown = 0.0, 0.0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let every addressed node handle its message, and show the current step and node."""
        pushed, ids = list(messages), list[str]()
        self._started = self._started or time.monotonic()
        for number, message in enumerate(pushed, 1):
            nodes = f", node {number} of {len(pushed)}" if len(pushed) > 1 else ""
            self._show(f"Step {message.metadata.group_id or 0}{nodes}")
            ids += super().push_messages([message])
        return ids

    def _show(self, what: str) -> None:
        now = time.monotonic()
        # True in a terminal and in a notebook.
        seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        if seen and now - self._started >= _AFTER and now - self._shown >= _EVERY:
            self._shown = now
            line = f"{what}, {now - self._started:.0f} s"
            print(f"\r{line:<{_WIDTH}}", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Remove the line that shows the current step."""
        if self._shown:
            print(f"\r{'':<{_WIDTH}}\r", end="", file=sys.stderr, flush=True)


def _copied(content: RecordDict) -> RecordDict:
    """Return a copy of a message's records, so that sender and receiver share none.

    Array objects are shared, since they never change.
    """
    return RecordDict({name: record.copy() for name, record in content.items()})


R = TypeVar("R", bound="Result")

# Logger of the clients that repeats its messages about rows for every cohort.
_OF_ROWS = "ldp_flower.clients.values"

#: Function from the indices of some users to these users.
Generate = Callable[[NDArray[np.int64]], Users]


@dataclass(frozen=True, eq=False)
class GeneratedUsers(PlainFields):
    """Simulated users that are generated a few at a time and dropped after their answer.

    They can be used in place of :class:`Users` in :func:`~ldp_flower.simulate` and in a
    ``load_users`` function. They have no ids, so a deployment's client refuses them.

    Parameters
    ----------
    num_users, num_features : int
        Number of users, and number of columns of their features.
    generate : callable
        Function from the indices of some users, an ndarray of int64, to the
        :class:`Users` with these indices, in this order. A user's rows must depend on its
        index alone; ``KeyedRandom(derive(seed, indices))`` draws such rows for all at once.
    first : int, optional
        Index of the first user, as in :class:`Users`. Indices start from it.

    Raises
    ------
    ValueError
        If a number is out of range, or ``generate`` returns another number of users or
        features than requested.
    """

    num_users: int
    num_features: int
    generate: Generate = field(repr=False)
    first: int | None = None

    ids = None
    has_targets = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_users", self.num_users, 0)
        check_integer("num_features", self.num_features, 1)
        if self.first is not None:
            check_integer("first", self.first, 0)

    def __len__(self) -> int:
        return self.num_users

    def take(self, users: NDArray[np.int64], max_rows: int | None = None) -> Users:
        """Return the users with these indices, in this order, each with its first rows.

        There are ``max_rows`` of them at most.
        """
        taken = self.generate((self.first or 0) + users)
        if len(taken) != len(users) or taken.num_features != self.num_features:
            raise ValueError(
                f"Expected generate to return {len(users)} users with {self.num_features} "
                f"features, got {len(taken)} with {taken.num_features}."
            )
        return taken if max_rows is None else taken.take(np.arange(len(taken)), max_rows)

    def partition(self, index: int, num_partitions: int) -> Self:
        """Return the share of node ``index`` if users are split as by ``numpy.array_split``."""
        start, stop = partition_range(self.num_users, index, num_partitions)
        first = (self.first or 0) + start
        return type(self)(stop - start, self.num_features, self.generate, first)


@plain_arguments
def simulate(
    strategy: "LdpStrategy[R]",
    users: UserSource | Generate,
    *,
    num_users: int | None = None,
    seed: int | None = None,
    num_nodes: int = 1,
    policy: PrivacyPolicy | None = None,
    statistics: "OwnStatistics | None" = None,
    callbacks: "Iterable[Callback]" = (),
) -> R:
    """Run a protocol on users in this process, and return its result.

    In a terminal or a notebook, one line shows the current step of a run that takes more than two
    seconds.

    Parameters
    ----------
    strategy : LdpStrategy
        The protocol.
    users : Users, GeneratedUsers or callable
        All users. They are split over the nodes in order. A callable generates users when
        they are needed, as in :class:`GeneratedUsers`.
    num_users : int, optional
        Number of users, if they are generated by a callable.
    seed : int, optional
        Seed that makes the run reproducible for any number of nodes. By default, the
        system's randomness is used, as in a deployment. With noise at the node, two questions with
        one seed have the same noise.
    num_nodes : int (default: 1)
        Number of simulated nodes.
    policy : PrivacyPolicy, optional
        The privacy policy of the clients; by default they allow anything.
    statistics : mapping of type to callable, optional
        The parameter of :class:`~ldp_flower.clients.LdpClientApp` with this name.
    callbacks : iterable of callable, optional
        The parameter of :meth:`LdpStrategy.start` with this name.

    Raises
    ------
    ValueError
        If ``num_users`` is given without a callable, or a callable without ``num_users``, or an
        argument is of the wrong type; if no row of the users can be used, or no row has the
        target that a model of a table needs; if arms are not those that a strategy assigns.
    """
    from ..clients import LdpClientApp, NetworkUsersApp

    _check_strategy(strategy)
    everyone = _everyone(users, num_users)
    if isinstance(everyone, Users):
        _check_rows(everyone, strategy)

    def load_users(context: Context) -> UserSource:
        return everyone.partition(int(context.node_config["partition-id"]), num_nodes)

    app = (
        LdpClientApp(load_users, policy, seed, statistics)
        if getattr(strategy, "network", None) is None
        else NetworkUsersApp(load_users, policy, seed)
    )
    grid = TellingGrid(app, num_nodes)
    try:
        # Flower's log of a run is meant for long runs.
        with silenced("flwr", below=logging.WARNING), said_once():
            return strategy.start(
                grid, timeout=60.0, num_nodes=num_nodes, seed=seed, callbacks=callbacks
            )
    finally:
        grid.wipe()


def _check_strategy(strategy: object) -> None:
    from ..strategies import LdpStrategy, RecordDpSgd

    if isinstance(strategy, RecordDpSgd):
        raise ValueError(
            "RecordDpSgd asks silos, not users: RecordDpSgd(...).start(InProcessGrid("
            "NetworkClientApp(load_records), num_silos)), as docs/silos.md has it."
        )
    if not isinstance(strategy, LdpStrategy):
        kind = type(strategy).__name__
        got = f"the class {strategy.__name__}" if isinstance(strategy, type) else kind
        raise ValueError(f"Expected a strategy, as LdpIht(...) makes one, got {got}.")


def _check_rows(users: Users, strategy: object) -> None:
    """Raise ValueError for users whose answers would be random.

    This is so if no row can be used, or if no row has a target that a model of a table needs.
    """
    from ..strategies import Difference, PrivateClassification, PrivateRegression

    finite = np.isfinite(users.features)
    if len(finite) and not finite.all(axis=1).any():
        raise ValueError(
            "Expected rows of numbers, got none: no numbers in column "
            f"{without_numbers(users.features, users.columns)}. Text is coded by a Schema, and "
            "items by Users.from_items."
        )
    if isinstance(strategy, Difference):
        strategy.check_users(users)
    if not isinstance(strategy, PrivateClassification | PrivateRegression):
        return
    if users.has_targets and len(users.targets) and not np.isfinite(users.targets).any():
        known = " or ".join(map(repr, strategy.schema.classes[:5])) or "a number"
        raise ValueError(
            f"Expected rows whose {strategy.schema.target!r} is {known}, got none among "
            f"{len(users.targets):,}."
        )


def _everyone(users: UserSource | Generate, num_users: int | None) -> UserSource:
    if not isinstance(users, type) and isinstance(users, UserSource):
        if num_users is not None:
            raise ValueError(f"Expected num_users with a callable only, got {num_users}.")
        return users
    if not callable(users):
        raise ValueError(
            f"Expected Users or a function that generates them, got {type(users).__name__}; "
            f"{users_instead_of(users)}."
        )
    if num_users is None:
        raise ValueError("Expected num_users with users that a callable generates, got None.")
    check_integer("num_users", num_users, 1)
    return GeneratedUsers(num_users, users(np.zeros(1, np.int64)).num_features, users)


@contextmanager
def silenced(name: str, below: int = logging.CRITICAL + 1) -> Iterator[None]:
    """Suppress messages of the logger ``name``: all messages, or those below a level."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(max(level, below))
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def said_once() -> Iterator[None]:
    """Log the clients' messages about rows only at the end, with the numbers of cohorts added up.

    Without this context, clients log such messages for every cohort.
    """
    said: dict[tuple[object, ...], logging.LogRecord] = {}

    def kept(record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        words = tuple(arg for arg in args if not isinstance(arg, int))
        first = said.setdefault((record.name, record.msg, *words), record)
        if first is not record:
            assert isinstance(first.args, tuple)  # since records of the same words have such args
            pairs = zip(first.args, args, strict=True)
            first.args = tuple(
                a + b if isinstance(a, int) and isinstance(b, int) else a for a, b in pairs
            )
        return False

    logger = logging.getLogger(_OF_ROWS)
    logger.addFilter(kept)
    try:
        yield
    finally:
        logger.removeFilter(kept)
        for record in said.values():
            logger.handle(record)
