"""Answers that are paid for and lost on the way: asked for again, or told in the result."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Error, Message, RecordDict

from ldp_flower import InProcessGrid, Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.strategies import LdpIht, TooFewReports
from ldp_flower.strategies.runtime import Cohort, delivery
from ldp_flower.strategies.runtime.live_run import LiveRun

DIM, NODES, USERS = 8, 4, 1000
# Flower's texts of flwr 1.41, shortened.
TEXTS = {
    3: "Reply message objects are unavailable.",
    4: "Error: Reply Message Unavailable - The reply message has expired.",
    5: "Error: Node Unavailable",
    8: "ClientApp stopped responding.",
}


class LossyGrid(InProcessGrid):
    """Deployed nodes with ledgers, whose answers are given, paid for, and lost.

    ``losses`` are how often an answer of a node is lost to a step, by node and step; ``codes``
    are the errors of the nodes 1, 2, ... that come instead.
    """

    def __init__(self, tmp_path, losses, codes=(3,) * NODES):
        x = np.random.default_rng(0).choice([-1.0, 1.0], (USERS, DIM))
        users = Users.from_rows(x, x[:, 1], np.arange(USERS).astype(str))

        def load(context):
            return users.partition(int(context.node_config["partition-id"]), NODES)

        super().__init__(LdpClientApp(load), NODES)
        self.losses = Counter(losses)
        self.codes = dict(enumerate(codes, 1))
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
        code = self.codes[message.metadata.dst_node_id]
        return Message(Error(code, TEXTS[code]), reply_to=message)

    def paid(self):
        """Return how many users have paid."""
        return sum(len(ledger.spent()) for ledger in self.ledgers.values())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(delivery, "_AGAIN_AFTER", (0.0, 0.01, 0.02))


def started(grid, timeout=30.0, **arguments):
    strategy = LdpIht(DIM, sparsity=2, epsilon=4.0)
    return strategy.start(grid, num_nodes=NODES, timeout=timeout, **arguments)


def test_an_answer_that_was_lost_is_asked_for_again_and_costs_nothing(tmp_path):
    losses = {(1, "1"): 1, (2, "1"): 3, (3, "2"): 2, (1, ""): 1}
    grid = LossyGrid(tmp_path, losses, (3, 4, 8, 3))
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
    (note,) = (note for note in result.notes if "answers were lost" in note)
    assert note.startswith(f"No reports came from up to {lost} users, but they may have spent")
    assert not any(step.lost for step in result.steps[2:])


def test_a_node_that_is_gone_is_not_asked_again(tmp_path):
    grid = LossyGrid(tmp_path, {(1, "1"): 99}, (5,) * NODES)
    result = started(grid)
    assert grid.sent[1, "1"] == 1 and result.steps[1].errors == 1
    # A node that has gone after it took the question may have answered it, as here.
    assert result.steps[1].lost == grid.paid() - result.num_reports > 0


class Failing(LossyGrid):
    """Nodes that answer the first question as ``outcomes`` say, one after the other, and pay.

    An outcome is a code of an error, None for silence, or a content of no report.
    """

    def __init__(self, tmp_path, outcomes):
        super().__init__(tmp_path, {})
        self.outcomes = outcomes

    def _handle(self, message):
        reply = super()._handle(message)
        if message.metadata.group_id != "1" or message.metadata.dst_node_id not in (1, 2):
            return reply
        tried = self.sent[message.metadata.dst_node_id, "1"]
        outcome = self.outcomes[min(tried, len(self.outcomes)) - 1]
        if isinstance(outcome, int):
            return Message(Error(outcome, "x"), reply_to=message)
        return None if outcome is None else Message(outcome, reply_to=message)


OUTCOMES = [(8,), (4, 104), (8, 2), (104,), (5,), (None,), (4, None), (RecordDict(),)]


@pytest.mark.parametrize("outcomes", OUTCOMES)
def test_whoever_may_have_paid_is_counted_whatever_came(outcomes, tmp_path):
    grid = Failing(tmp_path, outcomes)
    result = started(grid, timeout=0.5)
    assert result.steps[1].lost == grid.paid() - result.num_reports > 0
    (note,) = (note for note in result.notes if "may have spent budget" in note)
    assert note.startswith(f"No reports came from up to {result.steps[1].lost} users, but they may")


@pytest.mark.parametrize("code", [100, 101, 102, 103])
def test_a_refusal_before_anybody_pays_is_no_loss(code, tmp_path):
    result = started(Failing(tmp_path, (code,)))
    assert result.steps[1].errors == 2 and not any(step.lost for step in result.steps)
    assert not any("may have spent" in note for note in result.notes)


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_without_any_answer_says_what_may_be_spent(kept, tmp_path):
    store = tmp_path / "run.db" if kept else None
    grid = LossyGrid(tmp_path, {(node, "1"): 99 for node in range(1, NODES + 1)})
    with pytest.raises(TooFewReports) as refused:
        started(grid, store=store)
    assert f"up to {grid.paid()} users, but they may have spent" in f"{refused.value}"
    then = f"Start again with {store}: " if kept else "No store was given, so another run costs"
    assert then in f"{refused.value}"


def test_users_who_answer_several_questions_are_counted_once():
    """Users who have answered one of a cohort's questions have spent; the rest may have."""
    everybody, others = Cohort(0, 10, 5), Cohort(10, 20, 7)
    steps = [(everybody, 3, 2), (everybody, 0, 5), (everybody, 4, 0), (others, 0, 0)]
    run = object.__new__(LiveRun)
    run._asked = [SimpleNamespace(cohort=cohort) for cohort, _, _ in steps]
    counted = [SimpleNamespace(reports=reports, lost=lost) for _, reports, lost in steps]
    run.facts = SimpleNamespace(steps=[None, *counted])
    assert run._may_have_spent() == 1


def test_asking_again_ends_with_the_step(tmp_path, monkeypatch):
    """With no time left nobody waits for the next try: what was lost counts as lost."""
    monkeypatch.setattr(delivery, "_AGAIN_AFTER", (1e9,))
    grid = LossyGrid(tmp_path, {(1, "1"): 1})
    result = started(grid, timeout=0.2)
    assert grid.sent[1, "1"] == 1
    assert result.steps[1].lost > 0 and result.steps[1].reasons == {f"error 3: {TEXTS[3]}": 1}
