"""Policy, ledger and stored answers of a node, which every handler of a client needs.

All answers follow one order: the node checks the query, reserves the cost on the ledger, and only
then computes with data. After the reservation, only an answer leaves the node, and no error.
docs/threat-model.md describes what this order protects.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal, Self, TypeVar

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from ldp_flower.data.users import Users, UserSource, users_instead_of
from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.ledger import (
    ATTEMPTS,
    Accounts,
    Claim,
    Entry,
    PermanentSeries,
    SqliteLedger,
    texts,
)
from ldp_flower.guarantee.ledger_file import LedgerError, plan_of
from ldp_flower.guarantee.limits import exceeded
from ldp_flower.guarantee.messages import (
    ErrorCode,
    MessageError,
    NodeKeys,
    Purpose,
    Query,
    Report,
    Slots,
)
from ldp_flower.guarantee.state_ledger import Ledger, StateLedger
from ldp_flower.guarantee.studies import Studies, Study
from ldp_flower.models.graph import NetworkError
from ldp_flower.questions import OfClasses, Question, Standardised
from ldp_flower.randomizers import Randomizer
from ldp_flower.randomness import KeyedRandom, RandomSource, SystemRandom, Words, derive
from ldp_flower.validation import Floats, is_integer, plain

from .approval import approved, check_census, some_of, studies_of
from .reply import Received, Refusal
from .statistics import NONE, OwnStatistics

T = TypeVar("T")
RUN: Final = "run"  # the seed in the run's configuration, for a simulation's clients
Seed = int | Literal["run"] | Callable[[Context], int | None] | None

_UNLIMITED = PrivacyPolicy(
    float("inf"),
    max_delta=0.5,
    allow_inexact=True,
    unit="record",
    noise="shared",
    max_dishonest=0,
    features_public=True,
    allow_public_changes=True,
    min_epsilon=0.0,
    max_width=1 << 40,
)


@dataclass(frozen=True)
class EffectivePolicy:
    """The policy under which a client answers.

    In a deployment it combines the operator's policy with the app's policy. In a simulation it is
    the app's policy.

    Attributes
    ----------
    seed : int or None
        Seed of private randomness, in simulation only. None stands for the system's randomness.
    rehearsal : bool (default: False)
        True if the operator rehearses: the node answers as usual, but reports are about no data,
        and nothing is spent.
    studies : Studies, optional
        The approved studies, if the operator has a file of studies. The node then answers only
        queries that belong to an approved study.
    """

    simulated: bool
    policy: PrivacyPolicy
    seed: int | None
    rehearsal: bool = False
    studies: Studies | None = None

    @classmethod
    def resolve(
        cls, received: Received, context: Context, own: PrivacyPolicy | None, seed: Seed
    ) -> Self:
        """Return the effective policy of a node, given the app's policy ``own`` and its seed.

        A ``seed`` that is a function gets the ``context``. With the seed "run", the seed is read
        from a simulation's ``context``; nothing else is read from a context. In a deployment, raise
        Refusal if the app has a seed, or if the operator has set no valid policy. In a simulation,
        raise Refusal if the seed is "run" and the run's configuration has no seed. In both cases,
        raise Refusal if the file of approved studies cannot be used.
        """
        if received.simulated:
            simulations = own or _UNLIMITED
            of_run = _simulations_seed(seed, context)
            return cls(True, simulations, of_run, studies=studies_of(simulations))
        _warn_of_misspelt(frozenset(received.config))
        try:
            operators = PrivacyPolicy.from_node_config(received.config)
            policy = None if operators is None else operators.tightened_by(own)
        except (ValueError, OverflowError) as error:
            raise Refusal.of_policy(str(error)) from error
        if policy is None:
            raise Refusal(Refusal.MISCONFIGURED, "The operator has set no policy (max-epsilon).")
        rehearsal = received.config.get("rehearsal", False)
        if not isinstance(rehearsal, bool):
            raise Refusal.of_policy(f"Expected rehearsal true or false, got {rehearsal!r}.")
        if seed != RUN and _seed_of(seed, context) is not None:
            raise Refusal(Refusal.MISCONFIGURED, "The client is seeded outside a simulation.")
        return cls(False, policy, None, rehearsal, studies_of(policy))

    def require_allowed(self, randomizer: Randomizer) -> None:
        """Raise Refusal if the policy does not allow one report of ``randomizer``."""
        forbid(type(randomizer).__name__, self.policy.objection(randomizer))


def forbid(mechanism: str, objection: str | None) -> None:
    """Raise Refusal if ``objection`` is not None.

    Only the operator's log shows the mechanism and the objection; the server gets a fixed text.
    """
    if objection is not None:
        text = "The operator's policy does not allow this mechanism."
        raise Refusal(Refusal.FORBIDDEN, text, f"{mechanism}: {objection}.")


def called(function: Callable[[Context], T], context: Context) -> T:
    """Call a function of the app; replace an error of the client's types by RuntimeError.

    So the app's code cannot choose the text of a refusal.
    """
    try:
        return function(context)
    except (Refusal, LedgerError, MessageError, NetworkError) as error:
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
    """Log the operator's keys that may be misspelt, once per process."""
    for key, setting in sorted(PrivacyPolicy.nearly_settings(keys).items()):
        logging.getLogger(__name__).warning(
            "The key %r in node_config is not a setting of ldp-flower and is left to the app: "
            "do you mean %r?",
            key,
            setting,
        )


