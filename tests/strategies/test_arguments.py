"""Every argument of every strategy has an effect in every mode, or is refused by its name."""

import inspect
from dataclasses import fields, replace

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvgM

from ldp_flower import Categories, InProcessGrid, Numeric, Schema, Users, strategies
from ldp_flower.clients import LdpClientApp, LdpUpdateMod, NetworkClientApp, NetworkUsersApp
from ldp_flower.guarantee.training import digest
from ldp_flower.strategies import Counts, LdpStrategy, TooFewReports
from ldp_flower.strategies.catalogue import PUBLIC
from ldp_flower.strategies.models.record_dp_sgd import linear_network
from ldp_flower.strategies.runtime.prints import printed

DIM, NODES, ROUNDS = 6, 10, 8
SCHEMA = Schema({f"x{j}": Numeric(-4, 4) for j in range(1, DIM)}, "y", Numeric(-4, 4))

# What an argument is set to, unless a mode says otherwise: never its default or the mode's value.
OTHER = {
    "stop": lambda network: True,
    "local_steps": 7,  # refused without a network
    "local_learning_rate": 0.1,
    "epsilon": 3.0,
    "min_reports": 100_000,
    "sparsity": 1,
    "samples_per_user": 7,
    "radius": 0.05,
    "noise_scale": 3.0,
    "feature_variance": 0.5,
    "link": "logistic",
    "delta": 1e-3,
    "method": "paper",
    "covariance": 2 * np.eye(DIM),
    "target_scale": 0.7,
    "mechanism": "bit",
    "solver": "lasso",
    "label_bound": 0.5,
    "scale_share": 0.3,
    "feature_bound": 0.5,
    "projected_dim": 3,
    "l1_bound": 0.05,
    "target_bound": 0.5,
    "degree": 3,
    "num_features": 8,
    "length_scale": 0.5,
    "bound": 1.5,
    "spread": 0.3,
    "num_waves": 1,
    "selector": "marginal",
    "scale": 1.7,
    "num_steps": 6,
    "ridge": 0.5,
    "num_answers": 4,
    "synthetic_seed": 7,
    "row_bound": 0.5,
    "residual_bound": 0.3,
    "largest_moment": 0.5,
    "features": "public",
    "l1_radius": 3.0,
    "set_size": 2,
    "max_items": 2,
    "false_alarm": 0.9,
    "cutoff": "fdr",
    "backend": "tree",
    "levels": [0.4],
    "item": "most-frequent",
    "column": "kind",
    "columns": ["x", "y"],
    "row": "kind",
    "by": "flag",
    "coef": np.full(DIM, 0.3),
    "centre": 0.3,
    "model": "net",
    "clip": 0.5,
    "path_length": 3.0,
    "learning_rate": 0.1,
    "message_type": "train.other",
    "arrayrecord_key": "weights",
    "configrecord_key": "settings",
    "fraction_train": 0.04,
    "min_train_nodes": 100_000,
    "optimizer": FedAvgM(server_learning_rate=0.5),
    "collections": 4,
    "memoised": True,
    "assigned": True,
    "allocation": 0.4,
    "window": False,
}
# The size of the data, what lets a run start that is refused else or wait, where a run is kept, and
# what shows after weeks, and what is about models of several arrays or public metrics (tested on
# their own).
ELSEWHERE = {"dim", "domain_size", "schema", "force", "store", "season"} | {
    *("min_available_nodes", "min_nodes", "trainable", "train_metrics_aggr_fn", "network"),
    *("noise", "delta", "honest", "intervals"),  # tests/strategies/sums
    *("study", "study_key"),  # tests/strategies/runtime
}


def normal(num_users=400, rows=1, classes=False):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((num_users * rows, DIM))
    y = x[:, 0] - 0.5 * x[:, 3] + 0.5 * rng.standard_normal(len(x))
    return Users(x, (y > 0) * 1.0 if classes else y, np.arange(num_users + 1) * rows)


