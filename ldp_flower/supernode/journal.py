"""A node's log: the answer to each message, its cost, and sanitised texts of the run."""

import hashlib
import io
import logging
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from flwr.app import Message

_MAX_NAME_CHARS: Final = 200  # largest number of characters of a name
_MAX_SETTINGS_BYTES: Final = 1 << 20  # largest size of a run's pyproject.toml
_log = logging.getLogger("flwr")


@dataclass(frozen=True)
class SubmittedRun:
    """A run as it was submitted: names that the submitter chose, and the packed app.

    ``fab``, the packed app, has not been read.
    """

    run_id: int
    fab_id: str
    fab_version: str
    fab: bytes = field(repr=False)


@contextmanager
def collected_log(name: str, level: int) -> Iterator[list[logging.LogRecord]]:
    """Yield a list that collects a logger's records, from a level on, inside this context.

    The node's log repeats what the ledger has logged about a payment, and the checks of a node show
    the operator what an app has logged.
    """
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
    run: SubmittedRun,
    name: str,
    seconds: float,
    paid: Iterable[logging.LogRecord] = (),
) -> str:
    """Return the log's line about a message, its answer and the charges on the ledger."""
    kind = one_line(message.metadata.message_type)  # the server chose this text
    outcome = f"error {reply.error.code}" if reply.has_error() else "a reply"
    spent = " ".join(record.getMessage() for record in paid) or "nothing was paid."
    return (
        f"Run {run.run_id}, {kind}: {outcome} of {name} after {seconds:.2f} s; {spent} The run's "
        f"own app was not looked at: '{one_line(run.fab_id)}' '{one_line(run.fab_version)}', "
        f"SHA-256 {hashlib.sha256(run.fab).hexdigest()}."
    )


def one_line(text: str) -> str:
    """Return an untrusted name for the log: in ASCII, on one line, and of limited length."""
    plain = ascii(text)[1:-1]
    return plain if len(plain) <= _MAX_NAME_CHARS else f"{plain[:_MAX_NAME_CHARS]}..."


def harden() -> None:
    """Make this process, a future SuperNode, read a run's settings safely and sanitise its log.

    All messages pass this one process. Settings that cannot be parsed would end it, and large ones
    would fill its memory. A name with line ends would forge lines of the operator's log.
    """
    # Imported here since it takes long, and only a SuperNode needs it.
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
        except Exception as error:  # the process has to go on, for the messages of other runs
            _log.error("A run's settings cannot be read, and are left out: %s", error)
            return {}

    vars(flowers)["get_fused_config_from_fab"] = settings
    for handler in _log.handlers:
        handler.addFilter(sanitise)


def sanitise(record: logging.LogRecord) -> bool:
    """Shorten a log record's arguments, each to one line; return True, as log filters do."""
    if isinstance(record.msg, BaseException):
        record.msg = one_line(str(record.msg))
    if isinstance(record.args, tuple):
        record.args = tuple(
            each if isinstance(each, int | float) else one_line(str(each)) for each in record.args
        )
    return True
