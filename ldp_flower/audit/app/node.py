"""A node that answers the same messages again and again, on data of choice, at one time of day."""

import datetime
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import BuiltinFunctionType, ModuleType
from typing import Any

from flwr.app import Context, Message, RecordDict

from ...simulation.grid import InProcessGrid
from ..interception import replaced
from .claims import Claims
from .loading import AuditedApp, quiet
from .replies import Seen, seen
from .sources import Sources
from .variants import Variant

_NOW = float(int(time.time()))
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
_PATIENT_READINGS = 10_000  # of a run, after which its clock goes on: a loop may wait for that

#: What a server sees of a run: a reply to each message.
Run = list[Seen]


class Node:
    """One node of ``num_nodes`` that answers a run's messages.

    Every run is at the same time: what an app makes of a clock is then the same on all runs,
    be it a reading, which says nothing of data, or the seed of its noise.
    """

    def __init__(
        self,
        app: AuditedApp,
        messages: Sequence[Message],
        num_nodes: int,
        node_config: dict[str, Any],
        sources: Sources,
        claims: Claims,
    ) -> None:
        self.messages, self.sources, self.claims = list(messages), sources, claims
        self.kinds = [str(message.metadata.message_type) for message in messages]
        self._app, self._num_nodes, self._config = app, num_nodes, node_config
        self._grid = InProcessGrid(app.client, 1, app.run_config)
        for number, message in enumerate(self.messages):
            # The same on every run: what a server knows may not be what noise is made of.
            message.metadata.__dict__["_message_id"] = f"message-{number}"
            message.metadata.__dict__["_created_at"] = _NOW
        self._metadata = [dict(vars(message.metadata)) for message in self.messages]

    def look(self, partition: int) -> Run:
        """Answer all messages on a partition's own data, as a process that just started."""
        return self.runs(Variant("a partition's data", None, partition), 1)[0]

    def runs(self, variant: Variant, how_many: int) -> list[Run]:
        """Return what a server sees of so many runs on data of a variant."""
        self._app.restore()  # once: noise that the app keeps in memory has to show
        self.sources.variant = variant
        # Another node's data come through its own loaders, unless these are replaced.
        partition = variant.partition if not self.sources.found else 0
        with quiet(), self.claims.listening(), _standing_clock(self._app.modules()) as clock:
            return [self._answers(partition, clock) for _ in range(how_many)]

    def after_restart(self) -> Run:
        """Answer all messages as a process does that has imported the app just now."""
        with self._app.imported_again() as app:
            again = (self.messages, self._num_nodes, self._config, Sources(app), self.claims)
            return Node(app, *again).look(0)

    def _answers(self, partition: int, clock: "_Clock") -> Run:
        clock.readings = 0
        self.sources.returned.clear()
        places = {"partition-id": partition, "num-partitions": self._num_nodes}
        self._grid.contexts[1] = Context(
            run_id=1,
            node_id=1,
            node_config=places | self._config,
            state=RecordDict(),
            run_config=dict(self._app.run_config),
        )
        found = []
        for message, before in zip(self.messages, self._metadata, strict=True):
            self.claims.kind = message.metadata.message_type
            message.metadata.__dict__.update(before)  # an app may write into it
            try:
                reply = self._grid._handle(message)  # without a new number for every message
            except SystemExit as error:
                found.append(Seen({"reply": "the process ended", "code": str(error.code)}))
                continue
            found.append(seen(message, reply, clock.now()))
            if self.claims.kind in self.claims.own_kinds:
                found[-1] = found[-1].without_values()
        return found


class _Clock:
    """A time that stands still for as many readings as an app needs that does not wait."""

    readings = 0

    def now(self) -> float:
        self.readings += 1
        return _NOW + 1e-3 * max(self.readings - _PATIENT_READINGS, 0)


@contextmanager
def _standing_clock(modules: Sequence[ModuleType]) -> Iterator[_Clock]:
    """Let clocks stand still, under whatever name the app has them."""
    clock = _Clock()

    class Still(datetime.datetime):
        """A date of which it is always the same."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.fromtimestamp(clock.now(), tz)

    still: dict[Any, Any] = {datetime.datetime: Still}
    for name in _CLOCKS:
        still[getattr(time, name)] = clock.now
        still[getattr(time, f"{name}_ns")] = lambda: int(clock.now() * 1_000_000_000)
    with ExitStack() as stack:
        for module in (time, datetime, *modules):
            for name, value in list(vars(module).items()):
                if type(value) in (type, BuiltinFunctionType) and value in still:
                    stack.enter_context(replaced(module, **{name: still[value]}))
        yield clock
