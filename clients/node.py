"""Policy, ledger and stored answers of a node, which every handler of a client needs.

There is one order for all answers: what is asked is checked, the cost is reserved, and only then
data are computed with; after that nothing leaves but an answer. docs/threat-model.md has the table.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal, Self, TypeVar

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from ldp_flower.data.users import Users, UserSource
from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.ledger import (
    ATTEMPTS,
    Accounts,
    Claim,
    Entry,
    Ledger,
    Series,
    SqliteLedger,
    StateLedger,
    texts,
)
from ldp_flower.guarantee.ledger_file import LedgerError, plan_of
from ldp_flower.guarantee.messages import NodeKeys, Purpose, Query, Report, Slots
from ldp_flower.questions import OfClasses, Question, Standardised
from ldp_flower.randomizers import Randomizer
from ldp_flower.randomness import KeyedRandom, RandomSource, SystemRandom, Words, derive
from ldp_flower.validation import Floats, is_integer, plain

from .reply import Received, Refusal
from .statistics import NONE, OwnStatistics

T = TypeVar("T")
RUN: Final = "run"  # a simulation's clients take the seed of its run
Seed = int | Literal["run"] | Callable[[Context], int | None] | None

_UNLIMITED = PrivacyPolicy(
    float("inf"),
    max_delta=0.5,
    allow_inexact=True,
    unit="record",
    features_public=True,
    allow_public_changes=True,
    min_epsilon=0.0,
    max_width=1 << 40,
)


@dataclass(frozen=True)
class EffectivePolicy:
    """The policy that a client answers under.

    In a deployment it combines the operator's policy with the app's own; in a simulation it is
    the app's own.

    Attributes
    ----------
    seed : int or None
        Seed of private randomness, in simulation only; None: the system's.
    rehearsal : bool (default: False)
        Whether the operator rehearses: everything is as always, but reports are about
        no data, and nothing is spent.
    """

    simulated: bool
    policy: PrivacyPolicy
    seed: int | None
    rehearsal: bool = False

    @classmethod
    def resolve(
        cls, received: Received, context: Context, own: PrivacyPolicy | None, seed: Seed
    ) -> Self:
        """Return the effective policy of a node, given what the app was constructed with.

        A ``seed`` that is a function gets the ``context``. Of a simulation's ``context`` the seed
        of the run is read, if the app asks for it; of any other nothing. Refusal if this is no
        simulation and the app is seeded, or the operator has set no valid policy; or this is one,
        and its run lacks the seed that the app asks for.
        """
        if received.simulated:
            return cls(True, own or _UNLIMITED, _simulations_seed(seed, context))
        _warn_of_misspelt(frozenset(received.config))
        try:
            operators = PrivacyPolicy.from_node_config(received.config)
        except (ValueError, OverflowError) as error:
            raise Refusal.of_policy(str(error)) from error
        if operators is None:
            raise Refusal(Refusal.MISCONFIGURED, "The operator has set no policy (max-epsilon).")
        rehearsal = received.config.get("rehearsal", False)
        if not isinstance(rehearsal, bool):
            raise Refusal.of_policy(f"Expected rehearsal true or false, got {rehearsal!r}.")
        if seed != RUN and _seed_of(seed, context) is not None:
            raise Refusal(Refusal.MISCONFIGURED, "The client is seeded outside a simulation.")
        return cls(False, operators.tightened_by(own), None, rehearsal)

    def require_allowed(self, randomizer: Randomizer) -> None:
        """Raise Refusal if the policy does not allow one report of this mechanism."""
        forbid(type(randomizer).__name__, self.policy.objection(randomizer))


def forbid(mechanism: str, objection: str | None) -> None:
    """Raise Refusal if a policy has an objection to a mechanism; which one, the log says."""
    if objection is not None:
        text = "The operator's policy does not allow this mechanism."
        raise Refusal(Refusal.FORBIDDEN, text, f"{mechanism}: {objection}.")


def called(function: Callable[[Context], T], context: Context) -> T:
    """Call a function of the app; its exceptions become one of ours, without the app's words."""
    try:
        return function(context)
    except (Refusal, LedgerError) as error:
        raise RuntimeError("The app's own code raised one of the client's errors.") from error


def _simulations_seed(seed: Seed, context: Context) -> int | None:
    if seed != RUN:
        return _seed_of(seed, context)
    of_run = plain(context.run_config.get("seed"))
    if not is_integer(of_run):
        text = "The run's configuration has no integer seed, which the client is to take."
        raise Refusal(Refusal.MISCONFIGURED, text)
    return int(of_run)


def _seed_of(seed: int | Callable[[Context], int | None] | None, context: Context) -> int | None:
    found: int | None = plain(called(seed, context) if callable(seed) else seed)
    return found


