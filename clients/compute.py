"""A node with rows to answer from, and the values that a statistic has of them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from ldp_flower.guarantee.keys import NodeKeys, Slots
from ldp_flower.guarantee.ledger import Accounts, StateLedger, texts
from ldp_flower.guarantee.messages import Query
from ldp_flower.guarantee.questions import OfClasses, Question, Rows, Standardised
from ldp_flower.guarantee.users import Users, UserSource
from ldp_flower.randomness import Words

from .arithmetic.rows import chosen
from .effective_policy import EffectivePolicy, called
from .node import Node, operators_ledger
from .own_statistics import NONE, OwnStatistics, of_each
from .reply import Received, Refusal
from .statistics import compute, public_block
from .statistics.transformed import with_places

LoadUsers = Callable[[Context], UserSource]

# Users are taken in runs of this many. Their number is public; their rows are not,
# and must not decide in which order reports are added up.
CHUNK = 1024


@dataclass(frozen=True)
class UsersNode(Node):
    """A node with rows of users to answer from; ``own`` are the app's own statistics."""

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
        """Return the node whose users ``load_users``, the app's function, loads.

        Refusal if the operator has set no ledger, or it keeps one and the users have no ids;
        LedgerError if the ledger cannot be used; TypeError if what is loaded are no users.
        """
        # Before data are looked at: what is wrong with a ledger shows at once.
        ledger = None if terms.simulated else operators_ledger(received, terms.policy)
        users = called(load_users, context)
        if isinstance(users, type) or not isinstance(users, UserSource):
            raise TypeError(
                f"Expected load_users to return Users, got {type(users).__name__}; "
                "see Users.from_rows."
            )
        keys = NodeKeys(received.node_id & (1 << 64) - 1, 0, len(users))
        if received.simulated and users.first is not None:
            keys = NodeKeys(0, users.first, len(users))
        accounts = np.arange(len(users)) if ledger is None else _accounts(users)
        paying = ledger or StateLedger(received.state, len(users))
        return cls(terms, keys, paying, accounts, received.run_id, users, own)

    def census(self) -> dict[str, int]:
        """Return how many users the node holds, their keys, and how many features rows have."""
        return {**super().census(), "features": self.users.num_features}

    def booked(self, query: Query) -> tuple[str, str]:
        """Return what the operator's books call a query, with the columns that it names."""
        asked, mechanism = query.summary
        names = getattr(self.users, "columns", None)  # of those that are made while asked: none
        return asked + of_columns(query.question, names), mechanism

    def take(self, slots: Slots) -> Users:
        """Return some users, each with the rows that the policy lets it use."""
        return self.users.take(slots, self.terms.policy.max_rows)


def check_loader(load_users: object) -> None:
    """Raise ValueError unless an app was constructed with a function that loads users."""
    if not callable(load_users):
        raise ValueError(
            "Expected load_users to be a function of the node's Context that returns Users, "
            f"got {type(load_users).__name__}."
        )


def _accounts(users: UserSource) -> Accounts:
    """Return the names that an operator's ledger knows users by."""
    # Only those of Users are checked to be distinct names.
    if not isinstance(users, Users) or users.ids is None:
        raise Refusal(Refusal.MISCONFIGURED, "The users have no ids to keep a ledger of.")
    texts(users.ids)
    return users.ids.copy()


