"""Permanent answers of a whole client: exact laws of histories, one payment, one secret."""

import math
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from deployed_node import NODE_ID, ask

from ldp_flower import Categories, InProcessGrid, Numeric, Schema
from ldp_flower.clients import LdpClientApp, Refusal, respond
from ldp_flower.clients.values import values_of
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Query, Report
from ldp_flower.randomizers import HadamardBit, KRandomizedResponse, RandomizedResponse
from ldp_flower.randomizers.two_level import log
from ldp_flower.randomness import derive
from ldp_flower.strategies import Counts, Means, Series
from ldp_flower.supernode.bookkeeping import charges, renew_budgets

WEEKS, VALUES = 3, [*"abc"]
SORTS = Schema({"sort": Categories(VALUES)})
NUMBERS = Schema({"x": Numeric(0, 1)})
HISTORIES = list(product(VALUES, repeat=WEEKS))
LAST = 2**64 - 1


class Recording(InProcessGrid):
    """A grid of one node that keeps all queries."""

    def __init__(self, users):
        super().__init__(LdpClientApp(lambda context: users, seed=1), 1)
        self.queries = []

    def _handle(self, message):
        if message.metadata.message_type == "query.report":
            self.queries.append(Query.from_record_dict(message.content))
        return super()._handle(message)


def recorded(strategy, users, weeks):
    """Return the queries of every week of a memoised series."""
    series = Series(strategy, collections=weeks, memoised=True)
    grids = [Recording(users) for _ in range(weeks)]
    for grid in grids:
        series.start(grid, num_nodes=1, timeout=0.0, seed=3)
    return [grid.queries for grid in grids]


def sorts_asked(epsilon, weeks=WEEKS):
    users = SORTS.users({"sort": np.array(VALUES)[np.arange(3000) % 3]})
    return [
        queries[0] for queries in recorded(Counts(SORTS, "sort", epsilon=epsilon), users, weeks)
    ]


class Chosen:
    """Words of which the second decides whether a bit is flipped, in the place of a secret's."""

    level, row = 0, 0

    def __init__(self, keys, purpose):
        self._purpose, self._rest = purpose, [0, Chosen.level, 0]

    def blocks(self, users, size):
        yield slice(0, users), self

    def words(self, shape):
        if self._purpose == b"rows":
            return np.full(shape, Chosen.row, np.uint64)
        own, self._rest = self._rest[: math.prod(shape[1:])], self._rest[math.prod(shape[1:]) :]
        return np.tile(np.array(own, np.uint64), (shape[0], 1))


def laws(monkeypatch, weeks, tables, schema, coin, rows):
    """Return the exact law of all that each user answers in all weeks, by enumerating secrets.

    ``rows`` are words by which users draw rows, with their probabilities.
    """
    monkeypatch.setattr(respond, "SecretRandom", Chosen)
    monkeypatch.setattr(NodeKeys, "coins", lambda *args: np.repeat(derive(coin), len(args[-1])))
    flip = Fraction(weeks[0].randomizer._choice.threshold, 1 << 64)
    found = [defaultdict(Fraction) for _ in HISTORIES]
    for (level, chance), (row, share) in product([(0, flip), (LAST, 1 - flip)], rows.items()):
        Chosen.level, Chosen.row = level, row
        answers = []
        for query, table in zip(weeks, tables, strict=True):
            users = schema.users(table)
            reply = ask(LdpClientApp(lambda context, users=users: users, seed=1), query, {})
            assert not reply.has_error()
            arrays = Report.from_record_dict(reply.content).arrays
            assert arrays["slots"].tolist() == list(range(len(HISTORIES)))
            answers.append(arrays["reports"].tolist())
        for law, told in zip(found, zip(*answers, strict=True), strict=True):
            law[told] += chance * share
    assert all(sum(law.values()) == 1 for law in found)
    return found


@pytest.fixture
def simulated(monkeypatch):
    """Let nodes answer as in a simulation: what is secret is chosen by the test."""
    monkeypatch.setattr("ldp_flower.clients.reply.in_simulation", lambda: True)


