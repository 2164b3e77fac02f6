"""Runs of an app: its server, which runs once to its end, and a node.

The node answers the server's messages repeatedly, on chosen data, with a clock that stands still.
Of each reply, everything that a server sees is kept: its form, piece by piece, and its numbers.
"""

import datetime
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType, ModuleType
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict

from ...simulation.grid import InProcessGrid
from ...validation import Floats
from ..probe import replaced
from .claims import Claims
from .findings import CannotAuditError
from .loading import AuditedApp, quiet
from .sources import Sources
from .variants import Variant

_NOW = float(int(time.time()))
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")
_PATIENT_READINGS = 10_000  # readings in a run after which the clock moves on: a loop may wait

PATIENCE = 40.0  # seconds of CPU time for all nodes together
_OF_EACH = 5  # largest number of attacked messages of each type
_GIVEN_UP = 240.0  # seconds after which a server that still runs is given up

#: Suffix of a text's path for the text's length, which ciphers and random texts reveal as well.
LENGTH = ": length"
#: Suffix of the path of floats for their last bits, which noise must change as well.
LAST_BITS = ": last bits"
_LOW = {2: 0xF, 4: 0xFF, 8: 0xFFFF}  # masks of a quarter of a float's bits, by its bytes
_SOON = 1.0  # seconds within which a time counts as the time of the reply


@dataclass
class Seen:
    """Everything that a server sees of one reply: its form and its numbers, by record and key."""

    # The form: names and order of records and keys, types, shapes, texts, errors, metadata.
    form: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Floats] = field(default_factory=dict)

    def without_values(self) -> "Seen":
        """Return a copy with names, types, lengths and errors only."""
        return Seen({p: form for p, form in self.form.items() if "/" not in p or ": " in p})


def seen(message: Message, reply: Message | None, now: float) -> Seen:
    """Return everything that a server sees of the reply to a message; ``now`` is the time."""
    if reply is None:
        return Seen({"reply": "none"})
    asked, given = message.metadata, reply.metadata
    # In Flower, a reply lives as long as the message that it answers.
    until = given.created_at + given.ttl - asked.created_at - asked.ttl
    form: dict[str, object] = {
        "reply": "content",
        "metadata: message type": given.message_type,
        "metadata: group": given.group_id,
        "metadata: receiver": given.dst_node_id,
        "metadata: ttl": "as asked" if abs(until) < _SOON else round(given.ttl, 3),
        "metadata: created at": "now" if abs(given.created_at - now) < _SOON else given.created_at,
    }
    numbers: dict[str, Floats] = {}
    if reply.has_error():
        form["reply"] = f"error {reply.error.code}: {reply.error.reason}"
    else:
        content = reply.content
        form["records"] = tuple((name, type(record).__name__) for name, record in content.items())
        for name, record in content.items():
            form[f"{name}: keys"] = tuple(record)
            for key, value in record.items():
                _add(f"{name}/{key}", value, isinstance(record, ArrayRecord), form, numbers)
    seen = {path: repr(value) for path, value in form.items()}
    return Seen(seen | {"reply": str(form["reply"])}, numbers)


def _add(
    path: str, value: Any, is_array: bool, form: dict[str, object], numbers: dict[str, Floats]
) -> None:
    if is_array:
        try:
            array = np.asarray(value.numpy())
        except Exception as error:  # an array of a type that NumPy's reader refuses
            form[path] = (value.dtype, tuple(value.shape), type(error).__name__, value.data)
            return
        form[f"{path}: type"] = (str(array.dtype), array.flags.f_contiguous)
        form[f"{path}: shape"] = array.shape
    else:
        array = np.asarray(value)
        form[f"{path}: type"] = type(value).__name__
        if isinstance(value, list):
            form[f"{path}: shape"] = len(value)
            form[f"{path}: type"] = f"list of {type(value[0]).__name__}" if value else "list"
    if array.dtype.kind not in "fiub":
        form[path] = array.tobytes() if is_array else value
        if not is_array:
            texts = value if isinstance(value, list) else [value]
            form[path + LENGTH] = [len(text) for text in texts]
        return
    flat = array.ravel()
    bad = np.flatnonzero(~np.isfinite(flat.astype(np.float64)))
    if len(bad):  # keep their bits, since a NaN can carry a message
        form[f"{path}: not finite"] = [(int(i), flat[i].tobytes().hex()) for i in bad[:1000]]
    numbers[path] = np.nan_to_num(flat.astype(np.float64), posinf=1e300, neginf=-1e300)
    if array.dtype.kind == "f":
        bits = np.ascontiguousarray(flat).view(f"u{array.dtype.itemsize}")
        numbers[path + LAST_BITS] = (bits & _LOW[array.dtype.itemsize]).astype(np.float64)