@lru_cache
def _warn_of_misspelt(keys: frozenset[str]) -> None:
    """Log which of an operator's keys may be misspelt, once a process."""
    for key, setting in sorted(PrivacyPolicy.nearly_settings(keys).items()):
        logging.getLogger(__name__).warning(
            "The key %r in node_config is no setting of ldp-flower and is left to the app: "
            "is %r meant?",
            key,
            setting,
        )


def check_own(policy: object, seed: object) -> None:
    """Raise ValueError unless an app was constructed with a policy and a seed, or without."""
    if not isinstance(policy, PrivacyPolicy | None):
        raise ValueError(f"Expected policy to be a PrivacyPolicy, got {type(policy).__name__}.")
    of_run = isinstance(seed, str) and seed == RUN
    if not (seed is None or of_run or is_integer(seed) or callable(seed)):
        raise ValueError(f'Expected seed to be an integer, a function or "run", got {seed!r}.')


_EXHAUSTED: Final = (
    "No addressed user can afford this query: the cost is above what the privacy budget leaves."
)
_MIN_EPSILON = 1e-6  # of any randomizer


def operators_ledger(received: Received, policy: PrivacyPolicy) -> SqliteLedger:
    """Return the ledger that the node's operator has created.

    Refusal if the operator has set none; LedgerError if it is missing or no ledger, cannot be
    written, or is about another unit.
    """
    path = received.config.get("ledger-path")
    if not isinstance(path, str):
        raise Refusal(Refusal.MISCONFIGURED, "The operator has set no ledger (ledger-path).")
    ledger = SqliteLedger(path)
    ledger.check(policy.unit)
    return ledger


@dataclass(frozen=True)
class Asked:
    """A question that has been checked, without any data.

    ``slots`` are the users that it addresses. ``digest`` names it together with all that decides
    the answer. ``summary`` is what is asked and how it is randomised, for the operator's ledger.
    """

    slots: Slots
    cost: Cost
    digest: str
    summary: tuple[str, str]
    series: Series | None = None


