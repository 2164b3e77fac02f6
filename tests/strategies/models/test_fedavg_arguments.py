"""What Flower's FedAvg takes means the same here, or is refused with the reason."""

import inspect
import re
import threading
import time

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from ldp_flower import InProcessGrid
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.strategies import LdpFedAvg, TooFewReports

NODES = 120


class Watching(InProcessGrid):
    """Counts who is asked in which round, and shows its nodes as slowly as it is told."""

    def __init__(self, app, num_nodes=NODES):
        super().__init__(app, num_nodes)
        self.asked, self.shown = [], num_nodes

    def get_node_ids(self):
        return list(self.contexts)[: self.shown]

    def _handle(self, message):
        if message.content.array_records:
            self.asked.append((int(message.metadata.group_id), message.metadata.dst_node_id))
        return super()._handle(message)


def app(**arguments):
    found = ClientApp(mods=[LdpUpdateMod(seed=1, **arguments)])

    @found.train()
    def train(message, context):
        node = int(context.node_config["partition-id"])
        arrays = ArrayRecord([message.content["arrays"].to_numpy_ndarrays()[0] + 1])
        metrics = MetricRecord({"num-examples": 1 + node % 3, "age": float(node % 3)})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return found


def start(grid, num_rounds=0, num_nodes=NODES, epsilon=8.0, **arguments):
    strategy = LdpFedAvg(epsilon=epsilon, **arguments)
    model = ArrayRecord([np.zeros(3)])
    return strategy.start(grid, model, num_rounds=num_rounds, num_nodes=num_nodes, seed=1)


def per_round(grid):
    rounds = {number for number, _ in grid.asked}
    return [sum(number == at for at, _ in grid.asked) for number in sorted(rounds)]


