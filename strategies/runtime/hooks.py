"""Hooks: what a run asks its strategy. A protocol overrides what is different for it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from flwr.app import MetricRecord, RecordDict

from ldp_flower.data.schema import Schema
from ldp_flower.guarantee.messages import NodeKeys
from ldp_flower.refusals import TooFew

from .ask import privacy_spent
from .exchange import means_of
from .facts import PrivacySpent
from .population import Population
from .run import AnyProtocol, Arguments, Run


class Hooks(ABC):
    """Base class of strategies, as a run sees them."""

    #: Who is protected.
    protects: ClassVar[str] = "user"

    epsilon: float
    min_reports: int

    @abstractmethod
    def protocol(self, run: Run) -> AnyProtocol:
        """Yield questions to cohorts of the run, get estimates, return the result.

        Parameters
        ----------
        run : Run
            Whose users are asked.
        """

    @abstractmethod
    def check_census(self, run: Run) -> None:
        """Refuse what the census has found; raise TooFewReports."""

    @abstractmethod
    def refusal(self, num_users: int, arguments: Arguments | None = None) -> TooFew | None:
        """Return why a run of so many users does not start, and how many would do."""

    @property
    def carrier(self) -> str | None:
        """Type of the app's own messages that carry the questions, if they do."""
        return None

    def census_content(self, arguments: Arguments) -> RecordDict:
        """Return what is asked besides, or an app's own records that carry the census."""
        return RecordDict()

    @property
    def fewest_nodes(self) -> int:
        """Fewest nodes with which a run starts."""
        return 1

    @property
    def row_schema(self) -> Schema | None:
        """The schema that users' tables need to have, where a family takes one."""
        return getattr(self, "schema", None)

    @property
    def row_features(self) -> int | None:
        """Number of features that users' rows need to have; None: any."""
        return None if self.row_schema is None else self.row_schema.num_features

    def population(self, nodes: Mapping[int, NodeKeys], salt: int) -> Population:
        """Return the users whom the run may ask, of all in the census."""
        return Population(nodes, salt)

    def too_small(self, num_users: int) -> TooFew:
        """Return that so many users do not give all cohorts, none of which may be smaller."""
        why = f"{num_users:,} users are too few for the cohorts of {type(self).__name__}."
        return TooFew(why, "cohorts")

    def public_means(self, public: list[MetricRecord]) -> MetricRecord:
        """Return the means of what clients declared public and sent."""
        return means_of(public)

    def cost(self, asked: Sequence[Any], seeded: bool) -> PrivacySpent:
        """Return what one user spends, at most, by answering all these questions."""
        return privacy_spent(asked, self.protects, seeded)

    @property
    def charged(self) -> str:
        """What to say of a run's cost where ledgers are charged with more than one answer."""
        return ""

    def finished(self, run: Run, found: Any) -> Any:
        """Return the result of the run: what the protocol has found, with the run's facts."""
        return found
