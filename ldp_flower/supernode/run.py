"""A run, as the one who submitted it describes it, and what answers its messages on a node."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from flwr.app import Context, Message


@dataclass(frozen=True)
class Run:
    """What came with a run: names that its submitter chose, and its code as bytes.

    Attributes
    ----------
    run_id : int
        Flower's number of the run.
    fab_id, fab_version : str
        The app's name and version, as the submitter gives them.
    fab : bytes
        The app, packed: nothing has looked into it.
    """

    run_id: int
    fab_id: str
    fab_version: str
    fab: bytes = field(repr=False)

    @cached_property
    def fab_hash(self) -> str:
        """SHA-256 of the app's bytes, computed here."""
        return hashlib.sha256(self.fab).hexdigest()


class Operator(Protocol):
    """What the operator of a node answers messages with."""

    @property
    def name(self) -> str:
        """What the log says has answered."""

    @property
    def fate(self) -> str:
        """What the log says has become of the run's own app."""

    def answer(self, message: Message, context: Context, run: Run) -> Message:
        """Return the reply to a message of a run.

        Called in a process of its own for every message, of whatever kind. What it raises
        is logged, and answered by an error of a fixed text.
        """
