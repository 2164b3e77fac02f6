"""From a query to a report: check, compute, randomise, commit. The reply comes after."""

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower.generated import GeneratedUsers
from ldp_flower.messages import MessageError, Query, Report
from ldp_flower.randomizers import Summary
from ldp_flower.users import Users

from .node import Node, Refusal
from .statistics import STATISTICS, Statistic

# Users are taken in runs of this many. Their number is public; their rows are not,
# and must not decide in which order reports are added up.
_CHUNK = 1024


@dataclass(frozen=True)
class UsersNode(Node):
    """A node with rows of users to answer from.

    Attributes
    ----------
    users : Users or GeneratedUsers
        The users of the node.
    """

    users: Users | GeneratedUsers


def respond(node: UsersNode, query: Query) -> Report:
    """Answer a query for the addressed users who can afford it.

    When this returns, the cost is on the ledger, and so is the returned report.

    Raises
    ------
    Refusal
        If the query is malformed or forbidden, or no addressed user can afford it.
    """
    statistic = _checked(node, query)
    return node.answer_once(query, lambda slots: _randomised(node, query, statistic, slots))


def _checked(node: UsersNode, query: Query) -> Statistic:
    if query.statistic not in STATISTICS:
        raise Refusal(Refusal.MALFORMED, f"Unknown statistic {query.statistic!r}.")
    statistic = STATISTICS[query.statistic]
    try:
        statistic.check(node.users.num_features, query.arrays, query.params, query.randomizer.width)
    except MessageError as error:
        raise Refusal.malformed(error) from error
    node.terms.check(query.randomizer)
    return statistic


def _randomised(
    node: UsersNode, query: Query, statistic: Statistic, slots: NDArray[np.int64]
) -> Report:
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
    node: UsersNode, query: Query, statistic: Statistic, slots: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the users' values; whatever goes wrong with data stays on this side.

    A value that cannot be computed becomes NaN, which the randomizer takes for the
    centre of its domain: the reply looks like any other, and the log tells the operator.
    """
    logger = logging.getLogger(__name__)
    try:
        users = node.users.take(slots, node.terms.policy.max_rows)
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
