"""What every handler of a client needs: who pays, and answers that are paid once."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.keys import NodeKeys, Slots
from ldp_flower.guarantee.ledger import RESERVED, Entry, Ledger, SqliteLedger
from ldp_flower.guarantee.ledger_file import plan_of
from ldp_flower.guarantee.messages import Query, Report
from ldp_flower.randomness import KeyedRandom, RandomSource, SystemRandom, Words, derive
from ldp_flower.validation import Floats

from .effective_policy import EffectivePolicy
from .reply import Received, Refusal

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
class Node:
    """Who answers on a node, under which terms, and who pays.

    ``accounts`` are the names that the ledger knows the users by; ``run_id`` is Flower's number of
    the run, for the operator's books.
    """

    terms: EffectivePolicy
    keys: NodeKeys
    ledger: Ledger
    accounts: NDArray[np.generic] = field(repr=False)
    run_id: int

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

    def shown(self, values: Floats) -> Floats:
        """Return what is randomised of users' values: in a rehearsal nothing, as of no data."""
        return np.full_like(values, np.nan) if self.terms.rehearsal else values

    def private_randomness(self, step: int, slots: Slots) -> RandomSource:
        """Return the source of everything that must stay secret."""
        if self.terms.seed is None:
            return SystemRandom()
        return KeyedRandom(self.keys.private_states(self.terms.seed, step, slots))

    def training_seeds(self, step: int, slots: Slots) -> Words:
        """Return seeds of 32 bits for users' training, which have no part in their noise."""
        if self.terms.seed is None:
            words = SystemRandom().words((len(slots), 1))[:, 0]
        else:
            words = self.keys.training_states(self.terms.seed, step, slots)
        return words >> np.uint64(32)

    def permanent_keys(self, series: str, slots: Slots, coins: Words) -> list[bytes]:
        """Return the secrets that users keep for a series of permanent answers.

        In a simulation they follow from its seed, as there is no node that could keep them; Refusal
        if it has none. LedgerError if users have paid for the series and their secrets are gone, or
        are of other coins.
        """
        if self.terms.seed is not None:
            words = derive(
                int(series[:16], 16), self.keys.private_states(self.terms.seed, 0, slots)
            )
            return [word.tobytes() for word in words]
        if self.terms.rehearsal:  # about no data: nothing is kept
            return [word.tobytes() for word in SystemRandom().words((len(slots), 4))]
        if not isinstance(self.ledger, SqliteLedger):
            text = "A simulation without a seed cannot keep the secrets of a series."
            raise Refusal(Refusal.MISCONFIGURED, text)
        return self.ledger.series_keys(self.accounts[slots], series, coins.tolist())

    def row_words(self, step: int, slots: Slots) -> Words:
        """Return the words by which users draw rows, which have no part in their noise."""
        if self.terms.seed is None:
            return SystemRandom().words((len(slots), 1))[:, 0]
        return self.keys.row_states(self.terms.seed, step, slots)

    def answer_once(
        self,
        query: Query,
        randomised: Callable[[Slots], Report],
        *about: object,
        in_advance: bool = False,
        permanent: bool = False,
    ) -> Report:
        """Answer a query, which has been checked, for the addressed users who can afford it.

        When this returns, the cost is on the ledger, and so is the returned report. Refusal if the
        query addresses nobody, or no addressed user can afford it.

        Parameters
        ----------
        randomised : callable
            Function from slots to the report about these users. It is called only if
            the query has not been answered before.
        *about : object
            What else decides the reports, for the query's digest.
        in_advance : bool (default: False)
            Whether the cost is on the ledger before ``randomised`` is called; the node is one
            user then.
        permanent : bool (default: False)
            Whether ``randomised`` gives permanent answers: then users pay for the query's
            series as a whole, once.
        """
        slots = self.keys.addressed(query.salt, query.low, query.high)
        if not len(slots):
            raise Refusal(Refusal.MALFORMED, "The query addresses no user of this node.")
        accounts = self.accounts[slots]
        # Slots, which are the accounts of a simulation, follow from the keys and the query.
        names = accounts.tolist() if accounts.dtype.kind == "U" else [self.keys.count]
        digest = query.digest(self.keys.group, self.keys.first, *names, *about)
        cost = Cost.of(query.randomizer, query.salt)
        if permanent:
            cost = replace(cost, plan=plan_of(query.series), steps=query.collections or 1)
        # In a rehearsal nobody pays.
        paid = self._charged_first if in_advance and not self.terms.rehearsal else self.paid_once
        return paid(slots, cost, digest, self.booked(query), randomised)

    def booked(self, query: Query) -> tuple[str, str]:
        """Return what the operator's books call a query: what is asked, how it is randomised."""
        return query.summary

    def paid_once(
        self,
        slots: Slots,
        cost: Cost,
        digest: str,
        summary: tuple[str, str],
        randomised: Callable[[Slots], Report],
    ) -> Report:
        """Answer for the users in ``slots`` who can afford it what has the digest.

        ``summary`` is what is asked and how it is randomised, for the operator's books;
        ``randomised`` as that of :meth:`answer_once`. Refusal if no user in ``slots`` can afford
        it.
        """
        policy = self.terms.policy
        accounts = self.accounts[slots]
        while True:
            able = slots[self.ledger.affordable(accounts, cost, policy)]
            # Looked up second: if another process's answer to this very query took the last
            # of the budget, it is there by now.
            if (stored := self.ledger.reply(digest)) is not None:
                return _kept(stored)
            if not len(able):
                raise Refusal(Refusal.EXHAUSTED, _EXHAUSTED)
            report = randomised(able)
            if self.terms.rehearsal:
                return report
            entry = Entry(digest, report.to_bytes(), self.run_id, *summary)
            if self.ledger.commit(entry, self.accounts[able], cost, policy):
                return report
            # Another process answered, or spent a user's budget, since we looked.

    def _charged_first(
        self,
        slots: Slots,
        cost: Cost,
        digest: str,
        summary: tuple[str, str],
        randomised: Callable[[Slots], Report],
    ) -> Report:
        """Answer like :meth:`paid_once`, but charge the one user in ``slots`` first.

        ``randomised`` may run an app's code. Neither its duration nor its failure then decides
        which other queries are refused. If it fails, the charge stays, and the same query runs it
        again.
        """
        entry = Entry(digest, RESERVED, self.run_id, *summary)
        self.ledger.commit(entry, self.accounts[slots], cost, self.terms.policy)
        stored = self.ledger.reply(digest)
        if stored is None:
            raise Refusal(Refusal.EXHAUSTED, _EXHAUSTED)
        if stored == RESERVED:
            stored = self.ledger.fulfil(digest, randomised(slots).to_bytes())
        return _kept(stored)


def _kept(stored: bytes) -> Report:
    """Return the report that a ledger has stored."""
    if stored in (b"", RESERVED):
        raise Refusal(Refusal.EXHAUSTED, "The answer to this query is no longer kept.")
    return Report.from_bytes(stored)
