"""The audit of a whole client over 30 weeks of a series, and of clients with planted faults."""

import os
import tempfile
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from ldp_flower import Categories, Schema
from ldp_flower.audit.deployed_node import MEMORY, DeployedNode
from ldp_flower.audit.distinguish import log_ratio
from ldp_flower.audit.probe import ldp_client_app
from ldp_flower.clients import LdpClientApp, respond
from ldp_flower.clients.node import Node
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.ledger_file import series_keys
from ldp_flower.guarantee.messages import NodeKeys, Report
from ldp_flower.randomness import derive
from ldp_flower.simulation.questions_asked import RecordingGrid
from ldp_flower.strategies import Counts, Series
from ldp_flower.strategies.runtime.population import Panel

WEEKS, FEW, USERS = 30, 4, 750  # a few weeks show what is wrong in each
PANELS, PERMANENT = 3.0, 1.0  # epsilon of a series by panels, and of one of permanent answers
PIECES = 10  # of a panel that are asked apart: of some 4 users a node sends single reports
SORTS = [*"abc"]
SCHEMA = Schema({"sort": Categories(SORTS)})
ALPHA = 1e-6  # probability with which a check finds something in a client that is right
NEIGHBOURS, NODES = 12, 60


def asked_in_weeks(memoised, weeks=WEEKS):
    """Return the queries of each of the first weeks of a series."""
    asked = Counts(SCHEMA, "sort", epsilon=PERMANENT if memoised else PANELS, min_reports=1)
    series = Series(asked, collections=WEEKS, memoised=memoised)
    users = replace(people(["a"] * USERS), first=None)
    asked_in = []
    for _ in range(weeks):
        grid = RecordingGrid(LdpClientApp(lambda context: users, seed=1))
        series.start(grid, num_nodes=1, timeout=0.0, seed=5)
        queries = grid.sent.values()
        numbered = [replace(query, numbered=True) for query in queries]
        asked_in.append(numbered if memoised else [p for q in queries for p in pieces(q)])
    return asked_in