def centred_at_one():
    users = normal()
    users.features[:, 0] += 1.0
    return users


def misleading():
    """Return users one of whose features seems to explain what two others do."""
    users = normal(4000)
    x = users.features
    x[:, 1] = x[:, 0] - x[:, 3] + 0.6 * x[:, 1]
    y = x[:, 0] - x[:, 3] + 0.9 * x[:, 4] + 0.3 * users.targets
    return Users(x, y, np.arange(4001))


def normal_table(num_users):
    users = normal(num_users, 5)
    users.features[:, 0] = 1.0
    return users


def table():
    return normal_table(800)


OTHER_TABLE = {
    "schema": Schema(SCHEMA.columns, "y", Numeric(-4, 4, scale=3)),
    "rows_per_user": 9,
    "method": "two-stage",
}
OF_CLASSES = Schema(SCHEMA.columns, "y", Categories([0, 1]))
OTHER_CLASSES = Schema(
    {name: Numeric(-4, 4, centre=1) for name in SCHEMA.columns}, "y", Categories([0, 1])
)


def table_of_classes():
    users = table()
    return replace(users, targets=(users.targets > 0).astype(float))


ONE, MANY, CLASSES = normal(), normal(rows=5), normal(classes=True)
FEW = MANY[:60]
SILOS = normal(3, 200)
SILOS_OF_CLASSES = normal(3, 200, classes=True)
ITEMS = Users.from_items(np.arange(3000) % 7, np.arange(3000) // 2)

MIXED = Schema(
    {
        "x": Numeric(-2, 2),
        "y": Numeric(-1, 9),
        "sort": Categories([*"abc"]),
        "flag": Categories([0, 1]),
    },
    *("kind", Categories(["k", "l"])),
)
PEOPLE = MIXED.users(
    {
        "x": np.arange(3000) % 7 - 3,
        "y": np.arange(3000) % 10,
        "sort": np.array([*"abc"])[np.arange(3000) % 3],
        "flag": np.arange(3000) // 3 % 2,
        "kind": np.array([*"kl"])[np.arange(3000) // 5 % 2],
    }
)

MIXED_UP = {"schema": MIXED, "epsilon": 4.0}
SPARSE = {"dim": DIM, "sparsity": 2, "epsilon": 4.0}
DENSE = {"dim": DIM, "epsilon": 4.0}
GROUPED = {**DENSE, "samples_per_user": 5}
SILO = {**SPARSE, "delta": 1e-3}
COLUMN = {"schema": SCHEMA, "column": "x1"}

LINES = {"link": [0.0, 1.0]}
SQUARED = {"link": "identity"}
LOGISTIC = {"link": "logistic"}
BACK = {"link": "identity"}

#: Strategy, arguments, users, and what some arguments are set to here.
MODES = [
    ("LdpIht", SPARSE, ONE, {}),
    ("LdpIht", {**SPARSE, **LOGISTIC}, CLASSES, BACK),
    ("LdpIht", {**SPARSE, "link": "cosine"}, ONE, {}),
    # It only says whether there are several.
    ("LdpIht", GROUPED, MANY[:300], {"samples_per_user": 1}),
    ("LdpIht", {**GROUPED, "sparsity": 2}, MANY[:300], {"samples_per_user": 1}),
    ("NonInteractiveIht", SPARSE, ONE, {}),
    ("NonInteractiveIht", {**SPARSE, "covariance": 3 * np.eye(DIM)}, ONE, {}),
    ("NonInteractiveIht", {**SPARSE, "method": "paper", "delta": 1e-4}, ONE, {"method": "auto"}),
    ("LabelLdpIht", SPARSE, misleading(), {}),
    ("LabelLdpIht", {**SPARSE, "label_bound": 1.0}, misleading(), {}),
    ("LabelLdpIht", {**SPARSE, "delta": 1e-4}, misleading(), {}),
    ("LabelLdpIht", {**SPARSE, "mechanism": "bit"}, misleading(), {"mechanism": "hybrid"}),
    ("LabelLdpIht", {**SPARSE, "solver": "lasso"}, misleading(), {"solver": "iht"}),
    ("ConstrainedMean", DENSE, centred_at_one(), {}),
    ("ConstrainedMean", {**DENSE, "method": "paper"}, centred_at_one(), {"method": "auto"}),
    ("ConstrainedRegression", DENSE, ONE, {}),
    ("ConstrainedRegression", {**DENSE, "method": "paper"}, ONE, {"method": "auto"}),
    ("KernelRidgeRegression", DENSE, ONE, {}),
    ("KernelRidgeRegression", {**DENSE, "method": "paper"}, ONE, {"method": "auto"}),
    ("SmoothGlm", DENSE, CLASSES, LINES),
    ("SmoothGlm", {**DENSE, **LINES}, ONE, LOGISTIC),
    ("SmoothGlm", {**DENSE, "method": "paper"}, CLASSES, {"method": "auto", **LINES}),
    ("UserLevelMean", {**DENSE, "bound": 4.0}, MANY, {}),
    ("UserLevelMean", {**DENSE, "bound": 4.0, "spread": 1.0}, MANY, {}),
    (
        "UserLevelMean",
        {**GROUPED, "bound": 4.0, "method": "paper"},
        MANY,
        {"method": "auto", "samples_per_user": 99},
    ),
    ("SparseMean", DENSE, MANY, {}),
    ("SparseMean", {**DENSE, "scale": 1.0}, MANY, {}),
    ("SparseRegression", GROUPED, MANY, {}),
    ("SparseRegression", {**GROUPED, "samples_per_user": 20}, MANY, {}),
    ("SparseRegression", {**GROUPED, **LOGISTIC, "samples_per_user": 20}, CLASSES, BACK),
    *(
        ("TwoRoundRegression", {**GROUPED, "sparsity": 2, **mode}, MANY, other)
        for mode, other in (
            ({}, {}),
            ({"samples_per_user": 20}, {}),
            ({"method": "paper"}, {"method": "auto"}),
        )
    ),
    *(
        ("MultiRoundRegression", {**GROUPED, "sparsity": 2, **mode}, MANY, {"method": "auto"})
        for mode in ({}, {"samples_per_user": 20})
    ),
    ("KnowledgeTransfer", {**SPARSE, "radius": 2.0}, FEW[:30], {}),
    ("KnowledgeTransfer", {**SPARSE, "radius": 2.0, "num_answers": 6}, FEW[:30], {}),
    ("KnowledgeTransfer", {**SPARSE, "radius": 2.0, **LOGISTIC}, CLASSES[:30], BACK),
    ("DpIht", {**SILO, "num_steps": 3}, SILOS_OF_CLASSES, {**BACK, "delta": 1e-4}),
    (
        "DpIht",
        {**SILO, **SQUARED, "residual_bound": 2.0, "num_steps": 3},
        SILOS,
        {"delta": 1e-4},
    ),
    *(
        (name, {**SILO, **bound, **mode}, users, {"delta": 1e-4, **other})
        for name, bound in (
            ("PeelingDpIht", {}),
            ("PeelingTransfer", {}),
            ("PrivateFrankWolfe", {"l1_radius": 2.0}),
        )
        for mode, users, other in (
            ({"target_scale": 1.0}, SILOS, {}),
            (LOGISTIC, SILOS_OF_CLASSES, BACK),
        )
    ),
    ("HeavyHitters", {"domain_size": 64, "epsilon": 4.0}, ITEMS, {}),
    *(
        ("HeavyHitters", {"domain_size": 64, "epsilon": 4.0, "backend": name}, ITEMS, other)
        for name, other in (
            ("direct", {}),
            ("prefix", {}),
            ("tree", {"backend": "prefix", "max_items": 1}),
        )
    ),
    ("HeavyHitters", {"domain_size": 64, "epsilon": 4.0, "set_size": 2}, ITEMS, {"set_size": 3}),
    ("PrivateRegression", {"schema": SCHEMA, "epsilon": 4.0}, table(), OTHER_TABLE),
    (
        "PrivateRegression",
        {"schema": SCHEMA, "epsilon": 4.0, "features": "public"},
        table(),
        OTHER_TABLE | {"features": "private"},
    ),
    (
        "PrivateRegression",
        {"schema": SCHEMA, "epsilon": 4.0, "rows_per_user": 5, "method": "two-stage"},
        normal_table(4000),
        OTHER_TABLE | {"method": "one-stage"},
    ),
    (
        "Quantiles",
        {**COLUMN, "levels": [0.3, 0.5], "epsilon": 4.0},
        table(),
        {"column": "x2", "by": "x2"},
    ),
    (
        "Quantiles",
        {**MIXED_UP, "column": "x", "levels": [0.5], "by": "flag"},
        PEOPLE,
        {"column": "y", "by": "kind"},
    ),
    ("Distribution", {**COLUMN, "epsilon": 4.0}, table(), {"column": "x2", "by": "x2"}),
    (
        "Distribution",
        {**MIXED_UP, "column": "x", "by": "flag"},
        PEOPLE,
        {"column": "y", "by": "kind"},
    ),
    ("Correlation", {**MIXED_UP, "columns": ["x", "y"]}, PEOPLE, {"columns": ["y", "x"]}),
    ("Counts", {**MIXED_UP, "column": "sort"}, PEOPLE, {}),
    ("Means", {**MIXED_UP, "columns": "x"}, PEOPLE, {"columns": "y"}),
    ("Means", {**MIXED_UP, "columns": "x", "by": "sort"}, PEOPLE, {"by": "kind"}),
    (
        "Difference",
        {**MIXED_UP, "column": "x", "by": "flag"},
        PEOPLE,
        {"column": "y", "by": "kind"},
    ),
    (
        "Difference",
        {**MIXED_UP, "column": "x", "by": "flag", "assigned": True},
        PEOPLE,
        {"column": "y", "by": "kind", "assigned": False},
    ),
    ("TwoWay", {**MIXED_UP, "row": "sort", "column": "flag"}, PEOPLE, {"cells": 3}),
    ("TwoWay", {**MIXED_UP, "row": "x", "column": "flag", "cells": 3}, PEOPLE, {"cells": 4}),
    ("Describe", {**MIXED_UP, "columns": ["sort"]}, PEOPLE, {"columns": ["x"]}),
    ("Synthesize", {**MIXED_UP, "columns": ["sort", "flag"]}, PEOPLE, {"columns": ["flag", "y"]}),
    (
        "PrivateClassification",
        {"schema": OF_CLASSES, "epsilon": 4.0, "rows_per_user": 5, "method": "directions"},
        table_of_classes(),
        {"schema": OTHER_CLASSES, "rows_per_user": 9, "method": "lengths"},
    ),
    ("PrivateEvaluation", {"coef": np.eye(DIM)[0], "epsilon": 4.0}, MANY, {"metric": "loss"}),
    (
        "PrivateEvaluation",
        {"coef": linear_network(DIM), "epsilon": 4.0},
        MANY,
        {"metric": "accuracy"},
    ),
    (
        "Series",
        {"strategy": Counts(MIXED, "sort", epsilon=4.0), "collections": 3},
        PEOPLE,
        {"strategy": Counts(MIXED, "flag", epsilon=4.0)},
    ),
    ("LdpFedAvg", {"epsilon": 4.0}, None, {}),
    ("LdpFedAvg", {"epsilon": 4.0, "sparsity": 2}, None, {}),
    ("LdpFedAvg", {"epsilon": 4.0, "model": "net"}, None, {"model": "linear"}),
    (
        "RecordDpSgd",
        {"network": linear_network(DIM), "epsilon": 4.0, "delta": 1e-4, "num_rounds": 2},
        lambda context: records_of(SILOS),
        {
            "num_rounds": 3,
            "steps": 4,
            "unit": "user",
            "sampling_rate": 0.5,
            "records_per_user": 3,
            "max_grad_norm": 2.0,
            "optimizer": "adam",
            "learning_rate": 0.2,
        },
    ),
]


def records_of(users):
    """Return the records of a silo that trains, their targets, and their owners."""
    records = users.features.astype(np.float32), users.targets.astype(np.float32)
    return *records, np.arange(len(records[1])) // 2


class Recording(InProcessGrid):
    """A grid that keeps the hash of all that it is asked."""

    def __init__(self, app, num_nodes):
        super().__init__(app, num_nodes)
        self.asked = []

    def _handle(self, message):
        self.asked.append((message.metadata.message_type, digest(message.content)))
        return super()._handle(message)


def training_app():
    """Return an app whose update is always the same direction."""
    app = ClientApp()

    @app.train(mods=[LdpUpdateMod(seed=1)])
    def train(message, context):
        (weights,) = message.content["arrays"].to_numpy_ndarrays()
        content = RecordDict({"arrays": ArrayRecord([weights + np.arange(DIM)])})
        return Message(content, reply_to=message)

    return app


def recorded(strategy, users):
    """Return what is asked in a run, and what it comes to."""
    if users is None:
        grid = Recording(training_app(), NODES)
        arguments = {
            "initial_arrays": ArrayRecord([np.zeros(DIM)]),
            "num_nodes": NODES,
            "num_rounds": ROUNDS,
        }
    else:
        train = NetworkClientApp(users, seed=1) if callable(users) else None
        answer = LdpClientApp if getattr(strategy, "network", None) is None else NetworkUsersApp
        app = train or answer(lambda context: users, seed=1)
        grid, arguments = Recording(app, 1), {}
    try:
        result = strategy.start(grid, timeout=1, seed=1, **{"num_nodes": 1, **arguments})
    except TooFewReports as error:
        return grid.asked, str(error)
    model = (
        None if result.arrays is None else [a.tobytes() for a in result.arrays.to_numpy_ndarrays()]
    )
    return grid.asked, model, printed(result.to_dict())[0]


def title(mode):
    name, arguments, _, _ = mode
    told = (
        f"{k}={v}" for k, v in arguments.items() if isinstance(v, str) or k in ("spread", "scale")
    )
    return " ".join([name, *told])


def test_every_strategy_has_its_modes():
    classes = {name for name, each in PUBLIC.items() if is_strategy(each)}
    assert classes - {"LdpStrategy"} == {name for name, *_ in MODES}


def is_strategy(kind):
    return inspect.isclass(kind) and issubclass(kind, LdpStrategy)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES, ids=title)
def test_an_argument_has_an_effect_or_is_refused(mode):
    name, arguments, users, other = mode
    kind = getattr(strategies, name)

    def build(**changed):
        merged = {**arguments, **changed}
        places = [f.name for f in fields(kind) if f.init and not f.kw_only]
        first = [merged.pop(name) for name in places if name in merged]
        few = {each.name: 1 for each in fields(kind) if each.init and each.name == "min_reports"}
        return kind(*first, **{**few, **merged})

    usual = recorded(build(), users)
    assert recorded(build(), users) == usual
    ignored = []
    for argument in fields(kind):
        if argument.name in ELSEWHERE or not argument.init:
            continue
        value = {**OTHER, **other}[argument.name]
        assert not np.array_equal(value, arguments.get(argument.name, argument.default))
        try:
            strategy = build(**{argument.name: value})
        except ValueError as error:
            assert argument.name in str(error), error
            continue
        if recorded(strategy, users) == usual:
            ignored.append(argument.name)
    assert not ignored