def check_own(policy: object, seed: object) -> None:
    """Raise ValueError unless an app's policy and seed are None or have valid types."""
    if not isinstance(policy, PrivacyPolicy | None):
        raise ValueError(f"Expected policy to be a PrivacyPolicy, got {type(policy).__name__}.")
    of_run = isinstance(seed, str) and seed == RUN
    if not (seed is None or of_run or is_integer(seed) or callable(seed)):
        raise ValueError(f'Expected seed to be an integer, a function or "run", got {seed!r}.')


_EXHAUSTED: Final = (
    "No addressed user can afford this query: the cost is above what the privacy budget leaves."
)
_MIN_EPSILON = 1e-6  # smallest epsilon of any randomizer


def operators_ledger(received: Received, policy: PrivacyPolicy) -> SqliteLedger:
    """Return the ledger that the node's operator has created.

    Raise Refusal if the operator has set no ledger. Raise LedgerError if the file is missing or is
    not a ledger, if it cannot be written, or if it is for another privacy unit.
    """
    path = received.config.get("ledger-path")
    if not isinstance(path, str):
        raise Refusal(Refusal.MISCONFIGURED, "The operator has set no ledger (ledger-path).")
    ledger = SqliteLedger(path)
    ledger.check(policy.unit)
    return ledger


@dataclass(frozen=True)
class CheckedQuery:
    """A query after its checks, which use no data.

    ``slots`` are the users that the query addresses. ``digest`` identifies the query together with
    everything that decides the answer. ``summary`` holds the names of the question and of the
    mechanism, for the operator's ledger. ``study`` is the approved study that pays, if the operator
    has a file of studies. ``series`` is the series of permanent answers to which the query belongs,
    if any. ``closes`` is the digest of the commit that the answer to a shared sum uses up.
    """

    slots: Slots
    cost: Cost
    digest: str
    summary: tuple[str, str]
    study: Study | None
    series: PermanentSeries | None = None
    closes: bytes | None = None


