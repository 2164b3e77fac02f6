"""What every handler of a client needs: the rules it answers under, and answers paid once."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self, TypeVar

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.keys import NodeKeys, Slots
from ldp_flower.guarantee.ledger import Entry, Ledger, SqliteLedger
from ldp_flower.guarantee.ledger_file import LedgerError
from ldp_flower.guarantee.messages import MessageError, Query, Report
from ldp_flower.randomizers import Randomizer
from ldp_flower.randomness import KeyedRandom, RandomSource, SystemRandom
from ldp_flower.validation import is_integer

from .received import Received

Floats = NDArray[np.float64]
Seed = int | Callable[[Context], int | None] | None
T = TypeVar("T")

_UNLIMITED = PrivacyPolicy(
    float("inf"),
    max_delta=0.5,
    allow_inexact=True,
    unit="record",
    features_public=True,
    min_epsilon=0.0,
    max_width=1 << 40,
)


class Refusal(Exception):
    """A query that is not answered; code and text depend on public facts only.

    ``detail`` is for the operator's log and stays there.
    """

    MALFORMED = 100
    FORBIDDEN = 101
    EXHAUSTED = 102
    MISCONFIGURED = 103
    FAILED = 104

    def __init__(self, code: int, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.detail = detail

    @classmethod
    def malformed(cls, error: MessageError) -> Self:
        """Return the refusal of a message that is not what the format allows."""
        return cls(cls.MALFORMED, str(error))

    @classmethod
    def of_policy(cls, detail: str) -> Self:
        """Return the refusal of everything, since the operator's policy is not valid."""
        return cls(cls.MISCONFIGURED, "The operator's policy is not valid.", detail)


@dataclass(frozen=True)
class Terms:
    """The rules that a client answers under: a simulation's, or its operator's.

    Attributes
    ----------
    simulated : bool
        Whether this is a simulation.
    policy : PrivacyPolicy
        What is allowed.
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
    def of(
        cls, received: Received, context: Context, own: PrivacyPolicy | None, seed: Seed
    ) -> Self:
        """Return the terms on a node, given what the app was constructed with.

        A ``seed`` that is a function gets the ``context``; nothing else is read from it.

        Raises
        ------
        Refusal
            If this is no simulation and the app is seeded, or the operator has set no
            valid policy.
        """
        if received.simulated:
            return cls(True, own or _UNLIMITED, _seed_of(seed, context))
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
        if _seed_of(seed, context) is not None:
            raise Refusal(Refusal.MISCONFIGURED, "The client is seeded outside a simulation.")
        return cls(False, operators.tightened_by(own), None, rehearsal)

    def check(self, randomizer: Randomizer) -> None:
        """Raise Refusal if the policy does not allow one report of this mechanism."""
        if (objection := self.policy.objection(randomizer)) is not None:
            text = "The operator's policy does not allow this mechanism."
            raise Refusal(Refusal.FORBIDDEN, text, f"{type(randomizer).__name__}: {objection}.")


def called(function: Callable[[Context], T], context: Context) -> T:
    """Call a function of the app; what it raises must be no answer of ours, in words of its own."""
    try:
        return function(context)
    except (Refusal, LedgerError) as error:
        raise RuntimeError("The app's own code raised one of the client's errors.") from error


def _seed_of(seed: Seed, context: Context) -> int | None:
    return called(seed, context) if callable(seed) else seed


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
    if not (seed is None or is_integer(seed) or callable(seed)):
        raise ValueError(f"Expected seed to be an integer or a function, got {seed!r}.")


def operators_ledger(received: Received, policy: PrivacyPolicy) -> SqliteLedger:
    """Return the ledger that the node's operator has created.

    Raises
    ------
    Refusal
        If the operator has set none.
    LedgerError
        If it is missing or no ledger, cannot be written, or is about another unit.
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

    Attributes
    ----------
    terms : Terms
        The rules.
    keys : NodeKeys
        The keys of the node's users.
    ledger : Ledger
        What the users have spent.
    accounts : ndarray, shape (users,)
        The names that the ledger knows the users by.
    run_id : int
        Flower's number of the run, for the operator's books.
    """

    terms: Terms
    keys: NodeKeys
    ledger: Ledger
    accounts: NDArray[np.generic] = field(repr=False)
    run_id: int

    def census(self) -> dict[str, int]:
        """Return how many users the node holds, and what their keys are."""
        keys = self.keys
        return {
            "group": keys.group,
            "first": keys.first,
            "users": keys.count,
            "seeded": int(self.terms.seed is not None),
            "rehearsing": int(self.terms.rehearsal),
            "simulated": int(self.terms.simulated),
        }

    def shown(self, values: Floats) -> Floats:
        """Return what is randomised of users' values: in a rehearsal nothing, as of no data."""
        return np.full_like(values, np.nan) if self.terms.rehearsal else values

    def private_randomness(self, step: int, slots: Slots) -> RandomSource:
        """Return the source of everything that must stay secret."""
        if self.terms.seed is None:
            return SystemRandom()
        return KeyedRandom(self.keys.private_states(self.terms.seed, step, slots))

    def answer_once(
        self, query: Query, randomised: Callable[[Slots], Report], *about: object
    ) -> Report:
        """Answer a query for the addressed users who can afford it.

        When this returns, the cost is on the ledger, and so is the returned report.

        Parameters
        ----------
        query : Query
            A query that has been checked.
        randomised : callable
            Function from slots to the report about these users. It is called only if
            the query has not been answered before.
        *about : object
            What else decides the reports, for the query's digest.

        Raises
        ------
        Refusal
            If the query addresses nobody, or no addressed user can afford it.
        """
        cost, policy = Cost.of(query.randomizer, query.salt), self.terms.policy
        slots = self.keys.addressed(query.salt, query.low, query.high)
        if not len(slots):
            raise Refusal(Refusal.MALFORMED, "The query addresses no user of this node.")
        accounts = self.accounts[slots]
        # Slots, which are the accounts of a simulation, follow from the keys and the query.
        names = accounts.tolist() if accounts.dtype.kind == "U" else [self.keys.count]
        digest = query.digest(self.keys.group, self.keys.first, *names, *about)
        while True:
            able = slots[self.ledger.affordable(accounts, cost, policy)]
            # Looked up second: if another process's answer to this very query took the last
            # of the budget, it is there by now.
            if (stored := self.ledger.reply(digest)) is not None:
                if not stored:
                    raise Refusal(Refusal.EXHAUSTED, "The answer to this query is no longer kept.")
                return Report.from_bytes(stored)
            if not len(able):
                raise Refusal(
                    Refusal.EXHAUSTED,
                    "No addressed user can afford this query: the cost is above what the "
                    "privacy budget leaves.",
                )
            report = randomised(able)
            if self.terms.rehearsal:
                return report
            entry = Entry(digest, report.to_bytes(), self.run_id, *query.summary)
            if self.ledger.commit(entry, self.accounts[able], cost, policy):
                return report
            # Another process answered, or spent a user's budget, since we looked.
