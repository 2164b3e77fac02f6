"""What the log says of a message: who answered, what it cost, and which app was not run."""

import logging
from types import TracebackType
from typing import Final, Self

from flwr.app import Message

from ..guarantee import ledger
from .run import Run

_MAX_NAME_CHARS: Final = 200  # characters of a name


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
