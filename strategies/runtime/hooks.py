"""Hooks: the methods of a strategy that a run calls. Protocols override some of them."""

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import Strategy

from ldp_flower.data.schema import Schema
from ldp_flower.guarantee.messages import NodeKeys
from ldp_flower.refusals import TooFew

from .cost import privacy_spent
from .exchange import means_of
from .facts import PrivacySpent
from .population import Population, SizeOnlyPopulation, fewest_users
from .prints import Print, prints_of
from .run import AnyProtocol, Arguments, Run, TooFewReports

logger = logging.getLogger("flwr")


class Hooks(Strategy):
    """Base class of strategies with the methods that a run calls, beside those of Flower."""

    #: Advice in an error's text on how to make users whose rows fit; empty if this is evident.
    users_advice: ClassVar[str] = ""

    #: Unit that the guarantee protects: all data of a "user", or one "record".
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

    def check_census(self, run: Run) -> None:
        """Check that there are enough users for one step.

        Raises
        ------
        TooFewReports
            If there are too few users.
        """
        users = run.num_users
        if why := Hooks._too_few(self, users) or self._refusal(users):
            raise TooFewReports(why)

    def refusal(
        self, num_users: int, arguments: Arguments | None = None, num_nodes: int = 1
    ) -> TooFew | None:
        """Return why a run with ``num_users`` users does not start, with a number that is enough.

        Return None if the run starts. The method tries the run up to its first question, which it
        does not send.

        Parameters
        ----------
        num_users : int
            Number of users.
        arguments : Arguments, optional
            The arguments of :meth:`start` that the protocol uses.
        num_nodes : int (default: 1)
            Number of nodes that hold the users. It matters with noise at the node.
        """
        return self._with_enough(lambda users: self._tried(users, arguments, num_nodes), num_users)

    def _with_enough(
        self, refused: Callable[[int], TooFew | None], num_users: int
    ) -> TooFew | None:
        """Return why ``num_users`` users are refused and how many are enough; None if accepted.

        ``refused`` is a function that returns why a number of users is refused, or None.
        """
        few = refused(num_users)
        if few is None or few.needed is not None:
            return few
        return replace(few, needed=fewest_users(refused, num_users))

    def _tried(
        self,
        num_users: int,
        arguments: Arguments | None = None,
        num_nodes: int = 1,
        share: float = 1.0,
    ) -> TooFew | None:
        """Return why a run with ``num_users`` users would not ask its first question, or None."""
        arguments = arguments or self._arguments(None, 0, None)
        run = Run(self, SizeOnlyPopulation(num_users, num_nodes), arguments, share)
        disabled, logger.disabled = logger.disabled, True
        try:
            self.check_census(run)
            next(self.protocol(run), None)
        except TooFewReports as refused:
            return refused.refusal
        finally:
            logger.disabled = disabled
        return None

    def _refusal(self, num_users: int) -> TooFew | None:
        """Return why ``num_users`` users are too few, from public numbers alone, or None.

        By default ``min_reports`` are enough. Protocols override it with what their noise requires.
        """
        return self._too_few(num_users)

    def _too_few(self, num_users: int) -> TooFew | None:
        """Return the refusal of fewer users than ``min_reports``, or None."""
        return None if num_users >= self.min_reports else self.too_small(num_users)

    def _arguments(
        self, initial_arrays: ArrayRecord | None, num_rounds: int, train_config: ConfigRecord | None
    ) -> Arguments:
        """Return the arguments of :meth:`start` that the protocol uses: by default none."""
        if initial_arrays or num_rounds or train_config:
            logger.info("Not used: initial arrays, number of rounds, configs")
        return Arguments()

    def prints(self) -> dict[str, Print | str]:
        """Return each parameter's hash and text, by name; by the hashes a store knows its run."""
        return prints_of(self)

    @property
    def carrier(self) -> str | None:
        """Type of the app's own messages if questions are sent with them, else None."""
        return None

    def census_content(self, arguments: Arguments) -> RecordDict:
        """Return further records to send with the census, such as an app's own records.

        The census is a run's first message. It asks nodes how many users they have.
        """
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
        """Return the users whom the run may query: by default all users of the census."""
        return Population(nodes, salt)

    def too_small(self, num_users: int) -> TooFew:
        """Return the refusal of a run whose ``num_users`` users are too few for its cohorts."""
        why = (
            f"{num_users:,} users are too few for the cohorts of {type(self).__name__}: each "
            f"cohort needs at least {self.min_reports:,}."
        )
        return TooFew(why, "cohorts")

    def public_means(self, public: list[MetricRecord]) -> MetricRecord:
        """Return the means of the metrics that clients sent without noise, as public facts.

        They are listed among a step's metrics as ``public.NAME``.
        """
        return means_of(public)

    def cost(self, asked: Sequence[Any], seeded: bool) -> PrivacySpent:
        """Return the largest cost that any user has from answering all these questions."""
        return privacy_spent(asked, self.protects, seeded)

    @property
    def charged(self) -> str:
        """Sentence on what a ledger charges a user or a silo that has answered.

        Messages append it to the number of users who have spent budget. It is empty if a ledger
        charges each answer separately.
        """
        return ""

    def finished(self, run: Run, found: Any) -> Any:
        """Return the run's result, from the protocol's result ``found``, which has the run's facts.

        Strategies override it to add what the protocol cannot know, such as a cost of labels only.
        """
        return found
