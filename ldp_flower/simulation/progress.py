"""What a simulation says while it runs: how far it is, and what its clients warn of, once."""

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from flwr.app import Message

from .grid import InProcessGrid

_AFTER, _EVERY = 2.0, 0.2  # seconds until the first line, and between two
_WIDTH = 60  # characters
# The logger that says the same of the rows of every cohort: nodes have a log a message.
_OF_ROWS = "ldp_flower.clients.compute"


class TellingGrid(InProcessGrid):
    """An in-process grid that shows which step it is at, on one line that it wipes at the end.

    In a terminal or a notebook only, and not in the first two seconds: what is quick, or run
    by a script, says nothing.
    """

    _started, _shown = 0.0, 0.0
    _step, _done, _messages = "", 0, 0

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let every addressed node handle its message, and show which step it is."""
        pushed = list(messages)
        self._started = self._started or time.monotonic()
        self._step = pushed[0].metadata.group_id or "0" if pushed else self._step
        self._done, self._messages = 0, len(pushed)
        return super().push_messages(pushed)

    def _handle(self, message: Message) -> Message | None:
        self._report()
        self._done += 1
        return super()._handle(message)

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._started < _AFTER or now - self._shown < _EVERY or not _is_seen():
            return
        self._shown = now
        nodes = f", node {self._done + 1} of {self._messages}" if self._messages > 1 else ""
        line = f"Step {self._step}{nodes}, {now - self._started:.0f} s"
        print(f"\r{line:<{_WIDTH}}", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Take the line away."""
        if self._shown:
            print(f"\r{'':<{_WIDTH}}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def said_once() -> Iterator[None]:
    """Say once, at the end, what clients say of the rows of every cohort, with numbers added up."""
    said: dict[tuple[object, ...], logging.LogRecord] = {}

    def kept(record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        words = tuple(arg for arg in args if not isinstance(arg, int))
        first = said.setdefault((record.name, record.msg, *words), record)
        if first is not record:
            assert isinstance(first.args, tuple)  # as that of the same words
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


def _is_seen() -> bool:
    """Whether somebody looks at this process's messages: in a terminal, or in a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
