"""The node under attack: the same messages, again and again, on data that are made up."""

from collections.abc import Callable, Sequence
from time import time as now  # the true one, whatever an attack does to the module's
from types import ModuleType
from typing import Any

from flwr.app import Context, Message, RecordDict

from ...simulation.grid import InProcessGrid
from .claims import Claims
from .data.sources import Sources
from .data.variants import BASE, Variant
from .loading import AuditedApp, quiet
from .replies import Seen, seen


class _Grid(InProcessGrid):
    """A grid that is asked without a new number for every message."""

    def answer(self, message: Message) -> Message | None:
        return self._handle(message)


class _Operators(dict[str, Any]):
    """What an operator tells, and which of it was asked for."""

    def __init__(self, told: dict[str, Any], asked: set[str]) -> None:
        super().__init__(told)
        self._asked = asked

    def __getitem__(self, key: str) -> Any:
        self._asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._asked.add(key)
        return super().get(key, default)


class Node:
    """One node that answers a run's messages.

    Parameters
    ----------
    app : AuditedApp
        The app.
    messages : sequence of Message
        What it is asked, in order.
    num_nodes : int
        How many there are of its kind.
    node_config : dict
        What its operator tells it.
    sources : Sources
        Where its data come in.
    claims : Claims
        Notices protections at work.

    Attributes
    ----------
    asked_for : set of str
        What of its operator's configuration was asked for.
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
        self.messages = list(messages)
        self.sources, self.claims = sources, claims
        self._app, self._num_nodes, self._config = app, num_nodes, node_config
        self.asked_for: set[str] = set()
        self.clocks: set[tuple[str, str]] = set()
        self._grid = _Grid(app.client, 1, app.run_config)
        self._variant: Variant | None = None
        for number, message in enumerate(self.messages):
            # The same on every run: what a server knows may not be what noise is made of.
            message.metadata.__dict__["_message_id"] = f"message-{number}"
        self._metadata = [dict(vars(message.metadata)) for message in self.messages]

    @property
    def modules(self) -> list[ModuleType]:
        """The app's own modules."""
        return self._app.modules()

    def owns(self, file: str) -> bool:
        """Whether a file of code is the app's own."""
        return self._app.owns(file)

    def look(self, partition: int) -> list[Seen]:
        """Answer all messages on a partition's own data, as a process that just started."""
        self._app.restore()
        self._variant = None
        with quiet(), self.claims.listening():
            return self._answers(partition)

    def first(self) -> list[Seen]:
        """Answer all messages on the node's own data, once."""
        return self.look(0)

    def run(self, variant: Variant, among: Callable[[Callable[[], list[Seen]]], Any]) -> Any:
        """Let a function call for runs on data of a variant, one after the other.

        What the app keeps in memory is emptied before the first of them only: noise that it
        keeps there has to show.
        """
        self._app.restore()
        self.sources.use(variant)
        # Another node's data come through its own loaders, unless these are answered for.
        partition = variant.partition if not self.sources.found else 0
        with quiet(), self.claims.listening():
            found = among(lambda: self._answers(partition))
        self.sources.use(BASE)
        return found

    def runs(self, variant: Variant, how_many: int) -> list[list[Seen]]:
        """Return what a server sees of so many runs."""
        found: list[list[Seen]] = self.run(
            variant, lambda answers: [answers() for _ in range(how_many)]
        )
        return found

    def _answers(self, partition: int) -> list[Seen]:
        """Return what a server sees of a run by a node with an empty memory."""
        self._grid.contexts[1] = Context(
            run_id=1,
            node_id=1,
            node_config=_Operators(
                {
                    "partition-id": partition,
                    "num-partitions": self._num_nodes,
                    **self._config,
                },
                self.asked_for,
            ),
            state=RecordDict(),
            run_config=dict(self._app.run_config),
        )
        found = []
        for message, before in zip(self.messages, self._metadata, strict=True):
            self.sources.begin()
            self.claims.kind = message.metadata.message_type
            started = now()
            # An app may write into it.
            message.metadata.__dict__.update(before | {"_created_at": started})
            try:
                reply = self._grid.answer(message)
            except SystemExit as error:
                found.append(Seen({"reply": "the process ended", "code": str(error.code)}))
                continue
            found.append(seen(message, reply, started, now()))
        self.mark([found])
        return found

    def mark(self, runs: Sequence[list[Seen]]) -> None:
        """Tell of replies which of their numbers are readings of a clock."""
        for run in runs:
            for reply, message in zip(run, self.messages, strict=True):
                kind = message.metadata.message_type
                reply.clocks = frozenset(path for of, path in self.clocks if of == kind)
