"""Node of an app: it hears a run of the app's server, and answers its messages repeatedly.

The node answers on chosen data, with a clock that stands still.
"""

import datetime
import math
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict

from ...simulation.grid import InProcessGrid
from ..probe import replaced
from .claims import Claims
from .findings import CannotAuditError
from .loader import intercept, loaders_of
from .loading import AuditedApp, RunConfig, quiet
from .looks import Look, Transcript
from .options import Options
from .variants import Variant

_NODES = 10
_NOW = float(int(time.time()))
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
_PATIENT_READINGS = 10_000  # readings in a run after which the clock moves, since a loop may wait

PATIENCE = 40.0  # seconds of CPU time for all nodes together
_OF_EACH = 5  # largest number of attacked messages of each type
_GIVEN_UP = 240.0  # seconds after which the audit no longer waits for a server


class AuditedNode:
    """Node, one of ``num_nodes``, that hears a run of the app's server and answers its messages.

    The clock shows the same time in every run. Values that an app derives from the clock are then
    the same on all runs, such as a time, which reveals no data, or the seed of the app's noise.
    """

    def __init__(self, app: AuditedApp, options: Options) -> None:
        self.options, self._app = options, app
        self.claims = Claims(options.claim, options.delta, options.unit)
        self.num_nodes = options.nodes or app.num_nodes or _NODES
        self.loaders = list(loaders_of(app, options.loader))
        self.messages: list[Message] = []  # the first messages of each type
        self.kinds: list[str] = []  # their types
        self.heard: Counter[str] = Counter()  # number of messages of each type
        self.loaded: list[Any] = []  # the data in the present run, before they were changed
        self.seconds = math.inf  # CPU time of a run

    def hear(self) -> BaseException | None:
        """Run the app's server on nodes in this process, and keep the messages to one of them.

        These are the messages that :meth:`runs` answers. Return the error with which the server
        ended, or None.
        """
        self._app.restart()
        grid = _Listening(self._app.client, self.num_nodes, self._app.run_config)
        grid.heard, grid.until = {}, time.process_time() + PATIENCE
        for of_node in grid.contexts.values():
            of_node.node_config.update(self.options.node_config or {})
        context = self._context(0, {})
        ended: list[BaseException] = []

        def run() -> None:
            try:
                self._app.server(grid, context)
            except _Enough:
                return
            except BaseException as error:  # Flower's own errors may end the process
                ended.append(error)

        with quiet(), self.claims.listening(), _folder_of_copies():
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            thread.join(_GIVEN_UP)
            if thread.is_alive():
                ended.append(TimeoutError(f"it had not ended after {_GIVEN_UP:g} s"))
        error = ended[0] if ended else None
        if not grid.heard:
            raise CannotAuditError(
                "The app's ServerApp sent no message to a node"
                + (f" before it failed with {type(error).__name__}: {error}" if error else "")
                + f". It was given {self.num_nodes} nodes (--nodes) and the project's settings "
                "(--config)."
            )
        self.messages, self.heard = [], Counter()
        for message in max(grid.heard.values(), key=len):
            message.metadata.dst_node_id = 1  # redirect all messages to the first node
            self.heard[message.metadata.message_type] += 1
            if self.heard[message.metadata.message_type] <= _OF_EACH:
                # Metadata are the same on every run, since noise must not depend on numbers that
                # a server knows.
                message.metadata.__dict__["_message_id"] = f"message-{len(self.messages)}"
                message.metadata.__dict__["_created_at"] = _NOW
                self.messages.append(message)
        self.kinds = [str(message.metadata.message_type) for message in self.messages]
        return error

    def affordable(self) -> int:
        """Return the number of runs on each of two data sets that the options allow.

        It is ``runs``, or as many as take ``seconds`` of CPU time.
        """
        seconds, runs = self.options.seconds, self.options.runs
        return int(seconds / (2 * self.seconds)) if runs is None else runs

    def look(self, variant: Variant, how_many: int) -> Look:
        """Answer the messages ``how_many`` times on a variant of the data; return a summary."""
        return Look(variant, self.runs(variant, how_many))

    def runs(self, variant: Variant, how_many: int) -> list[Transcript]:
        """Answer the messages ``how_many`` times on a variant of the data; return all replies.

        The app's modules are imported anew before the first run, as in a new process. They stay in
        memory between runs, so that noise that the app keeps in memory is noticed.
        """

        def loaded(data: Any) -> Any:
            self.loaded.append(data)
            return variant.of(data)

        began = time.process_time()
        with quiet(), self.claims.listening(), _standing_clock() as clock:
            self._app.restart()
            for function in loaders_of(self._app, self.options.loader).values():
                intercept(function, loaded)
            found = [self._run(clock) for _ in range(how_many)]
        self.seconds = min(self.seconds, (time.process_time() - began) / how_many + 1e-6)
        return found

    def _run(self, clock: "_Clock") -> Transcript:
        clock.readings = 0
        self.loaded.clear()
        grid = InProcessGrid(self._app.client, 1, self._app.run_config)
        places = {"partition-id": 0, "num-partitions": self.num_nodes}
        grid.contexts[1] = self._context(1, places | (self.options.node_config or {}))
        found = Transcript()
        for number, message in enumerate(self.messages):
            before = dict(vars(message.metadata))
            self.claims.kind = self.kinds[number]
            try:
                reply = grid._handle(message)  # keeps the message's id, unlike push_messages
            except SystemExit as error:
                found.form |= {(number, "reply"): "the process ended", (number, "code"): str(error)}
                continue
            finally:
                message.metadata.__dict__.update(before)  # an app may have changed it
            deadline = message.metadata.created_at + message.metadata.ttl
            own = self.claims.kind in self.claims.own_kinds
            found.add(number, reply, deadline, clock.now(), own)
        return found

    def _context(self, node_id: int, node_config: RunConfig) -> Context:
        run_config = dict(self._app.run_config)
        return Context(1, node_id, node_config, RecordDict(), run_config)


