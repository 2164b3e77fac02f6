"""Every number that a refusal names is tried: with it a run starts, with one less it does not."""

import re
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid, simulate
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.planning import Setting, WouldRefuse, expectation
from ldp_flower.strategies import (
    Counts,
    Describe,
    Distribution,
    HeavyHitters,
    KnowledgeTransfer,
    LabelLdpIht,
    LdpFedAvg,
    LdpIht,
    Means,
    MultiRoundRegression,
    NonInteractiveIht,
    PrivateClassification,
    PrivateEvaluation,
    PrivateRegression,
    Quantiles,
    SparseMean,
    SparseRegression,
    TooFewReports,
    TwoRoundRegression,
    TwoWay,
    UserLevelMean,
)
from ldp_flower.strategies.runtime.run import Arguments

COLUMNS = {"x": Numeric(-1, 1), "sort": Categories(["a", "b", "c"]), "kind": Categories(["p", "q"])}
NUMBER = Schema(COLUMNS, "y", Numeric(-2, 2))
TWO, THREE = (Schema(COLUMNS, "class", Categories(list(names))) for names in ("no", "nom"))
WIDE = Schema({f"x{i}": Numeric(0, 1) for i in range(20)}, "y", Numeric(0, 1))
PARAMETERS = 650


def federated(num_rounds=0, **arguments):
    return LdpFedAvg(**arguments), num_rounds


def refusal_of(strategy, num_users, num_rounds=0):
    model = ArrayRecord([np.zeros(PARAMETERS)]) if isinstance(strategy, LdpFedAvg) else None
    return strategy.refusal(num_users, Arguments(model, num_rounds))


STRATEGIES = [
    *(Means(NUMBER, ["x", "y"], epsilon=0.5), Means(NUMBER, "y", by="sort", epsilon=1.0)),
    *(Means(NUMBER, "y", epsilon=9.0), Means(NUMBER, ["x", "y"], epsilon=9.0, min_reports=50)),
    *(Counts(NUMBER, "sort", epsilon=0.5), Counts(NUMBER, "kind", epsilon=0.3)),
    *(Counts(NUMBER, "sort", epsilon=9.0), TwoWay(NUMBER, "sort", "kind", epsilon=0.5)),
    *(Quantiles(NUMBER, "y", [0.1, 0.5], epsilon=1.0), Quantiles(NUMBER, "y", [0.5], epsilon=9.0)),
    *(Distribution(NUMBER, "y", epsilon=0.5), Distribution(NUMBER, "y", epsilon=8.0)),
    *(Describe(NUMBER, epsilon=1.0), Describe(NUMBER, epsilon=8.0), Describe(WIDE, epsilon=1.0)),
    *(PrivateRegression(NUMBER, epsilon=0.5), PrivateRegression(NUMBER, epsilon=4.0)),
    PrivateRegression(NUMBER, epsilon=2.0, method="two-stage"),
    PrivateRegression(NUMBER, epsilon=2.0, min_reports=50),
    *(PrivateClassification(TWO, epsilon=1.0), PrivateClassification(THREE, epsilon=4.0)),
    *(PrivateEvaluation(np.ones(4), epsilon=1.0), PrivateEvaluation(np.ones(4), epsilon=8.0)),
    *(HeavyHitters(6, epsilon=1.0), LdpIht(8, sparsity=2, epsilon=1.0)),
    LdpIht(8, sparsity=2, epsilon=1.0, link="logistic"),
    LdpIht(8, epsilon=1.0, samples_per_user=5),
    *(SparseRegression(8, epsilon=1.0, samples_per_user=20), SparseMean(8, epsilon=1.0)),
    UserLevelMean(8, epsilon=1.0, bound=1.0),
    UserLevelMean(8, epsilon=1.0, bound=1.0, spread=1.0, method="paper"),
    MultiRoundRegression(8, epsilon=1.0, samples_per_user=5, sparsity=2),
    TwoRoundRegression(8, epsilon=1.0, samples_per_user=5, sparsity=2),
    *(LabelLdpIht(8, sparsity=2, epsilon=1.0), NonInteractiveIht(8, sparsity=2, epsilon=1.0)),
    KnowledgeTransfer(8, sparsity=2, epsilon=1.0, radius=1.0),
    *(federated(epsilon=1.0), federated(epsilon=1.0, fraction_train=0.5)),
    *(federated(1, epsilon=1.0, fraction_train=0.5), federated(epsilon=8.0, fraction_train=0.1)),
    *(federated(10, epsilon=8.0, min_train_nodes=40), federated(3, epsilon=8.0)),
    *(federated(3, epsilon=8.0, force=True), federated(epsilon=2.0, fraction_train=0.25)),
    federated(10, epsilon=8.0, fraction_train=0.1, min_train_nodes=40),
]


