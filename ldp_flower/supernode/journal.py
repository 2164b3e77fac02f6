"""What a node's log says: who answered a message, what it cost, and strangers' words sanitised."""

import hashlib
import io
import logging
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self

from flwr.app import Message

from ..guarantee import ledger

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

    @cached_property
    def fab_hash(self) -> str:
        """SHA-256 of the app's bytes, computed here."""
        return hashlib.sha256(self.fab).hexdigest()


class Journal(logging.Handler):
    """Hears, while it is entered, what the ledger is charged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._paid: list[str] = []
        self._logger = logging.getLogger(ledger.__name__)

    def __enter__(self) -> Self:
        self._level = self._logger.level
        self._logger.setLevel(logging.INFO)
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what was paid."""
        self._paid.append(record.getMessage())

    def line(self, message: Message, reply: Message, run: Run, name: str, seconds: float) -> str:
        """Return the line of the log about a message."""
        kind = shortened(message.metadata.message_type)  # the server's own words
        outcome = f"error {reply.error.code}" if reply.has_error() else "a reply"
        return (
            f"Run {run.run_id}, {kind}: {outcome} of {name} after "
            f"{seconds:.2f} s; {' '.join(self._paid) or 'nothing was paid.'} The run's own app "
            f"was not looked at: '{shortened(run.fab_id)}' '{shortened(run.fab_version)}', SHA-256 "
            f"{run.fab_hash}."
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