@dataclass(frozen=True)
class Node:
    """The users of a node, its effective policy, and its ledger.

    ``accounts`` are the names that the ledger knows the users by; ``run_id`` is Flower's number of
    the run, for the operator's ledger. One that is ``blind`` answers as if its users had no data.
    """

    terms: EffectivePolicy
    keys: NodeKeys
    ledger: Ledger
    accounts: NDArray[np.generic] = field(repr=False)
    run_id: int
    blind: bool = field(default=False, kw_only=True)

    def census(self) -> dict[str, int]:
        """Return how many users the node holds, how many can pay nothing, and their keys."""
        keys, policy = self.keys, self.terms.policy
        least = Cost(max(policy.min_epsilon, _MIN_EPSILON))
        able = self.ledger.affordable(self.accounts, least, policy)
        return {
            "group": keys.group,
            "first": keys.first,
            "users": keys.count,
            "seeded": int(self.terms.seed is not None),
            "rehearsing": int(self.terms.rehearsal),
            "simulated": int(self.terms.simulated),
            "exhausted": int(keys.count - np.count_nonzero(able)),
        }

    def numbered(self) -> Self:
        """Return the node with users' keys that stay theirs; in a simulation all do."""
        if not isinstance(self.ledger, SqliteLedger):
            return self
        numbers = self.ledger.numbers(self.accounts)
        return replace(self, keys=NodeKeys(0, 0, self.keys.count, numbers))

    def shown(self, values: Callable[[], Floats], shape: tuple[int, int]) -> Floats:
        """Return what is randomised of users' values, which have this shape: NaN without data.

        A rehearsal computes values, so that its log says what is wrong with them, and shows none.
        """
        found = None if self.blind else values()
        return np.full(shape, np.nan) if found is None or self.terms.rehearsal else found

    def private_randomness(self, step: int, slots: Slots) -> RandomSource:
        """Return the source of everything that must stay secret."""
        if self.terms.seed is None:
            return SystemRandom()
        return KeyedRandom(self.keys.states(Purpose.NOISE, self.terms.seed, step, slots))

    def words(self, purpose: Purpose, step: int, slots: Slots) -> Words:
        """Return a word of each user that stays secret and has no part in its noise."""
        if self.terms.seed is None:
            return SystemRandom().words((len(slots), 1))[:, 0]
        return self.keys.states(purpose, self.terms.seed, step, slots)

    @property
    def keeps_secrets(self) -> bool:
        """Whether users keep secrets for a series: a simulation's follow from its seed."""
        return self.terms.seed is not None or isinstance(self.ledger, SqliteLedger)

    def permanent_keys(self, series: str, slots: Slots, coins: Words) -> list[bytes]:
        """Return the secrets that users keep for a series of permanent answers.

        In a simulation they follow from its seed, as there is no node that could keep them.
        LedgerError if users have paid for the series and their secrets are gone, or are of other
        coins.
        """
        if self.terms.seed is not None:
            own = self.keys.states(Purpose.NOISE, self.terms.seed, 0, slots)
            return [word.tobytes() for word in derive(int(series[:16], 16), own)]
        if self.terms.rehearsal:  # about no data: nothing is kept
            return [word.tobytes() for word in SystemRandom().words((len(slots), 4))]
        assert isinstance(self.ledger, SqliteLedger)
        return self.ledger.series_keys(self.accounts[slots], Series(series, coins.tolist()))

    def asked(self, query: Query, *about: object, permanent: bool = False) -> Asked:
        """Return a query, which has been checked, with its cost and its digest.

        ``about`` is what else decides the reports. With ``permanent`` answers users pay for the
        query's series as a whole, once. Refusal if it addresses nobody.
        """
        slots = self.keys.addressed(query.salt, query.low, query.high)
        if not len(slots):
            raise Refusal(Refusal.MALFORMED, "The query addresses no user of this node.")
        accounts = self.accounts[slots]
        # Slots, which are the accounts of a simulation, follow from the keys and the query.
        names = accounts.tolist() if accounts.dtype.kind == "U" else [self.keys.count]
        digest = query.digest(self.keys.group, self.keys.first, *names, *about)
        cost = Cost.of(query.randomizer, query.salt)
        series = None
        if permanent:
            cost = replace(cost, plan=plan_of(query.series), steps=query.collections or 1)
            if self.terms.seed is None:
                coins = self.keys.coins(query.salt, query.coin_step, slots)
                series = Series(query.series, coins.tolist())
        return Asked(slots, cost, digest, self.booked(query), series)

    def booked(self, query: Query) -> tuple[str, str]:
        """Return a query's name in the ledger: its question and its mechanism."""
        return query.summary

    def answered(self, asked: Asked) -> Report | None:
        """Return the answer if there is one already; Refusal if nobody has paid or can pay."""
        return self._reply_in(self._claim(asked))

    def answer_once(self, asked: Asked, randomised: Callable[[Self, Slots], Report]) -> Report:
        """Answer for the addressed users who can afford it.

        When this returns, the cost is on the ledger, and so is the returned report. Refusal, with
        nothing spent, if nobody can afford it.

        Parameters
        ----------
        randomised : callable
            Function from this node and slots to the report about these users. It is called once
            the cost is on the ledger, and only if the question has no answer yet. If it fails, it
            is called for the node without data: whether it fails may depend on data.
        """
        if self.terms.rehearsal:  # nobody pays
            claim = self._claim(asked)
            kept = self._reply_in(claim)
            return kept or self._computed(asked.slots[claim.users], randomised, claim.attempts)
        entry = Entry(asked.digest, self.run_id, *asked.summary)
        accounts, policy = self.accounts[asked.slots], self.terms.policy
        # A copy of the message waits for the answer: it must not be taken for another attempt.
        with self.ledger.answering(asked.digest):
            claim = self.ledger.reserve(entry, accounts, asked.cost, policy, asked.series)
            if (reply := self._reply_in(claim)) is not None:
                return reply
            report = self._computed(asked.slots[claim.users], randomised, claim.attempts)
            return _kept(self.ledger.fulfil(asked.digest, report.to_bytes()))

    def _claim(self, asked: Asked) -> Claim:
        """Return what the ledger holds of a question, or else who could pay for it."""
        accounts = self.accounts[asked.slots]
        able = self.ledger.affordable(accounts, asked.cost, self.terms.policy)
        # Looked up second: if another process's answer to this very question took the last
        # of the budget, it is there by now.
        return self.ledger.claim(asked.digest, len(accounts)) or Claim(able)

    def _reply_in(self, claim: Claim) -> Report | None:
        if claim.reply is not None:
            return _kept(claim.reply)
        if not claim.users.any():
            raise Refusal(Refusal.EXHAUSTED, _EXHAUSTED)
        return None

    def _computed(
        self, slots: Slots, randomised: Callable[[Self, Slots], Report], attempts: int
    ) -> Report:
        """Return a report; nothing but its noise if data made it fail, or end the process."""
        logger = logging.getLogger(__name__)
        if attempts > ATTEMPTS:
            logger.error("An answer was begun %d times: it is given without data.", ATTEMPTS)
        else:
            try:
                return randomised(self, slots)
            except KeyboardInterrupt:  # is the operator's
                raise
            except BaseException:  # of any kind: that there was one must not be seen
                logger.exception("An answer could not be computed: it is given without data.")
        return randomised(replace(self, blind=True), slots)


def _kept(stored: bytes) -> Report:
    """Return the report that a ledger has stored."""
    if not stored:
        raise Refusal(Refusal.GONE, "The answer to this query is no longer kept.")
    return Report.from_bytes(stored)


LoadUsers = Callable[[Context], UserSource]


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
        if self.blind:
            nothing = np.zeros((0, self.users.num_features)), np.zeros(0)
            return Users(*nothing, np.zeros(len(slots) + 1, np.int64))
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