def changes(told):
    return tuple(one != other for one, other in pairwise(told))


def worst_ratio(found, given_changes):
    """Return the largest ratio of probabilities over all pairs of histories; of 0, infinity.

    Of the answers given when they change, or of the answers as such.
    """
    worst = Fraction(1)
    for told in set().union(*found):
        chances = []
        for law in found:
            possible = sum(p for other, p in law.items() if changes(other) == changes(told))
            if given_changes and possible:
                chances.append(law.get(told, Fraction(0)) / possible)
            elif not given_changes:
                chances.append(law.get(told, Fraction(0)))
        if min(chances) == 0:
            return math.inf
        worst = max(worst, max(chances) / min(chances))
    return worst


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_given_the_times_of_changes_whole_histories_are_protected_at_epsilon(
    epsilon, simulated, monkeypatch
):
    """All 27 histories of three weeks over three values, for users of several coins, exactly."""
    weeks = [replace(query, low=0, high=HASH_END) for query in sorts_asked(epsilon)]
    tables = [{"sort": [history[week] for history in HISTORIES]} for week in range(WEEKS)]
    given, alone = [], []
    for coin in range(12):
        found = laws(monkeypatch, weeks, tables, SORTS, coin, {0: Fraction(1)})
        given.append(worst_ratio(found, given_changes=True))
        alone.append(worst_ratio(found, given_changes=False))
    assert log(max(given)) <= epsilon and max(given) > 0.99 * math.exp(epsilon)
    # Without that, a history that stays and one that changes are told apart for certain.
    assert max(alone) == math.inf


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_numbers_are_protected_at_epsilon_given_the_times_of_changes(
    epsilon, simulated, monkeypatch
):
    """Numbers at both ends of their bounds and in the middle, with the threshold that is kept."""
    users = NUMBERS.users({"x": np.linspace(0, 1, 3000)})
    asked = recorded(Means(NUMBERS, "x", epsilon=epsilon), users, WEEKS)
    weeks = [replace(queries[0], low=0, high=HASH_END) for queries in asked]
    values = {"a": 0.0, "b": 0.5, "c": 1.0}
    tables = [{"x": [values[history[week]] for history in HISTORIES]} for week in range(WEEKS)]
    middle = NUMBERS.users({"x": [0.5]})
    bits = {
        int(values_of(middle.take, np.zeros(1, np.int64), weeks[0], words=words)[0, 0]): words
        for words in (derive(word) for word in range(50))
    }
    rows = {int(words[0]): Fraction(1, 2) for words in bits.values()}  # above or below one half
    assert len(rows) == 2
    found = laws(monkeypatch, weeks, tables, NUMBERS, 1, rows)
    given = worst_ratio(found, given_changes=True)
    assert log(given) <= epsilon and given > 0.99 * math.exp(epsilon)
    assert worst_ratio(found, given_changes=False) == math.inf


def test_an_answer_drawn_for_each_value_alone_loses_epsilon_for_each_of_them():
    """As memoisation is usually described: three values lose three epsilon, a bit two."""
    for values in (2, 3):
        oracle = KRandomizedResponse(1.0, values)
        own, other = oracle.own, oracle.other
        found = [
            {
                told: math.prod(own if a == b else other for a, b in zip(told, order, strict=True))
                for told in product(range(values), repeat=values)
            }
            for order in (tuple(range(values)), (*range(1, values), 0))
        ]
        ratio = max(found[0][told] / found[1][told] for told in found[0])
        assert ratio > 0.99 * math.exp(values)


@pytest.mark.parametrize("oracle", [HadamardBit(1.0, 5), KRandomizedResponse(1.0, 2)])
def test_the_same_words_flip_every_value_or_none(oracle):
    values = np.arange(-1.0, oracle.domain_size)[:, None]
    coins = np.repeat(derive(3), len(values))

    class Same(Chosen):
        def __init__(self, level):
            self._purpose, self._rest = b"", [1, level, 0]

    kept, flipped = (oracle.randomize(values, Same(level), coins) for level in (0, LAST))
    assert oracle.permanent and (kept ^ flipped == 1).all()
    assert not KRandomizedResponse(1.0, 3).permanent and not RandomizedResponse(1.0).permanent


