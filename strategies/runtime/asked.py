"""Asked: the questions of one step, in the form in which every run sends them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from flwr.app import RecordDict

from ldp_flower.guarantee.messages import NodeKeys, Slots

from .population import Cohort, Population


class Asked(ABC):
    """Base class of the questions that one step asks a cohort.

    Attributes
    ----------
    cohort : Cohort
        The users to ask.
    min_reports : int or None
        Smallest number of reports with which the run goes on; None means a quarter of the
        strategy's ``min_reports``.
    condensed : bool
        True if the store replaces the nodes' answers by their aggregate once a step is over, for
        example since each answer is large.
    """

    cohort: Cohort
    min_reports: int | None
    condensed: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which results list the question."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """Name of the mechanism that randomises the answers."""

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """Size of one user's report in bytes."""

    def for_coin(self, coin: int) -> "Asked":
        """Return the question with a mechanism that takes its public randomness from ``coin``.

        The coin is a public random number, a different one for each step. By default, questions
        use no coin and stay the same.
        """
        return self

    def addressed(self, population: Population) -> dict[int, Slots]:
        """Return the users to ask: their slots (numbers on their node), by the node's id."""
        return population.addressed(self.cohort)

    @abstractmethod
    def sent(self, salt: int, number: int, numbered: bool) -> RecordDict:
        """Return the content of the message to a node.

        ``salt`` is the run's public salt, and ``number`` is the step's number on the wire.
        ``numbered`` is True if the node's users have numbers.
        """

    @abstractmethod
    def read(self, content: RecordDict) -> bytes:
        """Return a reply as bytes for the store; raise MessageError if it is invalid."""

    @abstractmethod
    def part(
        self, content: bytes, keys: NodeKeys, salt: int, number: int, slots: Slots
    ) -> Any | None:
        """Return a node's part of the answer, with its ``count`` of users.

        ``content`` is what :meth:`read` has returned, ``keys`` has the coins of the node's users,
        and ``slots`` are the users who were asked. Return None if these cannot have sent it.
        """

    @abstractmethod
    def together(self, parts: Mapping[int, Any]) -> Any:
        """Return the answer, made of the parts by node; it has a ``count`` of users."""

    def metrics(self, answer: Any) -> dict[str, int | float]:
        """Return the metrics of an answer, by name, that results list beside a step's counts."""
        return {}

    def to_bytes(self, answer: Any) -> bytes:
        """Return an answer as bytes for the store, if the question is ``condensed``."""
        raise NotImplementedError

    def from_bytes(self, kept: bytes) -> Any:
        """Return the answer that :meth:`to_bytes` has turned into bytes."""
        raise NotImplementedError