#: A run as a server sees it: one reply to each message.
Transcript = list[Seen]


class AuditedNode:
    """Node, one of ``num_nodes``, that answers a run's messages.

    Every run is at the same time of the clock. Values that an app derives from the clock are then
    the same on all runs, such as a reading, which reveals no data, or the seed of its noise.
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
            # Metadata are the same on every run, since noise must not depend on numbers that a
            # server knows.
            message.metadata.__dict__["_message_id"] = f"message-{number}"
            message.metadata.__dict__["_created_at"] = _NOW
        self._metadata = [dict(vars(message.metadata)) for message in self.messages]

    def look(self, partition: int) -> Transcript:
        """Answer all messages on a partition's own data, as a newly started process does."""
        return self.runs(Variant("a partition's data", None, partition), 1)[0]

    def runs(self, variant: Variant, how_many: int) -> list[Transcript]:
        """Return ``how_many`` runs, as a server sees them, on a variant of the data."""
        self._app.restore()  # only once, so that noise that the app keeps in memory is noticed
        self.sources.variant = variant
        # Without replaced loaders, other data come from another partition.
        partition = variant.partition if not self.sources.found else 0
        with quiet(), self.claims.listening(), _standing_clock(self._app.modules()) as clock:
            return [self._answers(partition, clock) for _ in range(how_many)]

    def after_restart(self) -> Transcript:
        """Answer all messages after a new import of the app, as a newly started process does."""
        with self._app.imported_again() as app:
            again = (self.messages, self._num_nodes, self._config, Sources(app), self.claims)
            return AuditedNode(app, *again).look(0)

    def _answers(self, partition: int, clock: "_Clock") -> Transcript:
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
            message.metadata.__dict__.update(before)  # an app may have changed it
            try:
                reply = self._grid._handle(message)  # keeps the message's id, unlike push_messages
            except SystemExit as error:
                found.append(Seen({"reply": "the process ended", "code": str(error.code)}))
                continue
            found.append(seen(message, reply, clock.now()))
            if self.claims.kind in self.claims.own_kinds:
                found[-1] = found[-1].without_values()
        return found


class _Clock:
    """Clock that stands still for more readings than an app needs unless it waits in a loop."""

    readings = 0

    def now(self) -> float:
        self.readings += 1
        return _NOW + 1e-3 * max(self.readings - _PATIENT_READINGS, 0)


@contextmanager
def _standing_clock(modules: Sequence[ModuleType]) -> Iterator[_Clock]:
    """Let all clocks stand still inside this context, under any name in the app's modules."""
    clock = _Clock()

    class Still(datetime.datetime):
        """Date and time whose ``now`` reads the standing clock."""

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


# ------------------------------------------------------------------------ the app's server


@dataclass(frozen=True)
class Conversation:
    """Messages to one node in a run: the first ones of each type, and the number of each type."""

    messages: list[Message]
    kinds: Counter[str]
    ended: str = ""  # reason why the server ended early
    needed: int | None = None  # number of nodes with which this library's server would start


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


def run_server(
    app: AuditedApp, num_nodes: int, node_config: dict[str, Any], claims: Claims
) -> Conversation:
    """Run the app's ServerApp on nodes in this process; return the messages to one of them."""
    grid = _Listening(app.client, num_nodes, app.run_config)
    grid.heard, grid.until = {}, time.process_time() + PATIENCE
    for of_node in grid.contexts.values():
        of_node.node_config.update(node_config)
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=app.run_config
    )
    ended: list[tuple[str, int | None]] = []

    def run() -> None:
        try:
            app.server(grid, context)
        except _Enough:
            how = "fewer rows or nodes take it further (--config, --nodes)"
            ended.append((f"its nodes had worked for {PATIENCE:g} s; {how}", None))
        except BaseException as error:  # Flower's own errors may end the process
            ended.append((f"{type(error).__name__}: {error}", getattr(error, "needed", None)))

    with quiet(), claims.listening(), _folder_of_copies():
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(_GIVEN_UP)
        if thread.is_alive():
            ended.append((f"it had not ended after {_GIVEN_UP:g} s", None))
    if not grid.heard:
        raise CannotAuditError(
            "The app's ServerApp asked no node anything"
            + (f" before it failed with {ended[0][0]}" if ended else "")
            + f". It was given {num_nodes} nodes (--nodes) and the project's settings (--config)."
        )
    kinds: Counter[str] = Counter()
    messages = []
    for message in max(grid.heard.values(), key=len):
        message.metadata.dst_node_id = 1  # redirect all messages to the first node
        kinds[message.metadata.message_type] += 1
        if kinds[message.metadata.message_type] <= _OF_EACH:
            messages.append(message)
    return Conversation(messages, kinds, *(ended[0] if ended else ()))


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