# -------------------------------------------------------------- of a node with a ledger

USERS = 40


class Node:
    """A deployed node whose users' sorts and places a test changes from week to week."""

    def __init__(self, folder, **policy):
        self.path = folder / "ledger.db"
        self.ledger = SqliteLedger.create(self.path)
        self.config = {"max-epsilon": 1.0, "ledger-path": str(self.path), **policy}
        self.sorts = np.array(VALUES)[np.arange(USERS) % 3]
        self.names = [f"{user:02d}" for user in range(USERS)]
        numbers = self.ledger.numbers(np.array(self.names))
        self.number_of = dict(zip(self.names, numbers.tolist(), strict=True))

    @property
    def app(self):
        """A client that was just started."""
        sorts = [self.sorts[int(name)] for name in self.names]
        users = SORTS.users({"sort": sorts}, groups=self.names, ids=self.names)
        return LdpClientApp(lambda context: users)

    def answer(self, query):
        """Return users' bits by their numbers, or the code of the error."""
        reply = ask(self.app, query, self.config)
        if reply.has_error():
            return reply.error.code
        arrays = Report.from_record_dict(reply.content).arrays
        return dict(zip(arrays["numbers"].tolist(), arrays["reports"].tolist(), strict=True))

    def execute(self, statement):
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement).fetchall()

    @property
    def spent(self):
        return [cost.epsilon for cost in self.ledger.spent().values()]


@pytest.fixture(scope="module")
def weeks():
    return [replace(query, numbered=True) for query in sorts_asked(1.0, 10)]


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path, **{"allow-public-changes": True})


def test_a_series_is_paid_once_and_a_bit_changes_with_its_value_only(node, weeks):
    numbers = np.array(list(node.number_of.values()), np.uint64)
    column = weeks[0].randomizer.columns(derive(weeks[0].salt, 2, 0, 0, numbers))
    rng = np.random.default_rng(0)
    found, held = [], []
    for query in weeks:
        node.sorts = np.where(rng.random(USERS) < 0.3, rng.choice(VALUES, USERS), node.sorts)
        found.append(node.answer(query))
        held.append([VALUES.index(each) for each in node.sorts])
        assert found[-1] == node.answer(query)  # the same bytes again
    assert node.spent == [1.0] * USERS and len(list(charges(node.ledger))) == USERS
    bits = np.array([[week[number] for number in numbers.tolist()] for week in found])
    signs = np.bitwise_count(np.array(held, np.uint64) & column) & 1
    flips = bits ^ signs
    assert (flips == flips[0]).all() and (bits != bits[0]).any()
    assert 0 < flips[0].sum() < USERS  # .27 of them: never none or all, but once in 300,000
    # Nothing but the secrets is kept beside what every ledger keeps, one for each user, with the
    # public coin (8 bytes) that it is for.
    secrets = node.execute("SELECT DISTINCT content FROM secret")
    assert len(secrets) == USERS and {len(secret) for (secret,) in secrets} == {40}
    # More collections than were paid are not answered, nor is anything else.
    assert node.answer(replace(weeks[0], step=9)) == Refusal.EXHAUSTED
    assert node.answer(replace(weeks[0], collections=None, step=8)) == Refusal.EXHAUSTED


def test_another_series_has_other_secrets_and_is_paid_anew(tmp_path, weeks):
    node = Node(tmp_path, **{"allow-public-changes": True, "max-epsilon": 3.0})
    found = [
        node.answer(query)
        for query in (
            weeks[0],
            replace(weeks[0], salt=weeks[0].salt + 1),
            replace(weeks[0], collections=11),
        )
    ]
    assert node.spent == [3.0] * USERS
    assert found[0] != found[1] and found[0] != found[2]
    assert len(node.execute("SELECT DISTINCT content FROM secret")) == 3 * USERS
    assert node.answer(replace(weeks[0], salt=weeks[0].salt + 2)) == Refusal.EXHAUSTED


