"""Answers that are paid for and lost on the way: asked for again, or told in the result."""

from collections import Counter

import numpy as np
import pytest
from flwr.app import Error, Message

from ldp_flower import InProcessGrid, Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.strategies import LdpIht
from ldp_flower.strategies.runtime import delivery

DIM, NODES, USERS = 8, 4, 600
# Flower's texts of flwr 1.41, shortened.
TEXTS = {
    3: "Reply message objects are unavailable.",
    4: "Error: Reply Message Unavailable - The reply message has expired.",
    5: "Error: Node Unavailable",
    8: "ClientApp stopped responding.",
}


class LossyGrid(InProcessGrid):
    """Deployed nodes with ledgers, whose answers are given, paid for, and lost.

    ``losses`` are how often an answer of a node is lost to a step, by node and step.
    """

    def __init__(self, tmp_path, losses, code=3):
        x = np.random.default_rng(0).choice([-1.0, 1.0], (USERS, DIM))
        users = Users.from_rows(x, x[:, 1], np.arange(USERS).astype(str))

        def load(context):
            return users.partition(int(context.node_config["partition-id"]), NODES)

        super().__init__(LdpClientApp(load), NODES)
        self.losses, self.code = Counter(losses), code
        self.sent = Counter()
        self.ledgers = {}
        for node, context in self.contexts.items():
            path = tmp_path / f"{node}.db"
            self.ledgers[node] = SqliteLedger.create(path)
            context.node_config |= {"max-epsilon": 4.0, "ledger-path": str(path)}

    def _handle(self, message):
        key = message.metadata.dst_node_id, message.metadata.group_id
        self.sent[key] += 1
        reply = super()._handle(message)
        if self.losses[key] <= 0:
            return reply
        self.losses[key] -= 1
        return Message(Error(self.code, TEXTS[self.code]), reply_to=message)

    def paid(self):
        """Return how many users have paid."""
        return sum(len(ledger.spent()) for ledger in self.ledgers.values())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(delivery, "_AGAIN_AFTER", (0.0, 0.01, 0.02))


def started(grid, timeout=30.0, **arguments):
    strategy = LdpIht(DIM, sparsity=2, epsilon=4.0)
    return strategy.start(grid, num_nodes=NODES, timeout=timeout, **arguments)


@pytest.mark.parametrize("code", [3, 4, 8])
def test_an_answer_that_was_lost_is_asked_for_again_and_costs_nothing(code, tmp_path):
    grid = LossyGrid(tmp_path, {(1, "1"): 1, (2, "1"): 3, (3, "2"): 2, (1, ""): 1}, code)
    result = started(grid)
    assert result.num_reports == grid.paid() == result.num_users == USERS
    asked = [grid.sent[key] for key in ((1, "1"), (2, "1"), (3, "2"), (1, ""), (4, "1"))]
    assert asked == [2, 4, 3, 2, 1]
    assert all(step.errors == step.lost == 0 for step in result.steps)
    assert not any("lost" in note for note in result.notes)
    for ledger in grid.ledgers.values():
        assert all(cost.epsilon == 4.0 for cost in ledger.spent().values())


def test_what_stays_lost_is_told_and_comes_when_the_run_is_started_again(tmp_path):
    store = tmp_path / "run.db"
    grid = LossyGrid(tmp_path, {(node, "1"): 99 for node in range(1, NODES + 1)})
    with pytest.raises(RuntimeError, match="Reply message objects are unavailable"):
        started(grid, store=store)
    assert all(grid.sent[node, "1"] == 4 for node in range(1, NODES + 1))  # and no oftener
    paid = grid.paid()
    assert paid > 0
    grid.losses.clear()
    assert started(grid, store=store).num_reports == USERS == grid.paid()


def test_the_result_says_how_many_users_may_have_paid_for_nothing(tmp_path):
    grid = LossyGrid(tmp_path, {(2, "1"): 99})
    result = started(grid)
    lost = grid.paid() - result.num_reports
    assert lost == result.steps[1].lost == result.train_metrics_clientapp[1]["lost"] > 0
    assert result.steps[1].errors == 1
    (note,) = (note for note in result.notes if "lost on the way" in note)
    assert note.startswith(f"The answers of {lost} users were lost on the way")
    assert not any(step.lost for step in result.steps[2:])


def test_a_node_that_is_gone_is_not_asked_again(tmp_path):
    grid = LossyGrid(tmp_path, {(1, "1"): 99}, code=5)
    result = started(grid)
    assert grid.sent[1, "1"] == 1 and result.steps[1].errors == 1 and not result.steps[1].lost


def test_asking_again_ends_with_the_step(tmp_path, monkeypatch):
    """With no time left nobody waits for the next try: what was lost counts as lost."""
    monkeypatch.setattr(delivery, "_AGAIN_AFTER", (1e9,))
    grid = LossyGrid(tmp_path, {(1, "1"): 1})
    result = started(grid, timeout=0.2)
    assert grid.sent[1, "1"] == 1
    assert result.steps[1].lost > 0 and result.steps[1].reasons == {f"error 3: {TEXTS[3]}": 1}
