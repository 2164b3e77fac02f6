"""The app at work: its server, which is run once to its end, and a node.

The node answers the server's messages again and again, on data of choice, at one time of day. Of a
reply is kept what a server sees: its form, piece by piece, and the numbers in it.
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
_PATIENT_READINGS = 10_000  # of a run, after which its clock goes on: a loop may wait for that

PATIENCE = 40.0  # seconds of CPU that all nodes get together
_OF_EACH = 5  # messages of each type that are attacked
_GIVEN_UP = 240.0  # seconds after which a server that still waits is given up

#: Follows the path of a text: its length, which ciphers and random texts have, too.
LENGTH = ": length"
#: Follows the path of floats: their last bits, which noise has to reach, too.
LAST_BITS = ": last bits"
_LOW = {2: 0xF, 4: 0xFF, 8: 0xFFFF}  # masks, by bytes of a float: a quarter of its bits
_SOON = 1.0  # seconds within which a time is that of the reply


@dataclass
class Seen:
    """One reply: its form and its numbers, by record and key."""

    # Names and order of records and keys, types, shapes, texts, errors, metadata.
    form: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Floats] = field(default_factory=dict)

    def without_values(self) -> "Seen":
        """Return names, types, lengths and errors only."""
        return Seen({p: form for p, form in self.form.items() if "/" not in p or ": " in p})


def seen(message: Message, reply: Message | None, now: float) -> Seen:
    """Return what a server sees of the reply to a message that was answered now."""
    if reply is None:
        return Seen({"reply": "none"})
    asked, given = message.metadata, reply.metadata
    # Flower lets a reply live as long as its question does.
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
        except Exception as error:  # of a type that NumPy's reader refuses
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
    if len(bad):  # by their bits: a NaN has room for a message
        form[f"{path}: not finite"] = [(int(i), flat[i].tobytes().hex()) for i in bad[:1000]]
    numbers[path] = np.nan_to_num(flat.astype(np.float64), posinf=1e300, neginf=-1e300)
    if array.dtype.kind == "f":
        bits = np.ascontiguousarray(flat).view(f"u{array.dtype.itemsize}")
        numbers[path + LAST_BITS] = (bits & _LOW[array.dtype.itemsize]).astype(np.float64)


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


# ------------------------------------------------------------------------ the app's server


@dataclass(frozen=True)
class Conversation:
    """What one node was asked in a run: first messages of each type, and how many there were."""

    messages: list[Message]
    kinds: Counter[str]
    ended: str = ""  # why the server ended early
    needed: int | None = None  # nodes with which this library's server would not have refused


class _Enough(BaseException):
    """Ends a server whose nodes would work for longer than PATIENCE."""


class _Listening(InProcessGrid):
    """A grid that keeps messages, and ends the server after PATIENCE seconds of work."""

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
    """Run the app's ServerApp on nodes in this process; return what one of them was asked."""
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
        except BaseException as error:  # Flower's own errors end processes
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
        message.metadata.dst_node_id = 1  # as if all had gone to the first node
        kinds[message.metadata.message_type] += 1
        if kinds[message.metadata.message_type] <= _OF_EACH:
            messages.append(message)
    return Conversation(messages, kinds, *(ended[0] if ended else ()))


@contextmanager
def _folder_of_copies() -> Iterator[None]:
    """Change into a temporary folder with the files of the working directory, and links to folders.

    An app's main may save its model at the end: it goes to the temporary folder, and a file of the
    same name stays as it is. What is written into an existing folder goes through its link.
    """
    with tempfile.TemporaryDirectory(prefix="ldp-flower-") as folder:
        for entry in os.scandir():
            if entry.is_file():
                shutil.copy(entry.path, folder)
            else:
                Path(folder, entry.name).symlink_to(Path(entry.path).absolute())
        with chdir(folder):
            yield
