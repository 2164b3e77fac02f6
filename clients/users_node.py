"""A node with the rows of its users, as the app's ``load_users`` returns them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from flwr.app import Context

from ldp_flower.data.users import Users, UserSource, users_instead_of
from ldp_flower.guarantee.ledger import Accounts, texts
from ldp_flower.guarantee.messages import NodeKeys, Query, Slots
from ldp_flower.guarantee.state_ledger import StateLedger
from ldp_flower.questions import OfClasses, Question, Standardised

from .approval import some_of
from .effective_policy import EffectivePolicy, called
from .node import Node, operators_ledger
from .reply import Received, Refusal
from .statistics import NONE, OwnStatistics

LoadUsers = Callable[[Context], UserSource]


@dataclass(frozen=True)
class UsersNode(Node):
    """A node that answers from its users' rows, not by an app's training of the whole node.

    ``own`` holds the app's statistics.
    """

    users: UserSource
    own: OwnStatistics = field(default_factory=lambda: NONE)

    @classmethod
    def of(
        cls,
        received: Received,
        context: Context,
        terms: EffectivePolicy,
        load_users: LoadUsers,
        own: OwnStatistics = NONE,
    ) -> Self:
        """Return the node with the users that the app's function ``load_users`` loads.

        Outside of simulations the node needs its operator's ledger. Raise Refusal if the operator
        has set no ledger, or if the users have no ids for it. Raise LedgerError if the ledger
        cannot be used. Raise TypeError if ``load_users`` returns anything but users.
        """
        # The ledger is opened before data are read, so that its problems show at once.
        ledger = None if terms.simulated else operators_ledger(received, terms.policy)
        users = called(load_users, context)
        if isinstance(users, type) or not isinstance(users, UserSource):
            raise TypeError(
                f"Expected load_users to return Users, got {type(users).__name__}; "
                f"{users_instead_of(users)}."
            )
        keys = NodeKeys(received.node_id & (1 << 64) - 1, 0, len(users))
        if received.simulated and users.first is not None:
            keys = NodeKeys(0, users.first, len(users))
        accounts = np.arange(len(users)) if ledger is None else _accounts(users)
        paying = ledger or StateLedger(received.state, len(users))
        return cls(terms, keys, paying, accounts, received.run_id, users, own)

    def census(self) -> dict[str, int]:
        """Return the census of :meth:`Node.census` with the number of features."""
        return {**super().census(), "features": self.users.num_features}

    def columns_read(self, question: Question) -> Sequence[str] | None:
        """Return the names of all columns that a question reads; None if a column has no name.

        An app's statistic gets whole rows. So all columns count as read, whatever its question
        names.
        """
        width = self.users.num_features
        read = range(width + 1) if type(question) in self.own else question.reads(width)
        names = getattr(self.users, "columns", None)  # other sources of users have no names
        if read is None or names is None or len(names) < width + self.users.has_targets:
            return None
        return [names[index] for index in read if index < width or self.users.has_targets]

    @property
    def names_columns(self) -> bool:
        """True if the users have a schema, whose columns are named in the census."""
        return getattr(self.users, "schema_digests", None) is not None

    def booked(self, query: Query) -> tuple[str, str]:
        """Return the names of :meth:`Node.booked`, the question with the columns it is about."""
        asked, mechanism = query.summary
        names = getattr(self.users, "columns", None)  # other sources of users have no names
        return asked + of_columns(query.question, names), mechanism

    def take(self, slots: Slots) -> Users:
        """Return the users with the indices ``slots``, each with its rows up to the policy's limit.

        If the node is blind, it answers without data: the users have no rows.
        """
        if self.blind:
            nothing = np.zeros((0, self.users.num_features)), np.zeros(0)
            return Users(*nothing, np.zeros(len(slots) + 1, np.int64))
        return self.users.take(slots, self.terms.policy.max_rows)


def check_loader(load_users: object) -> None:
    """Raise ValueError unless ``load_users`` is callable."""
    if not callable(load_users):
        raise ValueError(
            "Expected load_users to be a function of the node's Context that returns Users, "
            f"got {type(load_users).__name__}."
        )


def _accounts(users: UserSource) -> Accounts:
    """Return the users' names on an operator's ledger."""
    # Only Users checks that ids are distinct names.
    if not isinstance(users, Users) or users.ids is None:
        raise Refusal(Refusal.MISCONFIGURED, "The users have no ids, which a ledger needs.")
    texts(users.ids)
    return users.ids.copy()


_MAX_COLUMNS_NAMED = 8  # largest number of columns that are named; a query may have thousands


def of_columns(question: Question, columns: Sequence[str] | None) -> str:
    """Return the columns that a question names, such as ``" of age, wage"``.

    ``columns`` are the names of the features and, last, of the targets if there are targets. Return
    an empty text if the question names no columns, and so is about all, or if columns have no
    names.
    """
    while isinstance(question, Standardised | OfClasses):  # these keep the columns
        question = question.inner
    chosen = getattr(question, "coordinates", None)
    if chosen is None or columns is None:
        return ""
    names = dict.fromkeys(columns[i] if i < len(columns) else "the target" for i in chosen)
    return f" of {some_of(list(names), _MAX_COLUMNS_NAMED)}"