def test_a_node_that_has_lost_a_secret_refuses(node, weeks):
    before = node.answer(weeks[0])
    node.execute("DELETE FROM secret WHERE user = '07'")
    assert node.answer(weeks[1]) == Refusal.MISCONFIGURED
    assert not node.execute("SELECT 1 FROM secret WHERE user = '07'")
    assert node.answer(weeks[0]) == before  # what was answered stays


def test_users_who_move_answer_as_before(node, weeks, monkeypatch):
    """Others join, leave and change places, and the node is registered anew: the same bits."""
    first = node.answer(weeks[0])
    left, names = node.names.pop(3), node.names  # users are in the order of their names
    monkeypatch.setattr("deployed_node.NODE_ID", NODE_ID + 1)
    second = node.answer(weeks[1])
    assert second == {n: bit for n, bit in first.items() if n != node.number_of[left]}
    node.names = [*names, left]
    assert len(first) == USERS and node.answer(weeks[2]) == first
    assert node.spent == [1.0] * USERS and len(node.execute("SELECT * FROM secret")) == USERS


def test_a_user_with_another_coin_refuses(node, weeks):
    """The same noise on two columns would tell a value by their difference, without any noise."""
    assert isinstance(node.answer(weeks[0]), dict)
    kept = node.execute("SELECT * FROM secret")
    node.execute("UPDATE fact SET value = 'another' WHERE name = 'identity'")
    assert node.answer(weeks[1]) == Refusal.MISCONFIGURED
    assert node.execute("SELECT * FROM secret") == kept
    assert node.execute("SELECT COUNT(*) FROM reply") == [(1,)]


def test_a_census_tells_the_numbers_that_users_keep_if_it_asks(tmp_path, node):
    numbers = list(node.number_of.values())
    assert len(set(numbers)) == USERS and min(numbers) >= 0 and max(numbers) < HASH_END
    assert list(ask(node.app, "numbers", node.config).content["numbers"]["numbers"]) == numbers
    assert "numbers" not in ask(node.app, None, node.config).content
    other = SqliteLedger.create(tmp_path / "other.db").numbers(np.array(node.names))
    assert not set(numbers) & set(other.tolist())  # of another ledger: a name alone tells nothing


def test_a_budget_that_is_given_anew_pays_anew_for_the_same_secret(node, weeks):
    first = node.answer(weeks[0])
    renew_budgets(node.ledger)
    assert node.answer(weeks[1]) == first and node.spent == [1.0] * USERS
    assert sum(float(row[5]) for row in charges(node.ledger) if float(row[5]) > 0) == 2 * USERS


@pytest.mark.parametrize("policy", [{}, {"allow-public-changes": False}])
def test_operators_refuse_by_default(tmp_path, weeks, policy):
    node = Node(tmp_path, **policy)
    assert node.answer(weeks[0]) == Refusal.FORBIDDEN
    assert not node.spent and not node.execute("SELECT * FROM secret")


def test_what_is_no_single_bit_is_no_permanent_answer(node, weeks):
    """With the same words, two reports of other mechanisms would say more than when they differ."""
    query = replace(weeks[0], randomizer=KRandomizedResponse(1.0, 3))
    assert node.answer(query) == Refusal.MALFORMED
    assert node.answer(replace(query, randomizer=RandomizedResponse(1.0))) == Refusal.MALFORMED
    assert not node.spent


def test_a_rehearsal_keeps_and_spends_nothing(tmp_path, weeks):
    node = Node(tmp_path, **{"allow-public-changes": True, "rehearsal": True})
    assert len(node.answer(weeks[0])) == USERS
    assert not node.spent and not node.execute("SELECT * FROM secret")


def test_a_simulation_without_a_seed_cannot_keep_a_secret(weeks):
    users = SORTS.users({"sort": VALUES * 10})
    grid = InProcessGrid(LdpClientApp(lambda context: users), 1)
    asked = grid.create_message(weeks[0].to_record_dict(), "query.report", 1, "1", 60.0)
    (reply,) = grid.send_and_receive([asked])
    assert reply.error.code == Refusal.MISCONFIGURED and "seed" in reply.error.reason
