"""Nodes that are lost while a run goes on: it ends with an estimate, or can be started again."""

import re
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import Error, Message
from scipy.stats import chi2

from ldp_flower import InProcessGrid, Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.strategies import (
    Counts,
    Describe,
    Distribution,
    HeavyHitters,
    Means,
    PrivateClassification,
    PrivateEvaluation,
    PrivateRegression,
    Quantiles,
    Synthesize,
    TooFewReports,
    TwoWay,
)
from ldp_flower.strategies.catalogue import PROTOCOLS
from ldp_flower.strategies.runtime.run_store import RunStore

NODES, USERS = 10, 2000
COLUMNS = {"x": Numeric(-1, 1), "sort": Categories(["a", "b", "c"]), "kind": Categories(["p", "q"])}
NUMBER = Schema(COLUMNS, "y", Numeric(-2, 2))
CLASSES = Schema(COLUMNS, "class", Categories(["no", "yes"]))


class DyingGrid(InProcessGrid):
    """A grid of whose nodes some are silent, or fail, from a step on."""

    def __init__(self, users, dead=(), step=1, num_nodes=NODES, seed=0):
        def load(context):
            return users.partition(int(context.node_config["partition-id"]), num_nodes)

        super().__init__(LdpClientApp(load, seed=seed), num_nodes)
        self.dead, self.step = dead, step

    def _handle(self, message):
        number = message.metadata.group_id
        if number and int(number) >= self.step and message.metadata.dst_node_id in self.dead:
            failed = Message(Error(5, "Node Unavailable"), reply_to=message)
            return failed if message.metadata.dst_node_id % 2 else None
        return super()._handle(message)


def started(strategy, grid, seed=0, **arguments):
    # Replies are there at once or never.
    return strategy.start(grid, timeout=0.0, num_nodes=len(grid.contexts), seed=seed, **arguments)


def table(seed=0, users=USERS):
    rng = np.random.default_rng([seed, 7])
    x, sort = rng.uniform(-1, 1, users), rng.choice(3, users, p=[0.6, 0.3, 0.1])
    kind = np.where(rng.random(users) < 0.3 + 0.4 * (sort == 0), 0, 1)
    y = np.clip(x + (sort == 0) - 0.5 + rng.normal(0, 0.3, users), -2, 2)
    return {
        "x": x,
        "sort": np.array(list("abc"))[sort],
        "kind": np.array(list("pq"))[kind],
        "y": y,
        "class": np.where(y > 0, "yes", "no"),
    }


TABLE = table()
ANALYTICS_AND_TABLES = {
    "Means": Means(NUMBER, ["x", "y"], epsilon=1.0),
    "Means by groups": Means(NUMBER, "y", by="sort", epsilon=2.0),
    "Counts": Counts(NUMBER, "sort", epsilon=1.0),
    "TwoWay": TwoWay(NUMBER, "sort", "kind", epsilon=2.0),
    "Quantiles": Quantiles(NUMBER, "y", [0.25, 0.5], epsilon=1.0),
    "Distribution": Distribution(NUMBER, "y", epsilon=1.0),
    "HeavyHitters": HeavyHitters(6, epsilon=1.0),
    "HeavyHitters of prefixes": HeavyHitters(6, epsilon=1.0, backend="prefix"),
    "Describe": Describe(NUMBER, epsilon=4.0),
    "PrivateRegression": PrivateRegression(NUMBER, epsilon=2.0, method="one-stage"),
    "PrivateRegression of two stages": PrivateRegression(NUMBER, epsilon=8.0, method="two-stage"),
    "PrivateClassification": PrivateClassification(CLASSES, epsilon=2.0),
    "Synthesize": Synthesize(NUMBER, ["x", "kind"], epsilon=4.0),
    "Synthesize at nodes": Synthesize(NUMBER, ["x", "kind", "y"], epsilon=4.0, noise="node"),
    "Means at nodes": Means(NUMBER, "y", by="sort", epsilon=2.0, noise="node"),
    "TwoWay at nodes": TwoWay(NUMBER, "sort", "kind", epsilon=2.0, noise="node"),
    "Distribution at nodes": Distribution(NUMBER, "y", epsilon=2.0, noise="node"),
    "Describe at nodes": Describe(NUMBER, epsilon=8.0, noise="node"),
    "PrivateRegression at nodes": PrivateRegression(NUMBER, epsilon=2.0, noise="node"),
    "PrivateClassification at nodes": PrivateClassification(CLASSES, epsilon=2.0, noise="node"),
    "PrivateEvaluation": PrivateEvaluation(np.full(NUMBER.num_features, 0.3), epsilon=2.0),
}
protocols = pytest.mark.parametrize("name", ANALYTICS_AND_TABLES)
# Both fit tables by many steps, as PrivateRegression does.
LONG_RUNS = {
    "PrivateRegression of two stages",
    "PrivateClassification",
    "PrivateClassification at nodes",
}
some_protocols = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LONG_RUNS else name
        for name in ANALYTICS_AND_TABLES
    ],
)