@pytest.mark.parametrize("given", STRATEGIES, ids=lambda each: repr(each)[:60])
def test_a_refusal_names_one_number_with_which_the_run_starts(given):
    strategy, num_rounds = given if isinstance(given, tuple) else (given, 0)
    tried = set()
    for few in (1, 19, 20, 30, 45, 80, 150, 299, 700, 1500, 10_000):
        if not (why := refusal_of(strategy, few, num_rounds)):
            continue
        needed, told = why.needed, str(why)
        assert needed > few and told.count("are needed") == 1 and f"{needed:,}" in told
        if needed not in tried:
            assert refusal_of(strategy, needed - 1, num_rounds), why
            assert not refusal_of(strategy, needed, num_rounds), why
        tried.add(needed)
        if larger := re.search(r"With these users epsilon ([\d.]+\d)", told):
            other = replace(strategy, epsilon=float(larger[1]))
            assert not refusal_of(other, few, num_rounds), why
        if rounds := re.search(r"num_rounds=(\d+)", told):
            with_fewer = refusal_of(strategy, few, int(rounds[1]))
            assert not with_fewer or "q >" in str(with_fewer), why
    assert tried


def training():
    app = ClientApp(mods=[LdpUpdateMod(seed=1)])

    @app.train()
    def train(message, context):
        arrays = ArrayRecord([message.content["arrays"].to_numpy_ndarrays()[0] + 1])
        return Message(RecordDict({"arrays": arrays}), reply_to=message)

    return app


def test_a_share_of_the_nodes_is_counted_in_nodes():
    """One round asks half: twice as many nodes are needed as it asks, and are enough."""
    model = ArrayRecord([np.zeros(PARAMETERS)])
    strategy = LdpFedAvg(epsilon=8.0, fraction_train=0.5)

    def start(nodes):
        grid = InProcessGrid(training(), nodes)
        return strategy.start(grid, model, num_rounds=1, num_nodes=nodes, seed=1)

    with pytest.raises(
        TooFewReports, match=r"^30 users .* fraction_train asks 15 of them"
    ) as refused:
        start(30)
    needed = refused.value.needed
    with pytest.raises(TooFewReports, match=f"At least {needed} users are needed"):
        start(needed - 1)
    assert needed % 2 == 0 and start(needed).num_reports == needed // 2


def test_a_run_is_refused_with_the_number_that_its_plan_names():
    strategy = Counts(NUMBER, "sort", epsilon=0.5)
    with pytest.raises(WouldRefuse) as planned:
        expectation(strategy, Setting(num_users=60))
    users = NUMBER.users({"x": np.zeros(60), "sort": ["a"] * 60, "kind": ["p"] * 60, "y": [0] * 60})
    with pytest.raises(TooFewReports) as run:
        simulate(strategy, users, seed=0)
    assert str(planned.value) == str(run.value)
    assert run.value.needed is not None and planned.value.refusal == run.value.refusal


def test_cohorts_that_are_too_small_name_what_would_do():
    x = np.ones((25, 4))
    with pytest.raises(
        TooFewReports, match=r"for the cohorts of LdpIht: .*\. At least 44 users are"
    ):
        simulate(LdpIht(4, epsilon=4.0, samples_per_user=5), Users.from_rows(x, x[:, 0]), seed=0)
