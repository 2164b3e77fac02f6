"""Ledger and stored answers of a node, which every handler of a client needs.

All answers follow one order: the node checks the query, reserves the cost on the ledger, and only
then computes with data. After the reservation, only an answer leaves the node, and no error.
docs/threat-model.md describes what this order protects.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.ledger import (
    ATTEMPTS,
    Claim,
    Entry,
    PermanentSeries,
    SqliteLedger,
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
from ldp_flower.guarantee.state_ledger import Ledger
from ldp_flower.guarantee.studies import Study
from ldp_flower.questions import Question
from ldp_flower.randomness import KeyedRandom, RandomSource, SystemRandom, Words, derive
from ldp_flower.validation import Floats

from .approval import approved, check_census
from .effective_policy import UNLIMITED, EffectivePolicy
from .failures import contained
from .reply import Received, Refusal

logger = logging.getLogger(__name__)

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
    """The users of a node, its effective policy, and its ledger, for one message.

    Every handler makes a node of this kind, and answers by :meth:`answer_once`.
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
        if policy.max_dishonest is None or policy is UNLIMITED:
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
        """Return the source from which the reports of the users in ``slots`` draw their noise.

        It is the operating system's generator. In a simulation with a seed, the noise follows from
        the seed, the step and the user.
        """
        if self.terms.seed is None:
            return SystemRandom()
        return KeyedRandom(self.keys.states(Purpose.NOISE, self.terms.seed, step, slots))

    def words(self, purpose: Purpose, step: int, slots: Slots) -> Words:
        """Return a secret random number of 64 bits (a word) for each user, such as to draw rows.

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
        """Return the secrets that fix the noise of users' permanent answers, one for each user.

        A user keeps its secret for the whole series. In a simulation the secrets follow from the
        seed, since no node could store them. Raise LedgerError if users have paid for the series
        and their secrets are gone or belong to other public ``coins``.
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
        """Return a query that users can pay for: the addressed users, its cost and its digest.

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
        """Return the names of all columns that a question reads, which a study has to approve.

        Return None if they are not known.
        """
        return None

    @property
    def names_columns(self) -> bool:
        """True if a refusal may name columns, since a server knows the names already."""
        return False

    def booked(self, query: Query) -> tuple[str, str]:
        """Return the names of question and mechanism that the ledger shows its operator."""
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
        if attempts > ATTEMPTS:
            logger.error("An answer was begun %d times: it is given without data.", ATTEMPTS)
        else:
            text = "An answer could not be computed: it is given without data."
            with contained(lambda: logger.exception(text)):
                return randomised(self, slots)
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