def users_of(strategy):
    if isinstance(strategy, HeavyHitters):
        return Users.from_items(np.searchsorted(list("abc"), TABLE["sort"]))
    schema = CLASSES if isinstance(strategy, PrivateClassification) else NUMBER
    return schema.users({name: TABLE[name] for name in (*schema.columns, schema.target)})


def triples(name, step):
    """Return three nodes to lose, others at every step."""
    rng = np.random.default_rng([len(name), step])
    return set((1 + rng.choice(NODES, 3, replace=False)).tolist())


def survives(name, step):
    strategy = ANALYTICS_AND_TABLES[name]
    result = started(strategy, DyingGrid(users_of(strategy), triples(name, step), step))
    assert not result.ended_early and result.arrays is not None
    for array in result.arrays.to_numpy_ndarrays():
        assert np.isfinite(array).any()
    return result


@some_protocols
def test_a_run_ends_with_an_estimate_whichever_three_of_ten_nodes_it_loses(name):
    steps = len(survives(name, 1).steps) - 1  # lost before the first question
    survives(name, steps // 2 + 1)


@pytest.mark.long
@protocols
def test_a_run_ends_with_an_estimate_at_whichever_step_it_loses_them(name):
    steps = len(survives(name, 1).steps) - 1
    for step in range(2, steps + 1):
        survives(name, step)


def test_an_error_that_the_superlink_made_is_of_the_node_that_was_asked(tmp_path):
    superlink = 99

    class Lost(DyingGrid):
        def _handle(self, message):
            reply = super()._handle(message)
            if reply is not None and reply.has_error():
                reply.metadata.__dict__["_src_node_id"] = superlink  # it has no setter
            return reply

    strategy = ANALYTICS_AND_TABLES["Means"]
    path = tmp_path / "run.db"
    found = started(strategy, Lost(users_of(strategy), dead=(3,)), store=path)
    assert {step.errors for step in found.steps[1:]} == {1}
    with RunStore(path).open() as store:
        stored = {node for step in range(1, len(found.steps)) for node in store.replies(step)}
    assert 3 in stored and superlink not in stored


def test_one_lost_site_of_three_does_not_destroy_a_run():
    """Of 1,800 users on three nodes 600 are lost at step 34, where cohorts have some 30 users."""
    strategy = PrivateClassification(CLASSES, epsilon=2.0)
    result = started(strategy, DyingGrid(users_of(strategy)[:1800], {2}, 34, num_nodes=3))
    assert not result.ended_early
    short = [step for step in result.steps[1:] if step.reports < strategy.min_reports]
    assert {step.asked for step in short} <= set(range(20, 80)) and len(short) > 3
    assert any(f"{len(short)} of " in note and "than 20 reports" in note for note in result.notes)
    assert np.isfinite([result.score, result.score_std_error]).all()


def z_scores(seed):
    held = table(seed)
    users = NUMBER.users({name: held[name] for name in (*NUMBER.columns, "y")})
    dead = set((1 + np.random.default_rng(seed).choice(NODES, 3, replace=False)).tolist())
    grid = [DyingGrid(users, dead, 1 + seed % 2, seed=seed) for _ in range(3)]
    means = started(Means(NUMBER, ["x", "y"], epsilon=1.0), grid[0], seed)
    shares = started(Counts(NUMBER, "sort", epsilon=1.0), grid[1], seed)
    cells = started(TwoWay(NUMBER, "sort", "kind", epsilon=1.0), grid[2], seed)
    # Of the population, of which users who are lost at random leave a sample.
    truth = np.array([0.0, 0.1])
    joint = np.array([[0.42, 0.18], [0.09, 0.21], [0.03, 0.07]])
    return np.concatenate(
        [
            (means.means[:, 0] - truth)[:1] / means.std_error[:1, 0],
            ((shares.shares - [0.6, 0.3, 0.1]) / shares.std_error)[:2],
            ((cells.shares - joint) / cells.std_error).ravel()[:5],
        ]
    )


@pytest.mark.slow
def test_errors_are_as_stated_where_nodes_are_lost():
    """Eight numbers of 24 runs each; for standard normal ones this fails in 1 of 1,000 cases."""
    z = np.array([z_scores(seed) for seed in range(24)])
    squares = (z**2).mean(axis=0)
    low, high = chi2.ppf([0.0005 / 8, 1 - 0.0005 / 8], len(z)) / len(z)
    assert (low < squares).all() and (squares < high).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["PrivateRegression", pytest.param("PrivateClassification", marks=pytest.mark.slow)]
)
def test_a_step_that_nobody_answers_gives_its_question_to_the_next_cohort(name):
    strategy = ANALYTICS_AND_TABLES[name]

    class Away(DyingGrid):
        """All nodes are away for one step of the fit."""

        def _handle(self, message):
            away = message.metadata.group_id == "10"
            return None if away else super()._handle(message)

    users = users_of(strategy)
    result, whole = (started(strategy, kind(users)) for kind in (Away, DyingGrid))
    assert [step.number for step in result.steps if not step.reports] == [10]
    assert not result.ended_early and len(result.steps) == len(whole.steps)
    assert result.num_reports == USERS - result.steps[10].asked


