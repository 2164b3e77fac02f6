"""What a store recognises a run by, and that a run leaves its strategy as it was."""

import copy
import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid, Users, simulate, strategies
from ldp_flower.audit.runs import audited_runs
from ldp_flower.clients import LdpClientApp, LdpUpdateMod
from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.questions import RootCurvature
from ldp_flower.randomizers import RandomizedResponse
from ldp_flower.strategies import (
    Ask,
    LdpFedAvg,
    LdpStrategy,
    LinearResult,
    NonInteractiveIht,
    PeelingTransfer,
    PrivateEvaluation,
)
from ldp_flower.strategies.catalogue import PUBLIC
from ldp_flower.strategies.runtime.prints import printed, prints_of
from ldp_flower.strategies.runtime.run_store import RunStore

DIM = 1500


def make_users(num_users=400):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (num_users, DIM))
    return Users.from_rows(x, x[:, 700])


def start(strategy, users, *arguments, num_nodes=2, **more):
    app = LdpClientApp(
        lambda context: users.partition(context.node_config["partition-id"], num_nodes), seed=1
    )
    grid = InProcessGrid(app, num_nodes)
    return strategy.start(grid, *arguments, num_nodes=num_nodes, seed=1, timeout=30, **more)


def training_app():
    app = ClientApp(mods=[LdpUpdateMod(seed=1)])

    @app.train()
    def train(message, context):
        moved = [a + 1 for a in message.content["arrays"].to_numpy_ndarrays()]
        content = {"arrays": ArrayRecord(moved), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    return app


def model_on(feature):
    return np.eye(1, DIM, feature)[0]


def test_two_long_models_are_two_runs(tmp_path):
    users, store = make_users(), tmp_path / "run.db"
    right = start(PrivateEvaluation(model_on(700), epsilon=4.0), users, store=store)
    with pytest.raises(
        ValueError,
        match=r"Expected a store of PrivateEvaluation .* got one with coef = "
        r"float64 array of shape \(1500,\), SHA-256 \w{8}\.\.\., here float64 array",
    ):
        start(PrivateEvaluation(model_on(701), epsilon=4.0), users, store=store)
    again = start(PrivateEvaluation(model_on(700), epsilon=4), users, store=store)
    assert again.r2 == right.r2


def test_what_differs_is_named_and_nothing_else(tmp_path):
    users, store = make_users(), tmp_path / "run.db"
    given = {"sparsity": 2, "epsilon": 4.0}
    start(NonInteractiveIht(DIM, **given), users, store=store)
    with pytest.raises(ValueError) as told:
        start(NonInteractiveIht(DIM, **given, target_scale=3.0), users, store=store)
    assert str(told.value).endswith("got one with target_scale = None, here 3.0.")
    with pytest.raises(ValueError, match="max_users_per_node = 16777216, here 1000"):
        start(NonInteractiveIht(DIM, **given), users, store=store, max_users_per_node=1000)
    with pytest.raises(
        ValueError, match=r"store of SparseMean, got one of .*\.NonInteractiveIht\."
    ):
        start(strategies.SparseMean(DIM, epsilon=4.0), users, store=store)


def test_a_store_of_an_earlier_form_is_refused(tmp_path):
    with RunStore(tmp_path / "run.db").open() as store:
        store.put("protocol", "LdpIht {'dim': 1500}")
    with pytest.raises(ValueError, match="got one that another version of ldp-flower has written"):
        start(
            NonInteractiveIht(DIM, sparsity=2, epsilon=4.0), make_users(), store=tmp_path / "run.db"
        )


def test_covariances_of_one_shape_are_told_apart():
    one, other = np.eye(40), np.eye(40)
    other[7, 8] = other[8, 7] = 1e-12
    given = {"sparsity": 1, "epsilon": 1.0}
    prints = [
        prints_of(NonInteractiveIht(40, **given, covariance=c))["covariance"] for c in (one, other)
    ]
    assert prints[0] != prints[1]


def test_what_happens_to_an_argument_later_does_not_count(tmp_path):
    users, store, coef = make_users(), tmp_path / "run.db", model_on(700)
    strategy = PrivateEvaluation(coef, epsilon=4.0)
    coef[:] = 1.0
    start(strategy, users, store=store)
    start(PrivateEvaluation(model_on(700), epsilon=4.0), users, store=store)


def test_the_model_that_training_starts_from_is_part_of_a_run(tmp_path):
    def initial(feature):
        return ArrayRecord([np.eye(1, 1001, feature, dtype=np.float32)])

    def train(feature, store=tmp_path / "run.db"):
        strategy = LdpFedAvg(epsilon=4.0, force=True, min_reports=1)
        grid = InProcessGrid(training_app(), 4)
        return strategy.start(grid, initial(feature), 2, num_nodes=4, seed=1, store=store)

    first = train(500).model
    assert train(500).model.object_id == first.object_id
    with pytest.raises(ValueError, match="initial_arrays"):
        train(501)


@dataclass(kw_only=True, eq=False, repr=False)
class Mine(LdpStrategy):
    """A strategy with an argument of any kind, and another default of an inherited one."""

    thing: object = field(kw_only=False)
    epsilon: float = 1.0
    min_reports: int = 30

    def protocol(self, run):
        (everyone,) = run.cohorts([run.num_users])
        question = RootCurvature(np.ones(DIM), prior=1.0, log_range=1.0)
        answer = yield Ask(everyone, question, RandomizedResponse(1.0))
        return LinearResult(coef=np.array(answer.mean), std_error=np.array(answer.std_error))


def test_the_arguments_are_those_of_the_class_that_is_constructed():
    prints = prints_of(Mine(3))
    assert set(prints) == {"thing", "epsilon", "min_reports"}
    assert prints["min_reports"] == printed(30)
    for twin in (copy.deepcopy(Mine(3)), pickle.loads(pickle.dumps(Mine(3)))):
        assert prints_of(twin) == prints


class OfItsOwn(Mine):
    """A strategy with a constructor of its own, whose arguments nobody keeps."""

    def __init__(self, times):
        super().__init__(3)
        self.times = times


def test_a_constructor_that_is_no_dataclass_takes_no_store(tmp_path):
    assert start(OfItsOwn(1), make_users(100)).num_users == 100
    with pytest.raises(ValueError, match="Expected OfItsOwn to be a dataclass"):
        start(OfItsOwn(1), make_users(100), store=tmp_path / "run.db")


def test_an_argument_that_cannot_be_compared_takes_no_store(tmp_path):
    users = make_users(100)
    assert start(Mine(lambda: 1), users).num_users == 100
    with pytest.raises(ValueError, match="got thing: Cannot compare one function with another"):
        start(Mine(lambda: 1), users, store=tmp_path / "run.db")


SCHEMA = Schema({"a": Numeric(0, 1), "b": Categories(["x", "y"])}, "t", Numeric(0, 1))
OTHERS = [
    None,
    False,
    0,
    "0",
    "None",
    b"0",
    1,
    "1",
    2**70,
    2.0**70 + 2.0**20,
    0.1,
    float(np.float32(0.1)),
    np.nextafter(0.1, 1),
    np.inf,
    np.nan,
    "nan",
    [],
    [0],
    [[0]],
    [0, 0],
    ["a,b"],
    ["a", "b"],
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    {"a": {"b": 2}},
    {1, 2},
    np.zeros(0),
    np.zeros((0, 3)),
    np.zeros(2000),
    np.zeros(2000, np.float32),
    np.zeros((1000, 2)),
    np.eye(1, 2000, 1000)[0],
    np.arange(4).reshape(2, 2),
    np.arange(4).reshape(2, 2).T,
    np.array(["0"]),
    SCHEMA,
    Schema({"a": Numeric(0, 1), "b": Categories(["x", "z"])}, "t", Numeric(0, 1)),
    Schema({"b": Categories(["x", "y"]), "a": Numeric(0, 1)}, "t", Numeric(0, 1)),
    Schema({"a": Numeric(0, 2), "b": Categories(["x", "y"])}, "t", Numeric(0, 1)),
    ArrayRecord([np.zeros(3)]),
    ArrayRecord([np.ones(3)]),
]


def test_different_values_have_different_prints():
    hashes = [printed(value)[0] for value in OTHERS]
    assert len(set(hashes)) == len(OTHERS)
    for _, text in map(printed, OTHERS):
        assert len(text) < 100


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (2, 2.0),
        (0.5, np.float32(0.5)),
        (True, np.bool_(True)),
        ([1, 2.5], (1.0, 2.5)),
        (np.arange(9).reshape(3, 3), np.asfortranarray(np.arange(9).reshape(3, 3))),
        (SCHEMA, copy.deepcopy(SCHEMA)),
        ({1, 2, 3}, {3, 2, 1}),
    ],
)
def test_equal_values_have_one_print(one, same):
    assert printed(one)[0] == printed(same)[0]