@dataclass(frozen=True)
class Node:
    """The users of a node, its effective policy, and its ledger.

    ``accounts`` are the users' names on the ledger. ``run_id`` is Flower's number of the run, for
    the operator's ledger. A node that is ``blind`` answers as if its users had no data.
    """

    terms: EffectivePolicy
    keys: NodeKeys
    ledger: Ledger
    accounts: NDArray[np.generic] = field(repr=False)
    run_id: int
    blind: bool = field(default=False, kw_only=True)

    def census(self) -> dict[str, int]:
        """Return public facts about the node, as integers by name.

        They are the keys of its users, the number of users and of those who can pay nothing, and
        if the node is seeded, rehearses or is simulated.

        Raise Refusal if the operator has approved no study with a census.
        """
        if (studies := self.terms.studies) is not None:
            check_census(studies, self.ledger.now())
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
            **self._tolerated(),
        }

    def _tolerated(self) -> dict[str, int]:
        """Return ``{"dishonest": n}`` if the operator tolerates n colluding nodes, else ``{}``."""
        policy = self.terms.policy
        if policy.max_dishonest is None or policy is _UNLIMITED:
            return {}
        return {"dishonest": policy.max_dishonest}

    def numbered(self) -> Self:
        """Return the node with permanent keys: the numbers that its users have on the ledger.

        In a simulation all keys are permanent, and the node is returned unchanged.
        """
        if not isinstance(self.ledger, SqliteLedger):
            return self
        numbers = self.ledger.numbers(self.accounts)
        return replace(self, keys=NodeKeys(0, 0, self.keys.count, numbers))

    def shown(self, values: Callable[[], Floats], shape: tuple[int, int]) -> Floats:
        """Return the values to randomise, an array of this ``shape``.

        Usually this is the result of ``values``. A blind node does not call ``values`` and returns
        NaN. A rehearsal calls it, so that the log shows problems of the values, and returns NaN.
        """
        found = None if self.blind else values()
        return np.full(shape, np.nan) if found is None or self.terms.rehearsal else found

    def private_randomness(self, step: int, slots: Slots) -> RandomSource:
        """Return the source of the users' secret randomness, such as their noise."""
        if self.terms.seed is None:
            return SystemRandom()
        return KeyedRandom(self.keys.states(Purpose.NOISE, self.terms.seed, step, slots))

    def words(self, purpose: Purpose, step: int, slots: Slots) -> Words:
        """Return a secret random number of 64 bits (a word) for each user.

        The words are independent of the users' noise.
        """
        if self.terms.seed is None:
            return SystemRandom().words((len(slots), 1))[:, 0]
        return self.keys.states(purpose, self.terms.seed, step, slots)

    @property
    def keeps_secrets(self) -> bool:
        """True if the node can keep its users' secrets for a series of permanent answers.

        A ledger file stores the secrets. In a simulation with a seed, they follow from the seed.
        """
        return self.terms.seed is not None or isinstance(self.ledger, SqliteLedger)

    def permanent_keys(self, series: str, slots: Slots, coins: Words) -> list[bytes]:
        """Return the secrets that users keep for a series of permanent answers.

        In a simulation the secrets follow from the seed, since no node could store them. Raise
        LedgerError if users have paid for the series and their secrets are gone or belong to other
        public ``coins``.
        """
        if self.terms.seed is not None:
            own = self.keys.states(Purpose.NOISE, self.terms.seed, 0, slots)
            return [word.tobytes() for word in derive(int(series[:16], 16), own)]
        if self.terms.rehearsal:  # the reports are about no data: no secret is stored
            return [word.tobytes() for word in SystemRandom().words((len(slots), 4))]
        assert isinstance(self.ledger, SqliteLedger)
        return self.ledger.series_keys(
            self.accounts[slots], PermanentSeries(series, coins.tolist())
        )

    def asked(self, query: Query, *about: object, permanent: bool = False) -> CheckedQuery:
        """Return a checked query with its cost and its digest.

        ``about`` holds everything else that decides the reports. With ``permanent`` answers, users
        pay once for the query's whole series. Raise Refusal if the query addresses no user, or if
        the operator has a file of studies and none of them approves the query.
        """
        columns = self.columns_read(query.question)
        study = approved(self.terms.studies, query, columns, named=self.names_columns)
        slots = self.keys.addressed(query.salt, query.low, query.high)
        if not len(slots):
            raise Refusal(Refusal.MALFORMED, "The query addresses no user of this node.")
        accounts = self.accounts[slots]
        # In a simulation the accounts are slots, which follow from the keys and the query.
        names = accounts.tolist() if accounts.dtype.kind == "U" else [self.keys.count]
        digest = query.digest(self.keys.group, self.keys.first, *names, *about)
        cost = Cost.of(query.randomizer, query.salt)
        if study is not None and cost.plan is not None:  # a plan is paid by one study
            cost = replace(cost, plan=f"study {study.id} {cost.plan}")
        series = None
        if permanent:
            cost = replace(cost, plan=plan_of(query.series), steps=query.collections or 1)
            if self.terms.seed is None:
                coins = self.keys.coins(query.salt, query.coin_step, slots)
                series = PermanentSeries(query.series, coins.tolist())
        return CheckedQuery(slots, cost, digest, self.booked(query), study, series)

    def columns_read(self, question: Question) -> Sequence[str] | None:
        """Return the names of all columns that a question reads; None if they are not known."""
        return None

    @property
    def names_columns(self) -> bool:
        """True if a refusal may name columns, since a server knows the names already."""
        return False

    def booked(self, query: Query) -> tuple[str, str]:
        """Return two names for the ledger's entry about a query: of its question and mechanism."""
        return query.summary

    def answered(self, asked: CheckedQuery) -> Report | None:
        """Return the ledger's reply to a query, or None if the query has none yet.

        Raise Refusal if no user has paid or can pay.
        """
        return self._reply_in(self._claim(asked), asked)

    def answer_once(
        self, asked: CheckedQuery, randomised: Callable[[Self, Slots], Report]
    ) -> Report:
        """Answer for the addressed users who can afford it.

        When this returns, the cost and the returned report are on the ledger. Raise Refusal, with
        nothing spent, if no user can afford it. In a rehearsal no user pays, and the ledger stores
        only an answer with masks.

        Parameters
        ----------
        randomised : callable
            Function from this node and slots to the report about these users. It is called after
            the cost is on the ledger, and only if the question has no answer yet. If it fails, it
            is called again for the node without data, since the failure may depend on data.
        """
        entry = Entry(asked.digest, self.run_id, *asked.summary)
        rehearsal, policy = self.terms.rehearsal, self.terms.policy
        # A copy of the message waits for the answer, and must not count as another attempt.
        with self.ledger.answering(asked.digest):
            if rehearsal:
                claim = self._claim(asked)
            else:
                accounts = self.accounts[asked.slots]
                claim = self.ledger.reserve(
                    entry, accounts, asked.cost, policy, asked.series, asked.study
                )
            if (reply := self._reply_in(claim, asked)) is not None:
                return reply
            report = self._computed(asked.slots[claim.users], randomised, claim.attempts)
            if not rehearsal:
                stored = self.ledger.fulfil(asked.digest, report.to_bytes(), asked.closes)
                return _kept(stored)
            if asked.closes is not None:
                # A second answer with the same masks, in the rehearsal or after it, would reveal
                # the number that they hide. The mean of many such answers would lose this node's
                # part of the noise, on which the other nodes rely.
                assert isinstance(self.ledger, SqliteLedger)  # a simulation rehearses nothing
                self.ledger.rehearse(entry, report.to_bytes(), asked.closes)
            return report

    def _claim(self, asked: CheckedQuery) -> Claim:
        """Return the ledger's record of who pays for a query, or a new one of those who can."""
        accounts = self.accounts[asked.slots]
        able = self.ledger.affordable(accounts, asked.cost, self.terms.policy, asked.study)
        # The claim is read second: if another process has answered the same query and so spent the
        # rest of the budget, the claim is there by now.
        return self.ledger.claim(asked.digest, len(accounts)) or Claim(able)

    def _reply_in(self, claim: Claim, asked: CheckedQuery) -> Report | None:
        if claim.reply is not None:
            return _kept(claim.reply)
        if claim.users.any():
            return None
        if (study := asked.study) is None:
            raise Refusal(Refusal.EXHAUSTED, _EXHAUSTED)
        if self.ledger.is_over(study):
            ended = self.ledger.now() >= study.ends
            text = "has ended" if ended else "has used up its steps"
            raise Refusal(ErrorCode.STUDY_OVER, f"The query's study {text}.", f"Study {study.id}.")
        # All users of the node, not those that the query addresses: a server may address one user.
        limits = self.ledger.limits(self.accounts, self.terms.policy, study)
        names = exceeded(limits, asked.cost)
        named = f" It exceeds {', '.join(names)}." if names else ""
        raise Refusal(Refusal.EXHAUSTED, _EXHAUSTED + named, f"Study {study.id}.")

    def _computed(
        self, slots: Slots, randomised: Callable[[Self, Slots], Report], attempts: int
    ) -> Report:
        """Return the report that ``randomised`` computes.

        Return a report without data if the computation fails, or if it has ended the process in
        too many earlier attempts.
        """
        logger = logging.getLogger(__name__)
        if attempts > ATTEMPTS:
            logger.error("An answer was begun %d times: it is given without data.", ATTEMPTS)
        else:
            try:
                return randomised(self, slots)
            except KeyboardInterrupt:  # comes from the operator
                raise
            except BaseException:  # the server must not see any exception
                logger.exception("An answer could not be computed: it is given without data.")
        return randomised(replace(self, blind=True), slots)


def _kept(stored: bytes) -> Report:
    """Return the report in the bytes that a ledger has stored.

    Raise Refusal if there are no bytes, since the ledger has deleted the report. Raise LedgerError
    if the bytes are no report.
    """
    if not stored:
        raise Refusal(Refusal.GONE, "The answer to this query is no longer kept.")
    try:
        return Report.from_bytes(stored)
    except MessageError as error:
        raise LedgerError("The ledger's reply to this query cannot be read.") from error


LoadUsers = Callable[[Context], UserSource]


@dataclass(frozen=True)
class UsersNode(Node):
    """A node with rows of users to answer from; ``own`` holds the app's statistics."""

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
        """Return two names for the ledger's entry: the question with its columns, the mechanism."""
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