def pieces(query):
    """Return a question to the same users, piece by piece."""
    width = query.high - query.low
    cuts = [query.low + width * each // PIECES for each in range(PIECES + 1)]
    return [
        replace(query, low=low, high=high, step=PIECES * query.step + place)
        for place, (low, high) in enumerate(pairwise(cuts))
    ]


def people(sorts):
    everyone = np.arange(len(sorts))
    names = np.array([f"{i:05d}" for i in everyone])
    return SCHEMA.users({"sort": sorts}, groups=names, ids=names)


def answered(weeks, sorts, max_epsilon=PANELS):
    """Let a deployed node with a new ledger answer all weeks; return its reports by week and user.

    ``sorts`` has what users hold in each week; -1: who sent no single report.
    """
    return with_numbers(weeks, sorts, max_epsilon)[0]


def with_numbers(weeks, sorts, max_epsilon=PANELS):
    """Return what :func:`answered` does, and the users' numbers on the ledger.

    Users who answer permanently have other places on the node each week.
    """
    found = np.full((len(weeks), len(sorts[0])), -1, np.int64)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "ledger.db"
        ledger = SqliteLedger.create(path)
        numbers = ledger.numbers([f"{i:05d}" for i in range(len(sorts[0]))])
        config = {
            "max-epsilon": max_epsilon,
            "ledger-path": str(path),
            "allow-public-changes": True,
        }
        for week, (queries, held) in enumerate(zip(weeks, sorts, strict=True)):
            permanent = queries[0].collections is not None
            order = rng.permutation(len(held)) if permanent else np.arange(len(held))
            users = people(held).take(order)
            node = DeployedNode(ldp_client_app, lambda _, users=users: users, config)
            for query in queries:
                reply, _ = node.ask(query)
                arrays = {} if reply.has_error() else Report.from_record_dict(reply.content).arrays
                if "numbers" in arrays:
                    by_number = np.argsort(numbers)
                    told = arrays["numbers"].astype(np.uint64)
                    found_at = by_number[np.searchsorted(numbers[by_number], told)]
                    found[week, found_at] = arrays["reports"]
                elif "reports" in arrays:
                    found[week, arrays["slots"].astype(int)] = arrays["reports"]
    return found, numbers


def histories(users, weeks=WEEKS):
    """Return what users hold in two worlds: all the same for ever, and something new in weeks."""
    rng = np.random.default_rng(0)
    return [["a"] * users] * weeks, [rng.choice(["b", "c"], users).tolist() for _ in range(weeks)]


def loss(first, second):
    """Return a bound on the privacy loss of one report of two worlds, from below."""
    values = np.unique(np.concatenate([first, second]))
    pairs = ((first, second), (second, first))
    return max(
        float(log_ratio((a == v).sum(), len(a), (b == v).sum(), len(b), 0.0, ALPHA / 8))
        for v in values
        for a, b in pairs
    )


def audit_panels(weeks, **node):
    """Return what the answers of weeks say that whole histories at epsilon do not allow.

    And the part of the users who sent single reports: of the others it says nothing.
    """
    one, other = (answered(weeks, held, **node) for held in histories(USERS, len(weeks)))
    findings = set()
    if ((one >= 0) != (other >= 0)).any():
        findings.add("who answers depends on data")
    if ((one >= 0).sum(axis=0) > 1).any() or ((other >= 0).sum(axis=0) > 1).any():
        findings.add("a user answers twice")
    if loss(one[one >= 0], other[other >= 0]) > PANELS:
        findings.add("loss")
    return findings, (other >= 0).any(axis=0).mean()


def signs(sorts, query, numbers):
    """Return the bits that users would send without noise, (weeks, users): public but for data."""
    coins = derive(query.salt, 2, 0, 0, numbers)
    items = np.array([[SORTS.index(each) for each in week] for week in sorts], np.uint64)
    return (np.bitwise_count(items & query.randomizer.columns(coins)) & 1).astype(np.int64)


def audit_memoised(weeks):
    """Return what the answers of weeks say beyond when they change, at epsilon."""
    users = 400
    worlds = histories(users, len(weeks))
    found, numbers = zip(*(with_numbers(weeks, held) for held in worlds), strict=True)
    findings = set()
    if any((each < 0).any() for each in found):
        findings.add("who answers depends on data")
    flips = [
        each ^ signs(held, weeks[0][0], own)
        for each, held, own in zip(found, worlds, numbers, strict=True)
    ]
    if any((each != each[0]).any() for each in flips):
        findings.add("noise is drawn anew")
    # Given when answers change, all that is left is the first bit: the sign against its contrary.
    first = np.concatenate([each[0] for each in flips])
    if loss(first, 1 - first) > PERMANENT:
        findings.add("loss")
    # Any two users flip alike as often as by chance, over nodes with ledgers of their own.
    alone = [answered(weeks[:1], [["a"] * NEIGHBOURS])[0] for _ in range(NODES)]
    bits = np.array(alone)
    own = float(weeks[0][0].randomizer.own)
    pairs = list(combinations(range(NEIGHBOURS), 2))
    alike = np.array([(bits[:, i] == bits[:, j]).sum() for i, j in pairs])
    tail = binom.sf(alike - 1, NODES, own**2 + (1 - own) ** 2)
    if tail.min() < ALPHA / len(pairs):
        findings.add("users share noise")
    return findings


@pytest.fixture(scope="module")
def panels():
    return asked_in_weeks(memoised=False)


@pytest.fixture(scope="module")
def permanent():
    return asked_in_weeks(memoised=True)


@pytest.mark.slow
def test_nothing_is_found_with_panels(panels):
    findings, seen = audit_panels(panels)
    assert findings == set() and seen > 0.99


@pytest.mark.slow
def test_nothing_is_found_with_permanent_answers_beyond_when_they_change(permanent):
    assert audit_memoised(permanent) == set()
    # What is left open: that a user's answer changes, hence that its data did.
    stays, moves = (answered(permanent, held) for held in histories(200))
    assert not (stays != stays[0]).any()
    assert ((moves != moves[0]).any(axis=0)).mean() > 0.3


def test_a_user_in_two_panels_is_found(monkeypatch):
    of_one = Panel.__init__

    def wide(self, nodes, salt, number, panels):  # two panels in a row have the same users
        of_one(self, nodes, salt, (number + 1) // 2, (panels + 1) // 2)

    monkeypatch.setattr(Panel, "__init__", wide)
    weeks = asked_in_weeks(memoised=False, weeks=FEW)
    assert "a user answers twice" in audit_panels(weeks, max_epsilon=2 * PANELS)[0]
    # The ledger does not trust a server with that: it pays for one report, and no more.
    assert audit_panels(weeks)[0] == set()


def test_a_panel_that_is_chosen_by_data_is_found(panels, monkeypatch):
    honest = respond._of_users

    def choosing(node, query, slots):
        values = respond.values_of(node.take, slots, query)
        some = slots[values[:, 0] != 2.0]
        return honest(node, query, some if len(some) else slots)

    monkeypatch.setattr(respond, "_of_users", choosing)
    assert "who answers depends on data" in audit_panels(panels[:FEW])[0]


@pytest.mark.parametrize("shared", [NEIGHBOURS, 2])
def test_a_secret_that_users_share_is_found(permanent, monkeypatch, shared):
    honest = Node.permanent_keys

    def same(node, series, slots, coins):
        keys = honest(node, series, slots, coins)
        return [keys[place - place % shared] for place in range(len(keys))]

    monkeypatch.setattr(Node, "permanent_keys", same)
    assert "users share noise" in audit_memoised(permanent[:FEW])


def test_noise_that_is_drawn_each_week_is_found(permanent, monkeypatch):
    def fresh(node, series, slots, coins):
        return [os.urandom(32) for _ in slots]

    monkeypatch.setattr(Node, "permanent_keys", fresh)
    assert "noise is drawn anew" in audit_memoised(permanent[:FEW])


def test_a_column_that_follows_from_a_place_is_found(permanent, monkeypatch):
    """Then users who move show one flip on two columns: a value, without any noise."""

    def by_place(keys, *about):
        return honest(replace(keys, numbers=None), *about)

    def unchecked(connection, users, series, coins):
        return series_keys(connection, users, series, [0 for _ in coins])

    honest = NodeKeys.coins
    monkeypatch.setattr(NodeKeys, "coins", by_place)
    users = [["a"] * 40] * 2
    # A ledger keeps the coin with the secret: the node refuses.
    assert (answered(permanent[:2], users)[1] < 0).all()
    monkeypatch.setattr("ldp_flower.guarantee.ledger.series_keys", unchecked)
    assert "noise is drawn anew" in audit_memoised(permanent[:FEW])


def test_flips_that_are_too_rare_are_found(permanent, monkeypatch):
    """A client that flips as if epsilon were three times as large."""
    honest = respond.SecretRandom.words

    def rarely(source, shape):
        words = honest(source, shape)
        return words if shape[1:] == (1,) else words // np.uint64(4)

    monkeypatch.setattr(respond.SecretRandom, "words", rarely)
    assert "loss" in audit_memoised(permanent[:FEW])
