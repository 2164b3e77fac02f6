"""The path from a query to a report: check, compute, randomise, commit, and then reply.

In a silo, each record is treated as a user with this one row. So no statistic can mix records
before the mechanism has brought each record's value into its domain. A record with a non-finite
number counts as a record at the centre.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ldp_flower.data.users import Users
from ldp_flower.guarantee.messages import Purpose, Query, Report, Slots
from ldp_flower.guarantee.peers import Peers
from ldp_flower.guarantee.shared_sums import Members
from ldp_flower.questions import Rows
from ldp_flower.randomizers import NodeSum, RecordMechanism, Summary
from ldp_flower.randomness import SecretRandom, Words
from ldp_flower.validation import Floats

from .failures import contained
from .node import Node
from .node_sums import of_node
from .reply import Refusal
from .shared_sums import answer_with_masks
from .statistics import knows
from .users_node import UsersNode
from .values import CHUNK, ENTRIES, public_of, values_of

logger = logging.getLogger(__name__)


def of_silos(node: UsersNode, query: Query, slots: Slots) -> Report:
    """Return one report per silo, about the sum over its records."""
    mechanism = query.randomizer
    assert isinstance(mechanism, RecordMechanism)
    totals = np.zeros((len(slots), mechanism.width))
    counts = np.zeros(len(slots))
    centre = query.question.record_centre
    for i in range(len(slots)):
        records = _records(node, slots[i : i + 1])
        # In simulation, a silo need not declare its number of records.
        counts[i] = max(node.terms.policy.num_records or len(records), 1)
        for start in range(0, len(records), CHUNK):
            chunk = np.arange(start, min(start + CHUNK, len(records)))
            shape = (len(chunk), mechanism.width)
            values = node.shown(partial(values_of, records.take, chunk, query, node.own), shape)
            totals[i] += mechanism.total(values)
    randomness = node.private_randomness(query.step, slots)
    reports = mechanism.report(totals, counts, randomness, centre)
    return Report.of_reports(slots, reports, numbers=node.keys.numbers)


def _records(node: UsersNode, slot: Slots) -> Users:
    """Return the records of the one silo in ``slot``, each as a user with one row.

    Return at most as many records as the operator has declared. If the records cannot be read, log
    the error and return no users.
    """
    with contained(lambda: logger.exception("A silo has no records that can be read.")):
        silo = node.take(slot)
        rows = silo.take(np.zeros(1, np.int64), node.terms.policy.num_records)
        return replace(rows, offsets=np.arange(len(rows.features) + 1), ids=None)
    return Users(np.zeros((0, node.users.num_features)), np.zeros(0), np.zeros(1, np.int64))


# A loader may have made NumPy raise errors. Still, one user's overflow must not be an error for all
# users.
@np.errstate(all="ignore")
def respond(node: UsersNode, query: Query, members: Members | None, peers: Peers | None) -> Report:
    """Answer a query for the addressed users who can afford it.

    When this returns, the cost and the returned report are on the ledger. Raise Refusal if the
    query is malformed or forbidden, or if no addressed user can afford it. For a sum
    whose noise is shared, ``members`` are the nodes of the set, and ``peers`` the accepted keys.
    """
    check(node, query)
    if query.numbered:
        node = node.numbered()
    by_record = isinstance(query.randomizer, RecordMechanism)
    by_node = isinstance(query.randomizer, NodeSum)
    if members is not None and peers is not None:
        return answer_with_masks(node, query, members, peers)
    permanent = query.collections is not None
    if permanent:
        _check_permanent(node, query)
    reports = (
        _permanent if permanent else of_silos if by_record else of_node if by_node else _of_users
    )
    return node.answer_once(
        node.asked(query, permanent=permanent), lambda own, slots: reports(own, query, slots)
    )


def check(node: UsersNode, query: Query) -> None:
    """Raise Refusal, or MessageError, unless the node may answer a query."""
    question = query.question
    if not knows(question) and type(question) not in node.own:
        raise Refusal(Refusal.MALFORMED, f"Unknown statistic {question.name!r}.")
    question.check(node.users.num_features, query.randomizer.width)
    if question.needs_targets(node.users.num_features) and not node.users.has_targets:
        raise Refusal(Refusal.MALFORMED, "The node's users have no targets; see Users.from_rows.")
    sums = isinstance(query.randomizer, RecordMechanism | NodeSum)
    if sums and (question.features_public or query.collections is not None):
        raise Refusal(Refusal.MALFORMED, "Sums have no public features and no permanent answers.")
    node.terms.require_allowed(query.randomizer)
    if question.features_public and not node.terms.policy.features_public:
        raise Refusal(Refusal.FORBIDDEN, "The operator has not declared the features public.")


def _check_permanent(node: UsersNode, query: Query) -> None:
    """Raise Refusal unless the node may give permanent answers to a query.

    They are single bits, and reveal the times at which a user's value changes.
    """
    if not query.randomizer.permanent or query.question.features_public:
        text = "Permanent answers are single bits, without public features."
        raise Refusal(Refusal.MALFORMED, text)
    if not node.terms.policy.allow_public_changes:
        text = "The operator has not allowed that the times of users' changes are public."
        raise Refusal(Refusal.FORBIDDEN, text)
    if not node.keeps_secrets:
        text = "A simulation without a seed cannot keep the secrets of a series."
        raise Refusal(Refusal.MISCONFIGURED, text)


def _permanent(node: UsersNode, query: Query, slots: Slots) -> Report:
    """Return a report of one randomised bit for each user in ``slots``.

    A user's secret fixes the noise, so that it is the same at all collections.
    """
    coins = node.keys.coins(query.salt, query.coin_step, slots)
    keys = node.permanent_keys(query.series, slots, coins)
    words = SecretRandom(keys, b"rows").words((len(slots), 1))[:, 0]

    def values() -> Floats:
        runs = [slice(start, start + CHUNK) for start in range(0, len(slots), CHUNK)]
        return np.concatenate(
            [values_of(node.take, slots[run], query, node.own, words[run]) for run in runs]
        )

    shown = node.shown(values, (len(slots), query.randomizer.width))
    bits = query.randomizer.randomize(shown, SecretRandom(keys, b"noise"), coins)
    return Report.of_reports(slots, bits, numbers=node.keys.numbers)


def _of_users(node: UsersNode, query: Query, slots: Slots) -> Report:
    """Return the users' report, with their public data if the question asks for these."""
    asked = query.question
    drawing = asked.draws or asked.rows in (Rows.DRAWN, Rows.SHUFFLED)

    def words(some: Slots) -> Words | None:
        return node.words(Purpose.ROWS, query.step, some) if drawing else None

    def public(some: Slots) -> NDArray[np.float32]:
        block = public_of(node.take, some, query, node.users.num_features, words(some))
        return np.zeros_like(block) if node.terms.rehearsal else block

    def values(some: Slots) -> Floats:
        return values_of(node.take, some, query, node.own, words(some))

    with_public = query.question.features_public
    randomizer = query.randomizer
    largest = max(randomizer.width, randomizer.size if randomizer.summable else 1)
    at_once = max(1, min(CHUNK, ENTRIES // largest))
    return randomised(node, query, slots, values, at_once, public if with_public else None)


def randomised(
    node: Node,
    query: Query,
    slots: Slots,
    values: Callable[[Slots], Floats],
    at_once: int,
    public: Callable[[Slots], NDArray[np.float32]] | None = None,
) -> Report:
    """Return the users' single reports, or sums of the reports if these are shorter.

    All handlers use this function if users randomise their own values. Adding reports up is
    post-processing, which costs no privacy.
    ``values`` is a function from at most ``at_once`` slots to the users' values, shape
    (users, width). ``public`` is a function from these slots to the users' public data.
    """
    randomizer = query.randomizer
    # Each row of a public block belongs to one user's report, so these reports are not summed.
    summarised = (
        public is None
        and randomizer.summable
        and (len(slots) * (randomizer.report_bytes + 4) > 16 * randomizer.size + 8)
    )
    coins = node.keys.coins(query.salt, query.step, slots)
    if len(slots) > CHUNK:  # puts users with the same public randomness into the same chunk
        order = randomizer.public_order(coins)  # public, like the slots
        slots, coins = slots[order], coins[order]
    parts, blocks = [], []
    summary = Summary.empty(randomizer.size if summarised else 0)
    for start in range(0, len(slots), at_once):
        chunk = slots[start : start + at_once]
        coin = coins[start : start + at_once]
        shown = node.shown(partial(values, chunk), (len(chunk), randomizer.width))
        # The app's code may have made NumPy raise errors for tiny or huge numbers.
        with np.errstate(all="ignore"):
            randomness = node.private_randomness(query.step, chunk)
            reports = randomizer.randomize(shown, randomness, coin)
            if summarised:
                summary += randomizer.summarize(reports, coin)
            else:
                parts.append(reports)
        if public is not None:
            blocks.append(public(chunk))
    if summarised:
        return Report.of_summary(summary)
    block = np.concatenate(blocks) if blocks else None
    return Report.of_reports(slots, np.concatenate(parts), block, node.keys.numbers)