def test_one_wave_of_two_tells_shares_with_its_own_error():
    strategy = Counts(NUMBER, "kind", epsilon=0.5)
    users = users_of(strategy)
    whole = started(strategy, DyingGrid(users))
    assert len(whole.steps) == 3
    first = started(strategy, DyingGrid(users, set(range(1, NODES + 1)), 2))
    assert first.ended_early and (first.std_error > whole.std_error).all()
    assert (np.abs(first.shares - [0.46, 0.54]) < 4 * first.std_error).all()


SPENT = re.compile(r"([\d,]+) users have spent budget\. Their reports are kept in .*run\.db")
# Those that have an estimate before their last step; the others begin with it or are started again.
ESTIMATES = {
    *("LdpIht", "SparseRegression", "SparseMean", "UserLevelMean", "MultiRoundRegression"),
    *("TwoRoundRegression", "DpIht", "KnowledgeTransfer", "PeelingDpIht", "PrivateFrankWolfe"),
    *("PrivateEvaluation", "PeelingTransfer", "Quantiles", "Counts"),
    *("TwoWay", "Means", "Describe", "Difference", "Synthesize", "LabelLdpIht"),
}
# A series has its own store, and tests of its own.
NAMES = [name for name in PROTOCOLS if name not in ("LdpFedAvg", "RecordDpSgd", "Series")]


def undisturbed(strategy, users, num_nodes=4):
    return started(strategy, DyingGrid(users, num_nodes=num_nodes))


def everybody_dies(strategy, users, step, store, whole, num_nodes=4):
    """Lose all nodes at a step; return whether there was an estimate.

    The nodes come back: nobody is asked twice, and the run ends as the whole one did.
    """
    grid = DyingGrid(users, set(range(1, num_nodes + 1)), step, num_nodes)
    try:
        result = started(strategy, grid, store=store)
    except TooFewReports as error:
        told, estimated = str(error), False
    else:
        told, estimated = " ".join(result.notes), True
        assert result.ended_early and "The run ended early" in told
        for array in result.arrays.to_numpy_ndarrays():
            assert np.isfinite(array).any()
    if step > 1:
        assert int(SPENT.search(told)[1].replace(",", "")) > 0
    again = started(strategy, DyingGrid(users, num_nodes=num_nodes), store=store)
    assert not again.ended_early
    assert again.num_reports == whole.num_reports
    for ours, theirs in zip(
        again.arrays.to_numpy_ndarrays(), whole.arrays.to_numpy_ndarrays(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    return estimated


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_cannot_go_on_has_an_estimate_or_can_be_started_again(name, tmp_path):
    strategy, users = next(PROTOCOLS[name].audit_runs(4, 2.0))
    if hasattr(strategy, "num_steps"):  # the audit's plans for silos have one step
        strategy = replace(strategy, num_steps=3)
    whole = undisturbed(strategy, users)
    steps = len(whole.steps) - 1
    estimated = everybody_dies(strategy, users, 1, tmp_path / "1-run.db", whole)
    assert not estimated
    if steps > 1:
        estimated = everybody_dies(strategy, users, steps, tmp_path / "last-run.db", whole)
    told = "belongs" if estimated else "does not belong"
    assert estimated == (name in ESTIMATES), f"{name} {told} in ESTIMATES"


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_whenever_that_is_and_in_all_variants(name, tmp_path):
    for number, (strategy, users) in enumerate(PROTOCOLS[name].audit_runs(4, 2.0)):
        whole = undisturbed(strategy, users)
        for step in range(1, len(whole.steps)):
            everybody_dies(strategy, users, step, tmp_path / f"{number}-{step}-run.db", whole)