def every_strategy():
    """Yield one short run of every strategy for data: the strategy and its users."""
    seen = set()
    for name, runs in audited_runs().items():
        for strategy, users in runs(4, 4.0):
            # A second run of a series is its next collection.
            if type(strategy) not in seen and name != "Series":
                seen.add(type(strategy))
                yield pytest.param(strategy, users, id=f"{name}-{type(strategy).__name__}")
    _, silo = next(PeelingTransfer.audit_runs(4, 4.0))
    given = {"sparsity": 1, "epsilon": 4.0, "delta": 1e-3, "num_steps": 1, "target_scale": 1.0}
    yield pytest.param(PeelingTransfer(4, **given), silo, id="PeelingTransfer")


def public(strategy):
    return {name: printed(v) for name, v in vars(strategy).items() if not name.startswith("_")}


@pytest.mark.parametrize(("strategy", "users"), list(every_strategy()))
def test_a_run_leaves_its_strategy_as_it_was(strategy, users):
    before = public(strategy)
    once = simulate(strategy, users, seed=3)
    assert public(strategy) == before
    again = simulate(strategy, users, seed=3)
    np.testing.assert_equal(again.to_dict(), once.to_dict())


def test_training_leaves_its_strategy_as_it_was():
    strategy = LdpFedAvg(epsilon=4.0, force=True, min_reports=1)
    before = public(strategy)
    models = []
    for _ in range(2):
        grid = InProcessGrid(training_app(), 4)
        found = strategy.start(grid, ArrayRecord([np.zeros(3)]), 2, num_nodes=4, seed=1)
        models.append(found.model.to_numpy_ndarrays()[0])
        assert public(strategy) == before
    np.testing.assert_array_equal(*models)


def test_all_strategies_are_among_those():
    exported = set(PUBLIC.values())
    classes = {c for c in exported if isinstance(c, type) and issubclass(c, LdpStrategy)}
    covered = {type(case.values[0]) for case in every_strategy()} | {LdpFedAvg, LdpStrategy}
    # Whose second run is its next collection, or which test_record_dp_sgd_runs starts twice.
    assert classes - covered == {strategies.Series, strategies.RecordDpSgd}