def test_every_argument_of_flowers_is_taken_or_refused_with_a_reason():
    ours = inspect.signature(LdpFedAvg).parameters
    assert set(inspect.signature(FedAvg).parameters) <= set(ours)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"weighted_by_key": "num-examples"}, "Remove weighted_by_key='num-examples': weights"),
        (
            {"fraction_evaluate": 0.5},
            "Remove fraction_evaluate=0.5: nodes are never evaluated.*Pass",
        ),
        ({"min_evaluate_nodes": 2}, "Remove min_evaluate_nodes=2: .* cost them privacy"),
        ({"evaluate_metrics_aggr_fn": max}, "Remove evaluate_metrics_aggr_fn=.* evaluate_fn to"),
        ({"fraction_train": 0.0}, "Expected 0 < fraction_train <= 1, got 0.0"),
        ({"fraction_train": 1.1}, "Expected 0 < fraction_train <= 1, got 1.1"),
        ({"fraction_train": "all"}, "Expected fraction_train to be a number, got 'all'"),
        ({"min_train_nodes": 0}, "Expected an integer min_train_nodes >= 1, got 0"),
        ({"min_available_nodes": 2.5}, "Expected an integer min_available_nodes >= 1, got 2.5"),
        ({"train_metrics_aggr_fn": "mean"}, "train_metrics_aggr_fn to be a function, got 'mean'"),
    ],
    ids=str,
)
def test_what_can_mean_nothing_is_refused_at_construction(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        LdpFedAvg(epsilon=1.0, **arguments)


def test_all_that_can_mean_nothing_is_refused_at_once_with_what_a_run_needs():
    with pytest.raises(ValueError, match="Remove") as told:
        LdpFedAvg(epsilon=1.0, weighted_by_key="n", fraction_evaluate=0.5, min_evaluate_nodes=2)
    assert str(told.value) == (
        "Remove weighted_by_key='n': weights are data of the nodes and do not leave them; all "
        "updates count the same. Remove fraction_evaluate=0.5, min_evaluate_nodes=2: nodes are "
        "never evaluated, which would cost them privacy. Pass evaluate_fn to start, which "
        "evaluates the model on the server's own rows. A run also needs at least 20 users: "
        "`ldp-flower check APP` says before a run what is missing."
    )


def test_no_evaluation_may_be_said():
    assert LdpFedAvg(epsilon=1.0, fraction_evaluate=0.0).epsilon == 1.0


@pytest.mark.parametrize(
    ("arguments", "rounds"),
    [
        ({"fraction_train": 1 / 3}, [40] * 3),
        ({"fraction_train": 0.3, "num_rounds": 3}, [36] * 3),
        ({"num_rounds": 5}, [24] * 5),
    ],
    ids=str,
)
def test_a_round_asks_this_share_of_the_nodes(arguments, rounds):
    grid = Watching(app())
    result = start(grid, **arguments)
    assert per_round(grid) == rounds
    nodes = [node for _, node in grid.asked]
    assert max(map(nodes.count, nodes)) <= 1
    assert result.num_reports == sum(rounds)


def test_the_rule_of_thumb_is_about_those_who_are_asked():
    half = start(Watching(app()), num_rounds=2, fraction_train=0.25)
    everybody = start(Watching(app()), num_rounds=4)
    assert half.num_reports == everybody.num_reports / 2
    assert half.noise_to_signal == pytest.approx(everybody.noise_to_signal * np.sqrt(2))


@pytest.mark.parametrize(
    ("arguments", "largest"),
    [
        ({"fraction_train": 1.0, "num_rounds": 20}, "0.05"),
        ({"fraction_train": 0.3, "num_rounds": 4}, "0.25"),
        ({"fraction_train": 0.5, "num_rounds": 7}, "0.143"),
    ],
    ids=str,
)
def test_a_share_that_would_ask_nodes_twice_is_refused(arguments, largest):
    grid = Watching(app())
    with pytest.raises(ValueError, match=f"Expected fraction_train <= {largest} for"):
        start(grid, **arguments)
    assert grid.asked == []


FEW_SILOS = (
    "With LdpUpdateMod each node is one user. For few silos use RecordDpSgdMod (protects records) "
    "or LdpUserUpdateMod (protects users, such as patients)."
)


@pytest.mark.parametrize(
    ("arguments", "nodes", "needed", "told"),
    [
        ({}, 4, 20, ["a round would ask 4 of them, and needs 20"]),
        ({}, 19, 20, ["a round would ask 19 of them, and needs 20"]),
        ({"num_rounds": 3}, 40, 60, ["ask 13 of them, and needs 20.", "Or take num_rounds=2."]),
        ({"fraction_train": 0.1}, 100, 200, ["a round would ask 10 of them, and needs 20."]),
        (
            {"num_rounds": 5, "min_train_nodes": 25},
            NODES,
            125,
            ["ask 24 of them, and needs 25.", "Or take num_rounds=4."],
        ),
        (
            {"epsilon": 0.5},
            10,
            20,
            ["needs 20; the noise would", "q = sqrt(d c / n)", "for d = 3 ", "10 users"],
        ),
        ({"epsilon": 0.25, "num_rounds": 1}, 30, None, ["q > 2", "a larger epsilon or fewer"]),
        (
            {"epsilon": 0.25, "fraction_train": 0.25},
            60,
            None,
            ["ask 15 of them", "users, from some"],
        ),
        (
            {"epsilon": 0.25, "fraction_train": 0.25, "num_rounds": 2},
            60,
            None,
            ["users, from some"],
        ),
    ],
    ids=str,
)
def test_a_refusal_says_all_at_once_and_its_number_is_the_least_that_starts(
    arguments, nodes, needed, told
):
    def refused(num_nodes):
        grid = Watching(app(), num_nodes)
        with pytest.raises(TooFewReports) as error:
            start(grid, num_nodes=num_nodes, **arguments)
        assert grid.asked == []
        return str(error.value)

    text = refused(nodes)
    least = int(re.search(r"At least ([\d,]+) users are needed", text)[1].replace(",", ""))
    assert text.endswith(FEW_SILOS) and all(part in text for part in told)
    assert needed in (least, None) and least > nodes
    assert f"At least {least:,} " in refused(least - 1)
    assert start(Watching(app(), least), num_nodes=least, **arguments).num_users == least


def test_rounds_that_a_refusal_names_start():
    assert start(Watching(app(), 40), num_nodes=40, num_rounds=2).num_reports == 40
    assert start(Watching(app()), num_rounds=4, min_train_nodes=25).num_reports == NODES


def test_a_run_waits_for_the_nodes_that_shall_be_available():
    grid = Watching(app())
    grid.shown = 60
    began = time.monotonic()
    timer = threading.Timer(0.5, lambda: setattr(grid, "shown", 100))
    timer.start()
    result = start(grid, num_rounds=2, num_nodes=None, min_available_nodes=100)
    timer.join()
    assert result.num_users == 100 and time.monotonic() - began >= 0.5
    grid.shown = 60
    with pytest.raises(TimeoutError, match="100 nodes and found 60"):
        LdpFedAvg(epsilon=8.0, min_available_nodes=100).start(
            grid, ArrayRecord([np.zeros(3)]), num_nodes=60, roster_timeout=0.2
        )


def test_public_metrics_are_aggregated_by_ones_own_function():
    def weighted(records, key):
        metrics = [record["metrics"] for record in records]
        total = sum(found[key] for found in metrics)
        return MetricRecord({"age": sum(found["age"] * found[key] for found in metrics) / total})

    grid = Watching(app(public_metrics=["num-examples", "age"]))
    result = start(grid, num_rounds=1, train_metrics_aggr_fn=weighted)
    metrics = result.train_metrics_clientapp[1]
    # Ages 0, 1, 2 with weights 1, 2, 3, as many of each.
    assert metrics["public.age"] == pytest.approx(8 / 6)
    assert metrics["reports"] == NODES and "public.num-examples" not in metrics
    # Nothing is declared public: there is nothing to aggregate.
    assert (
        "public.age"
        not in start(
            Watching(app()), num_rounds=1, train_metrics_aggr_fn=weighted
        ).train_metrics_clientapp[1]
    )
    with pytest.raises(ValueError, match="train_metrics_aggr_fn to return a MetricRecord, got 3"):
        start(
            Watching(app(public_metrics=["age"])),
            num_rounds=1,
            train_metrics_aggr_fn=lambda records, key: 3,
        )


def test_a_config_for_evaluation_is_refused_before_anybody_is_asked():
    grid = Watching(app())
    strategy, model = LdpFedAvg(epsilon=8.0), ArrayRecord([np.zeros(3)])
    arguments = {"num_rounds": 1, "num_nodes": NODES}
    config = ConfigRecord({"batch": 8})
    with pytest.raises(ValueError, match=r"Expected no evaluate_config.*batch.*evaluate_fn"):
        strategy.start(grid, model, evaluate_config=config, **arguments)
    assert not grid.asked
    empty = strategy.start(grid, model, evaluate_config=ConfigRecord(), **arguments)
    assert empty.num_users == NODES


class Dying(Watching):
    """Loses nodes from a round on."""

    def __init__(self, lost, step):
        super().__init__(app())
        self.lost, self.step = lost, step

    def _handle(self, message):
        number = message.metadata.group_id
        dead = message.metadata.dst_node_id <= self.lost
        return None if number and int(number) >= self.step and dead else super()._handle(message)


@pytest.mark.parametrize("sparsity", [None, 1])
def test_a_model_so_far_is_returned_where_all_nodes_are_lost(sparsity, tmp_path):
    strategy, model = LdpFedAvg(epsilon=8.0, sparsity=sparsity), ArrayRecord([np.zeros(3)])
    given = {"num_rounds": 4, "timeout": 0.0, "num_nodes": NODES, "seed": 1}
    store = tmp_path / "run.db"
    found = strategy.start(Dying(NODES, 3), model, store=store, **given)
    assert found.ended_early and found.num_reports == 60
    trained = found.arrays.to_numpy_ndarrays()[0]
    assert np.count_nonzero(trained) == (sparsity or 3)
    assert "60 users have spent budget. Their reports are kept in" in " ".join(found.notes)
    again = strategy.start(Watching(app()), model, store=store, **given)
    assert not again.ended_early and again.num_reports == NODES
    with pytest.raises(TooFewReports, match=r"0 of 30 answered, 30 may have .* 30 silent"):
        strategy.start(Dying(NODES, 1), model, **given)


def test_a_round_goes_on_without_two_thirds_of_its_nodes():
    model = ArrayRecord([np.zeros(3)])
    given = {"num_rounds": 4, "timeout": 0.0, "num_nodes": NODES, "seed": 1}
    result = LdpFedAvg(epsilon=8.0).start(Dying(80, 2), model, **given)
    assert not result.ended_early and min(step.reports for step in result.steps[1:]) < 20
    assert result.arrays.to_numpy_ndarrays()[0].all()


class Overridden(LdpFedAvg):
    """Runs rounds of its own, as an app made of FedAvg may."""

    def start(self, grid, initial_arrays, **arguments):
        return FedAvg.start(self, grid, initial_arrays, **arguments)


def test_a_strategy_that_overrides_start_is_told_what_to_override():
    with pytest.raises(
        RuntimeError,
        match=r"LdpFedAvg runs its own rounds, so Overridden\.start cannot replace "
        r"LdpFedAvg\.start\. Remove Overridden\.start\. .* override aggregate_train; .* pass "
        "evaluate_fn",
    ):
        Overridden(epsilon=8.0).start(Watching(app()), ArrayRecord([np.zeros(3)]))


def test_flowers_wrappers_for_differential_privacy_are_told_to_go():
    wrapped = DifferentialPrivacyServerSideFixedClipping(LdpFedAvg(epsilon=8.0), 1.0, 1.0, 10)
    with pytest.raises(
        RuntimeError,
        match=r"LdpFedAvg runs its own rounds, so .*wraps.* Call LdpFedAvg\.start directly",
    ):
        wrapped.start(Watching(app()), ArrayRecord([np.zeros(3)]))


class Saving(LdpFedAvg):
    """Keeps every round's model, as the words of the refusal say."""

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.saved = [*getattr(self, "saved", []), arrays.to_numpy_ndarrays()[0]]
        return arrays, metrics


def test_aggregate_train_may_be_overridden():
    strategy = Saving(epsilon=8.0)
    strategy.start(Watching(app()), ArrayRecord([np.zeros(3)]), num_rounds=4, num_nodes=NODES)
    assert len(strategy.saved) == 4
