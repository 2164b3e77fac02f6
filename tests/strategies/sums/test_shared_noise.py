"""Strategies with shared noise: what they estimate and state, and what a lost answer costs."""

import numpy as np
import pandas as pd
import pytest
from flwr.app import Error, Message

from ldp_flower import InProcessGrid, Numeric, PrivacyPolicy, Schema, simulate
from ldp_flower.clients import LdpClientApp
from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.randomizers import BallSum
from ldp_flower.strategies import Means, PrivateRegression, Quantiles, Series, TooFewReports

NODES, USERS = 8, 3000
SCHEMA = Schema({"dose": Numeric(0, 10)}, "stay", Numeric(0, 30))


def patients(number=USERS, seed=0):
    rng = np.random.default_rng([seed, 5])
    dose = rng.beta(2, 3, number) * 10
    return pd.DataFrame({"dose": dose, "stay": (5 + 1.5 * dose + rng.gumbel(0, 2, number))})


class Failing(InProcessGrid):
    """A grid whose nodes lose the sums of some steps; a node with step 0 is gone from then on."""

    def __init__(self, lost, policy=None):
        self.users, self.lost = SCHEMA.users(patients()), dict(lost)
        self.gone, self.sums = set(), []

        def load(context):
            return self.users.partition(context.node_config["partition-id"], NODES)

        super().__init__(LdpClientApp(load, policy=policy, seed=3), NODES)

    def _handle(self, message):
        node, kind = message.metadata.dst_node_id, message.metadata.message_type
        step = message.metadata.group_id
        if node in self.gone or (kind == "query.report" and (node, int(step)) in self.lost):
            if self.lost.pop((node, int(step or 0)), None) == "gone":
                self.gone.add(node)
            return Message(Error(2, "gone"), reply_to=message)
        return super()._handle(message)


def test_shared_noise_is_smaller_and_says_whom_it_trusts():
    users = SCHEMA.users(patients())
    found = {
        noise: simulate(
            Means(SCHEMA, "stay", epsilon=0.5, noise=noise), users, seed=1, num_nodes=NODES
        )
        for noise in ("node", "shared")
    }
    shared, at_node = found["shared"], found["node"]
    # Five of eight nodes are relied on: two may collude and one may fail. A tenth is spare.
    assert shared.privacy.noise == "shared"
    assert shared.privacy.alone == BallSum(0.5, honest=5).alone
    ratio = at_node.users_std_error[0, 0] / shared.users_std_error[0, 0]
    assert 0.9 * np.sqrt(5 * 0.9) < ratio < 1.1 * np.sqrt(5 * 0.9)
    assert "if all others collude" in str(shared.privacy)


@pytest.mark.parametrize("strategy", [Means, Quantiles])
def test_intervals_hold_with_shared_noise(strategy, runs=60):
    """95 % intervals for the population: more than 9 of 60 miss once in 1,300 tests."""
    missed = 0
    law = patients(400_000, seed=99).stay.clip(0, 30)
    true = law.mean() if strategy is Means else law.median()
    for seed in range(runs):
        users = SCHEMA.users(patients(2500, seed=seed + 1))
        asked = {"levels": [0.5]} if strategy is Quantiles else {}
        made = strategy(SCHEMA, "stay", epsilon=0.7, noise="shared", **asked)
        found = run_in_memory(made, users, seed, num_nodes=6).result
        if strategy is Means:
            reach = 1.96 * found.std_error[0, 0]
            low, high = found.means[0, 0] - reach, found.means[0, 0] + reach
        else:
            low, high = found.lower[0], found.upper[0]
        missed += not low <= true <= high
    assert missed <= 9


def test_a_lost_question_is_asked_again_with_the_spare(tmp_path):
    grid = Failing({(3, 1): "once"})
    strategy = Means(SCHEMA, "stay", epsilon=1.0, noise="shared")
    found = strategy.start(grid, seed=2)
    whole = strategy.start(Failing({}), seed=2)
    assert [step.reports for step in found.steps[1:]] == [0, USERS]
    assert found.privacy == whole.privacy
    truth = patients().stay.clip(0, 30).mean()
    assert abs(found.means[0, 0] - truth) < 5 * found.std_error[0, 0]
    assert found.std_error[0, 0] > whole.std_error[0, 0]


@pytest.mark.slow
def test_a_node_that_is_gone_costs_one_step(tmp_path):
    grid = Failing({(5, 4): "gone"})
    strategy = PrivateRegression(SCHEMA, epsilon=4.0, noise="shared")
    found = strategy.start(grid, seed=2)
    lost = [step.number for step in found.steps[1:] if not step.reports]
    assert lost == [4]
    assert {step.reports for step in found.steps[5:]} == {USERS - USERS // NODES}
    assert found.score > 0.4


def test_too_few_nodes_to_share_are_refused_before_anybody_pays():
    users = SCHEMA.users(patients())
    with pytest.raises(TooFewReports, match=r"2 nodes are too few.*At least 3 nodes"):
        simulate(Means(SCHEMA, "stay", epsilon=1.0, noise="shared"), users, num_nodes=2)
    for nodes in (3, 4):
        strategy = Means(SCHEMA, "stay", epsilon=1.0, noise="shared")
        assert simulate(strategy, users, num_nodes=nodes).num_reports == USERS
    policy = PrivacyPolicy(2.0, max_delta=1e-5, noise="shared", max_dishonest=7)
    with pytest.raises(TooFewReports, match=r"8 nodes are too few.*7 may collude"):
        Means(SCHEMA, "stay", epsilon=1.0, noise="shared").start(Failing({}, policy))
    with pytest.raises(ValueError, match="honest"):
        Means(SCHEMA, "stay", epsilon=1.0, noise="node", honest=4)


def test_a_restarted_server_asks_the_stored_set(tmp_path):
    class Stops(Exception):
        pass

    class Stopping(Failing):
        def push_messages(self, messages):
            messages = list(messages)
            if any(m.metadata.message_type == "query.report" for m in messages) and self.stop:
                self.stop = False
                super().push_messages(messages[:4])
                raise Stops
            return super().push_messages(messages)

    policy = PrivacyPolicy(1.0, max_delta=1e-6, noise="shared", max_dishonest=2)
    grid, strategy = Stopping({}, policy), Means(SCHEMA, "stay", epsilon=1.0, noise="shared")
    grid.stop = True
    with pytest.raises(Stops):
        strategy.start(grid, seed=2, store=tmp_path / "run.db")
    again = strategy.start(grid, seed=2, store=tmp_path / "run.db")
    whole = strategy.start(Failing({}, policy), seed=2)
    assert again.means.tolist() == whole.means.tolist()
    assert [step.reports for step in again.steps[1:]] == [USERS]


def test_a_series_shares_its_noise():
    users = SCHEMA.users(patients())
    series = Series(Means(SCHEMA, "stay", epsilon=2.0, noise="shared"), collections=4)
    found = simulate(series, users, seed=4, num_nodes=NODES)
    assert found.privacy.noise == "shared"