def values_of(
    take: Callable[[Slots], Users],
    slots: Slots,
    query: Query,
    own: OwnStatistics = NONE,
    words: Words | None = None,
) -> NDArray[np.float64]:
    """Return the users' values; whatever goes wrong with data stays on this side.

    A value that cannot be computed becomes NaN, which the randomizer takes for the
    centre of its domain: the reply looks like any other, and the log says so.
    ``take`` returns the users in some slots, ``own`` are the app's own statistics, and
    by ``words``, one for each slot, users draw rows; without, they take the first.
    """
    logger = logging.getLogger(__name__)
    coins = np.zeros(len(slots), np.uint64) if words is None else words

    def computed(some: Slots) -> NDArray[np.float64]:
        users = take(slots[some])
        if query.question.classes_asked:
            users = with_places(users, query.question.classes_asked)
        kept = chosen(users, query.question, coins[some])
        lost = len(users.targets) - len(kept.targets)
        if lost and query.question.rows is Rows.FINITE:
            logger.warning("Records that are not finite and are left out: %d.", lost)
        bound = getattr(query.question, "feature_bound", None)
        if bound is not None:
            _log_far(kept.features, bound, "rows", query.statistic)
        if (statistic := own.get(type(query.question))) is not None:
            return of_each(kept, query.question, statistic, query.randomizer.width)
        return compute(kept, query.question, coins[some])

    values = _together_or_apart(
        computed,
        np.arange(len(slots)),
        lambda: np.full((1, query.randomizer.width), np.nan),
        query.statistic,
    )
    radius = getattr(query.randomizer, "radius", None)
    if isinstance(radius, float):
        _log_far(values, radius, "users' values", query.statistic)
    if bad := int((~np.isfinite(values).all(axis=1)).sum()):
        logger.warning(
            "%d of %d users have nothing that can be reported (an entry or the target is missing, "
            "or is no number): they answer at random.",
            *(bad, len(slots)),
        )
    return values


def public_of(
    take: Callable[[Slots], Users], slots: Slots, query: Query, num_features: int
) -> NDArray[np.float32]:
    """Return the users' public block; a user whose rows cannot be had has none."""
    nobody = Users(np.zeros((0, num_features)), np.zeros(0), np.zeros(2, np.int64))
    return _together_or_apart(
        lambda some: public_block(take(some), query.question),
        slots,
        lambda: public_block(nobody, query.question),
        query.statistic,
    )


def _together_or_apart(
    compute: Callable[[Slots], NDArray[Any]],
    slots: Slots,
    otherwise: Callable[[], NDArray[Any]],
    name: str,
) -> NDArray[Any]:
    """Compute for all users at once or, where somebody's data fail, for each alone.

    One user's data must not cost the others their answer. Nor do they change it: a user
    has the same bits alone as among others, see :mod:`.statistics`.
    """
    try:
        return compute(slots)
    except Exception:
        if len(slots) == 1:
            logging.getLogger(__name__).exception(
                "Statistic %s failed for a user, who reports as if without data.", name
            )
            return otherwise()
    runs = (slots[i : i + 1] for i in range(len(slots)))
    return np.concatenate([_together_or_apart(compute, one, otherwise, name) for one in runs])


_MAX_COLUMNS_NAMED = 8  # columns that are named; a server can ask for thousands


def of_columns(question: Question, columns: Sequence[str] | None) -> str:
    """Return the columns that a question names, such as ``" of age, wage"``.

    ``columns`` are the names of features and, where it has one, last of the targets. Empty if the
    question names none, which is then about all of them, or they have no names.
    """
    while isinstance(question, Standardised | OfClasses):  # of the same columns
        question = question.inner
    chosen = getattr(question, "coordinates", None)
    if chosen is None or columns is None:
        return ""
    names = dict.fromkeys(columns[i] if i < len(columns) else "the target" for i in chosen)
    shown = [
        "".join(sign if sign.isprintable() else "?" for sign in name)
        for name in list(names)[:_MAX_COLUMNS_NAMED]
    ]
    if more := len(names) - len(shown):
        shown.append(f"{more} more")
    return f" of {', '.join(shown)}"


_FAR_FACTOR = 10.0  # times the bound: no tail, but other units
_MAX_FAR_SHARE = 0.5  # share of the rows, or users, from which on units are in question

_UNITS = (
    "%d of %d %s are more than 10 times beyond the bound of %s and count as the bound: are "
    "columns centred, and in the units that the strategy expects? A Schema sees to both."
)


def _log_far(rows: NDArray[np.float64], bound: float, what: str, name: str) -> None:
    """Log how many rows or values are beyond their bound; warn if most are far beyond it."""
    logger: Any = logging.getLogger(__name__)
    sizes = np.abs(rows).max(axis=1, initial=0.0)
    clipped, far = (int((sizes > factor * bound).sum()) for factor in (1.0, _FAR_FACTOR))
    if far > _MAX_FAR_SHARE * len(sizes):
        logger.warning(_UNITS, far, len(sizes), what, name)
    elif clipped:
        logger.info("%d of %d %s are beyond the bound of %s.", clipped, len(sizes), what, name)