class _Clock:
    """Clock that shows the same time in every run.

    After many readings it moves, since the app may wait in a loop.
    """

    readings = 0

    def now(self) -> float:
        self.readings += 1
        return _NOW + 1e-3 * max(self.readings - _PATIENT_READINGS, 0)


@contextmanager
def _standing_clock() -> Iterator[_Clock]:
    """Stop all clocks inside this context, also those of modules imported in it; yield one."""
    clock = _Clock()

    class Still(datetime.datetime):
        """Date and time whose ``now`` reads the standing clock."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.fromtimestamp(clock.now(), tz)

    still = {name: clock.now for name in _CLOCKS}
    nanoseconds = {f"{name}_ns": lambda: int(clock.now() * 1_000_000_000) for name in _CLOCKS}
    with replaced(time, **still, **nanoseconds), replaced(datetime, datetime=Still):
        yield clock


class _Enough(BaseException):
    """Signal that ends a server whose nodes work for longer than PATIENCE."""


class _Listening(InProcessGrid):
    """Grid that records messages, and ends the server after PATIENCE seconds of CPU time."""

    heard: dict[int, list[Message]]
    until: float

    def _handle(self, message: Message) -> Message | None:
        kept = copy(message)
        kept.content = RecordDict({k: r.copy() for k, r in message.content.items()})
        self.heard.setdefault(message.metadata.dst_node_id, []).append(kept)
        if time.process_time() > self.until:
            raise _Enough
        return super()._handle(message)


@contextmanager
def _folder_of_copies() -> Iterator[None]:
    """Change into a temporary folder with copies of the working directory's files.

    Folders of the working directory are linked. If an app's main saves its model at the end, the
    file goes to the temporary folder, and an existing file of the same name is not changed. Files
    that are written into an existing folder go through its link.
    """
    with tempfile.TemporaryDirectory(prefix="ldp-flower-") as folder:
        for entry in os.scandir():
            if entry.is_file():
                shutil.copy(entry.path, folder)
            else:
                Path(folder, entry.name).symlink_to(Path(entry.path).absolute())
        with chdir(folder):
            yield
