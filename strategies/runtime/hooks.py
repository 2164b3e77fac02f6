"""Hooks: the methods of a strategy that a run calls. Protocols override some of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from ldp_flower.data.schema import Schema
from ldp_flower.guarantee.messages import NodeKeys
from ldp_flower.refusals import TooFew

from .ask import privacy_spent
from .exchange import means_of
from .facts import PrivacySpent
from .population import Population
from .run import AnyProtocol, Arguments, Run
from .run_store import Print, prints_of


class Hooks(ABC):
    """Base class of strategies with the methods that a run calls."""

    #: Advice in an error's text on how to make users whose rows fit; empty if this is evident.
    users_advice: ClassVar[str] = ""

    #: Unit of protection.
    protects: str = "user"

    #: Share of the budget that one run uses, with noise at the node.
    share: float = 1.0

    #: Approved study of all questions, and the file of the key that signs them, if there are any.
    study: str | None = None
    study_key: str | None = None

    epsilon: float
    min_reports: int
    noise: str

    @abstractmethod
    def protocol(self, run: Run) -> AnyProtocol:
        """Yield questions to cohorts of the run, receive the answers, and return the result.

        Parameters
        ----------
        run : Run
            The run, whose users are asked.
        """

    @abstractmethod
    def check_census(self, run: Run) -> None:
        """Raise TooFewReports if the census shows that the run cannot start."""

    @abstractmethod
    def refusal(
        self, num_users: int, arguments: Arguments | None = None, num_nodes: int = 1
    ) -> TooFew | None:
        """Return why a run with ``num_users`` users does not start, with a number that is enough.

        Return None if the run starts.
        """

    @abstractmethod
    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Return the messages of a round, in the form that Flower's strategies return."""

    def prints(self) -> dict[str, Print | str]:
        """Return each parameter's hash and text, by name; by the hashes a store knows its run."""
        return prints_of(self)

    @property
    def carrier(self) -> str | None:
        """Type of the app's own messages if questions are sent with them, else None."""
        return None

    def census_content(self, arguments: Arguments) -> RecordDict:
        """Return further records to send with the census, such as an app's own records."""
        return RecordDict()

    @property
    def fewest_nodes(self) -> int:
        """Smallest number of nodes with which a run starts."""
        return 1

    @property
    def row_schema(self) -> Schema | None:
        """The schema that users' tables need to have, or None if the strategy has no schema."""
        return getattr(self, "schema", None)

    @property
    def row_features(self) -> int | None:
        """Number of features that users' rows need to have; None if any number is accepted."""
        return None if self.row_schema is None else self.row_schema.num_features

    def population(self, nodes: Mapping[int, NodeKeys], salt: int) -> Population:
        """Return those users of the census whom the run may query."""
        return Population(nodes, salt)

    def too_small(self, num_users: int) -> TooFew:
        """Return the refusal of a run whose ``num_users`` users are too few for its cohorts."""
        why = f"{num_users:,} users are too few for the cohorts of {type(self).__name__}."
        return TooFew(why, "cohorts")

    def public_means(self, public: list[MetricRecord]) -> MetricRecord:
        """Return the means of the metrics that clients declared public and sent."""
        return means_of(public)

    def cost(self, asked: Sequence[Any], seeded: bool) -> PrivacySpent:
        """Return the largest cost that any user has from answering all these questions."""
        return privacy_spent(asked, self.protects, seeded)

    @property
    def charged(self) -> str:
        """Note on a run's cost, if ledgers are charged for more than one answer."""
        return ""

    def finished(self, run: Run, found: Any) -> Any:
        """Return the final result of the run from the protocol's result with the run's facts."""
        return found
