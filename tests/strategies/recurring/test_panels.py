"""What a series promises for whole histories, by exact enumeration."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from ldp_flower import Categories, Schema
from ldp_flower.audit import recorded_queries
from ldp_flower.clients.values import values_of
from ldp_flower.guarantee.messages import NodeKeys
from ldp_flower.randomizers.two_level import log
from ldp_flower.strategies import Counts, Series

WEEKS, VALUES = 3, [*"abc"]
SCHEMA = Schema({"sort": Categories(VALUES)})
HISTORIES = list(product(VALUES, repeat=WEEKS))


def collected(epsilon, num_users=3000, seed=3):
    """Return the queries of every week of a series."""
    series = Series(Counts(SCHEMA, "sort", epsilon=epsilon), collections=WEEKS)
    users = SCHEMA.users({"sort": np.array(VALUES)[np.arange(num_users) % 3]})
    return [recorded_queries(series, users, seed) for _ in range(WEEKS)]


def asked(weeks, slot, num_users=3000):
    """Return the weeks and queries in which a user is asked."""
    keys = NodeKeys(0, 0, num_users)
    return [
        (week, query)
        for week, queries in enumerate(weeks)
        for query in queries
        if slot in keys.addressed(query.salt, query.low, query.high)
    ]


def law(history, questions, slot):
    """Return the exact law of all that a user with this history answers to these queries."""
    found = {(): Fraction(1)}
    for week, query in questions:
        users = SCHEMA.users({"sort": [history[week]]})
        value = values_of(users.take, np.zeros(1, np.int64), query)[0]
        coin = NodeKeys(0, 0, slot + 1).coins(query.salt, query.step, np.array([slot]))
        own = query.randomizer.law(value, coin)
        found = {
            (*told, report): chance * other
            for told, chance in found.items()
            for report, other in own.items()
        }
    assert sum(found.values()) == 1
    return found


def worst_ratio(questions, slot):
    """Return the largest ratio of probabilities of any answers over all pairs of histories."""
    laws = [law(history, questions, slot) for history in HISTORIES]
    chances = [[each.get(told, Fraction(0)) for each in laws] for told in set().union(*laws)]
    return max(max(each) / min(each) for each in chances)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_whole_histories_are_protected_at_epsilon_and_no_less_is_spent(epsilon):
    """All 27 histories of three weeks over three values, users of every panel, exactly."""
    weeks = collected(epsilon)
    panels = set()
    for slot in range(12):
        questions = asked(weeks, slot)
        assert len(questions) == 1
        panels.add(questions[0][0])
        ratio = worst_ratio(questions, slot)
        assert log(ratio) <= epsilon and ratio > 0.99 * math.exp(epsilon)
    assert panels == set(range(WEEKS))


def test_two_panels_for_a_user_are_seen_by_the_enumeration():
    weeks = collected(1.0)
    twice = [(week, queries[0]) for week, queries in enumerate(weeks)][:2]
    assert worst_ratio(twice, 0) > 0.99 * math.exp(2)
