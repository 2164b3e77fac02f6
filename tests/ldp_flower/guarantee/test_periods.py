"""Budgets of periods: by the node's own clock, never more than for life."""

from types import SimpleNamespace

import numpy as np
import pytest

from ldp_flower import PrivacyPolicy
from ldp_flower.guarantee import ledger as module
from ldp_flower.guarantee.budget import Cost, seconds_in
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.guarantee.state_ledger import StateLedger
from ldp_flower.supernode.accounts import Accounts, as_html
from ldp_flower.supernode.bookkeeping import charges, renew_budgets

DAY = 86_400.0
START = 1_700_000_000.0
CONFIG = {"max-epsilon": 1.0, "period": "30d", "lifetime-epsilon": 3.0}
POLICY = PrivacyPolicy.from_node_config(CONFIG)
USER = np.array(["user"])


class Node:
    """A ledger whose node's clock can be set."""

    def __init__(self, path, monkeypatch):
        self.now, self.path, self.asked = START, path, 0
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: self.now))
        SqliteLedger.create(path)

    def pays(self, epsilon, user=USER, policy=POLICY):
        """Whether a user pays so much, in a process of its own."""
        ledger, self.asked = SqliteLedger(self.path), self.asked + 1
        able = ledger.affordable(user, Cost(epsilon), policy).all()
        entry = Entry(str(self.asked))
        paid = ledger.reserve(entry, user, Cost(epsilon), policy).users.all()
        assert paid == able
        return paid


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path / "ledger.db", monkeypatch)


def test_a_period_gives_its_budget_and_all_together_that_for_life(node):
    for period in range(3):
        node.now = START + 30 * DAY * period
        assert node.pays(0.75) and not node.pays(0.75) and node.pays(0.25)
        node.now += 30 * DAY - 1
        assert not node.pays(0.25)
    node.now = START + 300 * DAY
    assert not node.pays(0.001)  # 3 are spent
    assert node.pays(0.5, np.array(["another"]))
    assert sum(row[5] for row in charges(SqliteLedger(node.path)) if row[1] == "user") == 0.0


def test_a_clock_that_goes_back_gives_nothing_and_one_that_jumps_one_period(node):
    assert node.pays(1.0)
    node.now -= 1000 * DAY
    assert not node.pays(1.0)
    node.now = START + 365 * DAY  # twelve periods at once are one
    assert node.pays(1.0) and not node.pays(1.0)
    node.now = START + 40 * DAY  # the clock is right again: the period lasts until it has been
    assert not node.pays(1.0)
    node.now = START + 394 * DAY
    assert not node.pays(1.0)
    node.now = START + 395 * DAY
    assert node.pays(1.0)


def test_what_was_spent_before_there_were_periods_counts(node):
    plain = PrivacyPolicy(max_epsilon=2.0)
    assert node.pays(2.0, policy=plain)
    assert not node.pays(0.5)
    node.now += 31 * DAY
    assert node.pays(1.0) and not node.pays(0.5)
    node.now += 31 * DAY
    assert not node.pays(0.5)  # 3 for life


def test_a_renewal_by_hand_is_within_the_budget_for_life(node):
    for _ in range(3):
        assert node.pays(1.0) and not node.pays(1.0)
        assert renew_budgets(SqliteLedger(node.path)) == 1
    assert not node.pays(0.5)


def test_the_report_shows_periods(node):
    node.pays(1.0)
    node.now += 40 * DAY
    node.pays(0.25)
    accounts = Accounts.of(node.path, 1.0)
    assert accounts.period == "2023-12-24T22:13:20+00:00"
    assert accounts.users[["epsilon", "for life", "left"]].values.tolist() == [[0.25, 1.25, 0.75]]
    assert accounts.renewals.epsilon.tolist() == [1.0]
    assert "the current period began at 2023-12-24" in as_html(accounts)


def test_a_simulation_is_in_one_period():
    from flwr.app import RecordDict

    ledger = StateLedger(RecordDict(), 1)
    slot = np.array([0])
    assert ledger.reserve(Entry("1"), slot, Cost(1.0), POLICY).users.all()
    assert not ledger.affordable(slot, Cost(0.5), POLICY).any()


def test_an_app_can_only_tighten():
    own = PrivacyPolicy(max_epsilon=0.5, period="1h", lifetime_epsilon=2.0)
    both = POLICY.tightened_by(own)
    assert (both.max_epsilon, both.period, both.lifetime_epsilon) == (0.5, "30d", 2.0)
    assert POLICY.tightened_by(PrivacyPolicy(max_epsilon=2.0)).lifetime_epsilon == 2.0
    assert PrivacyPolicy(max_epsilon=2.0).tightened_by(own).period is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"period": "30d"}, "Expected period and lifetime-epsilon together"),
        ({"lifetime-epsilon": 5.0}, "Expected period and lifetime-epsilon together"),
        ({**CONFIG, "period": "a month"}, "Expected a period of days or hours"),
        ({**CONFIG, "period": "0d"}, "Expected a period of days or hours"),
        ({**CONFIG, "period": 30}, "Expected period to be a text"),
        ({**CONFIG, "lifetime-epsilon": 0.5}, "Expected max-epsilon <= lifetime-epsilon < inf"),
        ({**CONFIG, "lifetime-epsilon": float("inf")}, "lifetime-epsilon < inf"),
        ({**CONFIG, "lifetime-epsilon": "3"}, "Expected lifetime-epsilon to be a number"),
        ({**CONFIG, "max-delta": 1e-6}, "Expected max-delta 0 with a period"),
    ],
)
def test_settings_are_checked(given, expected):
    with pytest.raises(ValueError, match=expected):
        PrivacyPolicy.from_node_config({"max-epsilon": 1.0, **given})


def test_lengths():
    assert [seconds_in("30d"), seconds_in("12h")] == [30 * DAY, 12 * 3600]
