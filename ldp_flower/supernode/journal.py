"""What a node's log says: who answered a message, what it cost, and strangers' words sanitised."""

import hashlib
import io
import logging
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from flwr.app import Message

_MAX_NAME_CHARS: Final = 200  # characters of a name
_MAX_SETTINGS_BYTES: Final = 1 << 20  # bytes of a run's pyproject.toml
_log = logging.getLogger("flwr")


@dataclass(frozen=True)
class Run:
    """What came with a run: names that its submitter chose, and its code as bytes.

    Nothing has looked into ``fab``, the packed app.
    """

    run_id: int
    fab_id: str
    fab_version: str
    fab: bytes = field(repr=False)


@contextmanager
def heard(name: str, level: int) -> Iterator[list[logging.LogRecord]]:
    """Collect what is logged under a name, from a level on, inside this context."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler(level)
    handler.emit = records.append  # type: ignore[assignment, method-assign]
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(min(level, logger.getEffectiveLevel()))
    logger.addHandler(handler)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def line_of(
    message: Message,
    reply: Message,
    run: Run,
    name: str,
    seconds: float,
    paid: Iterable[logging.LogRecord] = (),
) -> str:
    """Return the line of the log about a message, and what the ledger was charged for it."""
    kind = shortened(message.metadata.message_type)  # the server's own words
    outcome = f"error {reply.error.code}" if reply.has_error() else "a reply"
    spent = " ".join(record.getMessage() for record in paid) or "nothing was paid."
    return (
        f"Run {run.run_id}, {kind}: {outcome} of {name} after {seconds:.2f} s; {spent} The run's "
        f"own app was not looked at: '{shortened(run.fab_id)}' '{shortened(run.fab_version)}', "
        f"SHA-256 {hashlib.sha256(run.fab).hexdigest()}."
    )


def shortened(text: str) -> str:
    """Return a stranger's name as the log has it: in ASCII, on one line, and not long."""
    plain = ascii(text)[1:-1]
    return plain if len(plain) <= _MAX_NAME_CHARS else f"{plain[:_MAX_NAME_CHARS]}..."


def take_care() -> None:
    """Make this process, which is to be a SuperNode, read and log what comes with a run with care.

    A setting that cannot be parsed would end the one process that all messages pass, a large one
    would fill its memory, and a name with line ends would forge lines of the operator's log.
    """
    # Here: it takes long, and only a SuperNode needs it.
    from flwr.supernode import start_client_internal as flowers

    assert hasattr(flowers, "get_fused_config_from_fab")
    read = flowers.get_fused_config_from_fab

    def settings(fab: bytes, run: Any) -> Any:
        try:
            with zipfile.ZipFile(io.BytesIO(fab)) as packed:
                size = packed.getinfo("pyproject.toml").file_size
            if size > _MAX_SETTINGS_BYTES:
                raise ValueError(f"Its pyproject.toml has {size} bytes.")
            return read(fab, run)
        except Exception as error:  # the next message is somebody else's
            _log.error("A run's settings cannot be read, and are left out: %s", error)
            return {}

    vars(flowers)["get_fused_config_from_fab"] = settings
    for handler in _log.handlers:
        handler.addFilter(printable)


def printable(record: logging.LogRecord) -> bool:
    """Make what a line of the log is filled in with short, and of one line."""
    if isinstance(record.msg, BaseException):
        record.msg = shortened(str(record.msg))
    if isinstance(record.args, tuple):
        record.args = tuple(
            each if isinstance(each, int | float) else shortened(str(each)) for each in record.args
        )
    return True
