"""From a query to a report: check, compute, randomise, commit. The reply comes after."""

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.budget import Cost, PrivacyPolicy
from ldp_flower.generated import GeneratedUsers
from ldp_flower.keys import NodeKeys
from ldp_flower.ledger import Ledger
from ldp_flower.messages import MessageError, Query, Report
from ldp_flower.randomizers import Summary
from ldp_flower.randomness import KeyedRandom, RandomSource, SystemRandom
from ldp_flower.users import Users

from .statistics import STATISTICS, Statistic

# Users are taken in runs of this many. Their number is public; their rows are not,
# and must not decide in which order reports are added up.
_CHUNK = 1024


class Refusal(Exception):
    """A query that is not answered; code and text depend on public facts only."""

    MALFORMED = 100
    FORBIDDEN = 101
    EXHAUSTED = 102
    MISCONFIGURED = 103
    FAILED = 104

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Node:
    """What a node answers from.

    Attributes
    ----------
    users : Users or GeneratedUsers
        The users of the node.
    keys : NodeKeys
        Their keys.
    policy : PrivacyPolicy
        What the operator allows.
    ledger : Ledger
        What the users have spent.
    accounts : ndarray, shape (users,)
        The names that the ledger knows the users by.
    seed : int or None
        Seed of private randomness, in simulation only; None: the system's.
    """

    users: Users | GeneratedUsers
    keys: NodeKeys
    policy: PrivacyPolicy
    ledger: Ledger
    accounts: NDArray[np.generic]
    seed: int | None

    def private_randomness(self, step: int, slots: NDArray[np.int64]) -> RandomSource:
        """Return the source of everything that must stay secret."""
        if self.seed is None:
            return SystemRandom()
        return KeyedRandom(self.keys.private_states(self.seed, step, slots))


def respond(node: Node, query: Query) -> Report:
    """Answer a query for the addressed users who can afford it.

    When this returns, the cost is on the ledger, and so is the returned report.

    Raises
    ------
    Refusal
        If the query is malformed or forbidden, or no addressed user can afford it.
    """
    statistic = _checked(node, query)
    cost = Cost.of(query.randomizer)
    slots = node.keys.addressed(query.salt, query.low, query.high)
    if not len(slots):
        raise Refusal(Refusal.MALFORMED, "The query addresses no user of this node.")
    digest = query.digest(node.keys.group, node.keys.first, *node.accounts[slots])
    while True:
        able = slots[node.ledger.affordable(node.accounts[slots], cost, node.policy)]
        # Looked up second: if another process's answer to this very query took the last
        # of the budget, it is there by now.
        if (stored := node.ledger.reply(digest)) is not None:
            return Report.from_bytes(stored)
        if not len(able):
            raise Refusal(Refusal.EXHAUSTED, "The privacy budget of the addressed users is spent.")
        report = _randomised(node, query, statistic, able)
        if node.ledger.commit(digest, report.to_bytes(), node.accounts[able], cost, node.policy):
            return report
        # Another process answered, or spent a user's budget, since we looked.


def _checked(node: Node, query: Query) -> Statistic:
    if query.statistic not in STATISTICS:
        raise Refusal(Refusal.MALFORMED, f"Unknown statistic {query.statistic!r}.")
    statistic = STATISTICS[query.statistic]
    try:
        statistic.check(node.users.num_features, query.arrays, query.params, query.randomizer.width)
    except MessageError as error:
        raise Refusal(Refusal.MALFORMED, str(error)) from error
    if not node.policy.allows(query.randomizer):
        raise Refusal(Refusal.FORBIDDEN, "The operator's policy does not allow this mechanism.")
    return statistic


def _randomised(node: Node, query: Query, statistic: Statistic, slots: NDArray[np.int64]) -> Report:
    """Return single reports, or their sums where those are shorter: post-processing."""
    randomizer = query.randomizer
    summarised = randomizer.summable and (
        len(slots) * (randomizer.report_bytes + 4) > 16 * randomizer.size + 8
    )
    parts = []
    summary = Summary.empty(randomizer.size if summarised else 0)
    for start in range(0, len(slots), _CHUNK):
        chunk = slots[start : start + _CHUNK]
        coins = node.keys.coins(query.salt, query.step, chunk)
        values = _values(node, query, statistic, chunk)
        randomness = node.private_randomness(query.step, chunk)
        reports = randomizer.randomize(values, randomness, coins)
        if summarised:
            summary += randomizer.summarize(reports, coins)
        else:
            parts.append(reports)
    if summarised:
        return Report.of_summary(summary)
    return Report.of_reports(slots, np.concatenate(parts))


def _values(
    node: Node, query: Query, statistic: Statistic, slots: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the users' values; whatever goes wrong with data stays on this side.

    A value that cannot be computed becomes NaN, which the randomizer takes for the
    centre of its domain: the reply looks like any other, and the log tells the operator.
    """
    logger = logging.getLogger(__name__)
    try:
        users = node.users.take(slots, node.policy.max_rows)
        with np.errstate(all="ignore"):
            values = statistic.compute(users, query.arrays, query.params)
    except Exception:
        if len(slots) > 1:  # one user's data must not cost the others their answer
            each = [_values(node, query, statistic, slots[i : i + 1]) for i in range(len(slots))]
            return np.concatenate(each)
        logger.exception("Statistic %s failed for a user, who reports a centre.", query.statistic)
        return np.full((1, query.randomizer.width), np.nan)
    if bad := int((~np.isfinite(values).all(axis=1)).sum()):
        logger.warning("%d users have data that are not finite and report a centre.", bad)
    return values
