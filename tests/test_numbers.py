"""Every number that enters a public object is Python's own, whatever NumPy type it came in.

Numbers of a few bytes overflow and round: the bounds of a column, as int8, have another distance.
What is public is discovered, and each of its numbers tried, so that nothing new is forgotten.
"""

import importlib
import inspect
import runpy
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Annotated, Union, get_args, get_origin
from unittest.mock import patch

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import (
    Categories,
    InProcessGrid,
    Numeric,
    Schema,
    Users,
    accounting,
    questions,
    randomizers,
    simulate,
    strategies,
)
from ldp_flower.accounting import GaussianEvent, RandomizedResponseEvent
from ldp_flower.audit import audit_handler, extreme_users, recorded_queries
from ldp_flower.clients import LdpClientApp
from ldp_flower.compare import compare
from ldp_flower.compare.sweep import sweep
from ldp_flower.models import Limits, Network, personal_head
from ldp_flower.monitoring import PrometheusExport
from ldp_flower.planning import Setting
from ldp_flower.questions import Mean, NetworkGradient, NetworkScore, slots
from ldp_flower.strategies import Cohort, Counts, Describe, Distribution, Means, Quantiles
from ldp_flower.strategies.catalogue import PUBLIC
from ldp_flower.strategies.runtime.result import Result

HERE = Path(__file__).parent
ROOT = HERE.parent
MODES = runpy.run_path(str(HERE / "strategies/test_arguments.py"))["MODES"]
ASKED = runpy.run_path(str(HERE / "ldp_flower/questions/test_questions.py"))
QUESTIONS = [
    *(question for question, *_ in ASKED["WIRED"] + ASKED["COLUMNS"]),
    NetworkGradient(np.zeros(1, np.uint8), np.zeros(1), 0.5, 0.1),
    NetworkScore(np.zeros(1, np.uint8), np.zeros(1), 0.5),
]

SCALARS = [np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float32, np.longdouble]
KINDS = [*SCALARS, *(partial(np.array, dtype=kind) for kind in SCALARS)]
FEW = [np.int8, np.float32, partial(np.array, dtype=np.int32)]  # where a call takes long
ENDS = [np.int64(-(2**63)), np.int64(2**63 - 1), np.uint64(2**63), np.uint64(2**64 - 1)]
HUGE = [10**400, 10**5000]
NO_NUMBERS = [True, np.True_, np.timedelta64(5, "ns"), 1j]

# ----------------------------------------------------------------------- what is public


@cache
def public():
    """Return what is public, by its name: strategies, questions, and each module's ``__all__``."""
    found = {name: each for name, each in vars(questions).items() if is_question(each)}
    found |= {name: each for name, each in PUBLIC.items() if inspect.isclass(each)}
    for folder in ("ldp_flower", "clients", "strategies"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "__all__ = [" not in path.read_text("utf-8"):
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            name = ".".join(parts if folder == "ldp_flower" else ("ldp_flower", *parts))
            module = importlib.import_module(name)
            for each in module.__all__:
                value = getattr(module, each)
                if inspect.isclass(value) or inspect.isfunction(value):
                    assert found.setdefault(each, value) is value, each
    return found


def is_question(each):
    return inspect.isclass(each) and issubclass(each, questions.Question)


def options(kind):
    if get_origin(kind) is Annotated:
        return options(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [option for each in get_args(kind) for option in options(each)]
    return [kind]


def is_number(kind):
    return bool({int, float} & {option for option in options(kind) if isinstance(option, type)})


def numbers_of(door):
    """Return the arguments that are numbers, or sequences of them, with their annotations."""
    try:
        known = inspect.signature(door).parameters.values()
    except (TypeError, ValueError):
        return {}
    found = {}
    for parameter in known:
        kinds = options(parameter.annotation)
        members = [
            get_args(each)[0]
            for each in kinds
            if get_origin(each) in (list, tuple, Sequence, Iterable) and get_args(each)
        ]
        if any(is_number(kind) for kind in (*kinds, *members)):
            found[parameter.name] = parameter.annotation
    return found


# ------------------------------------------------------------------- how it is called

SCHEMA = Schema({"x": Numeric(0, 1)}, "kind", Categories([*"abc"]))
PEOPLE = SCHEMA.users(
    {"x": np.arange(1000) % 7 / 7, "kind": np.array([*"abc"])[np.arange(1000) % 3]}
)
COUNTS = Counts(SCHEMA, "kind", epsilon=4.0)


def loaded(context):
    return PEOPLE


def started(**arguments):
    return COUNTS.start(InProcessGrid(LdpClientApp(loaded, seed=1), 1), **arguments)


def one_query(epsilon=2.0):
    strategy = strategies.LdpIht(3, sparsity=1, epsilon=epsilon)
    users = Users.from_rows(np.ones((2000, 3)), np.ones(2000))
    return recorded_queries(strategy, users)[-1]


def of_query(**arguments):
    return audit_handler(one_query(), extreme_users(3), **arguments)


def tiny_app():
    app = ClientApp()

    @app.train()
    def train(message, context):
        content = RecordDict(
            {"arrays": ArrayRecord([np.ones(2)]), "metrics": MetricRecord({"num-examples": 1})}
        )
        return Message(content, reply_to=message)

    return app


def judged(number, arrays):
    (weights,) = arrays.to_numpy_ndarrays()
    return MetricRecord({"accuracy": float(weights[0])})


def compared(**arguments):
    merged = {"epsilons": [4.0], "seeds": 1, "rounds": 1, "methods": ["FedAvg"], **arguments}
    found = compare(tiny_app(), ArrayRecord([np.zeros(2)]), judged, **{"num_nodes": 30, **merged})
    for cell in found.cells:
        cell["seconds"] = 0.0  # by the clock
    return found


def swept(tmp_path, **arguments):
    for file in tmp_path.iterdir():
        file.unlink()
    return sweep(square, {"x": [1]}, path=tmp_path / "found.csv", **arguments)


def square(x, seed):
    return {"y": x**2}


@cache
def linear_network():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return Network.export(torch.nn.Linear(2, 1), np.zeros(2, np.float32), "mse")


def over_silos(**arguments):
    return strategies.RecordDpSgd(linear_network(), **arguments)


def own_head(**arguments):
    return personal_head(linear_network(), np.ones((3, 2)), np.ones(3), **arguments)


def served(**arguments):
    """Return an export of which the server is not started."""
    pytest.importorskip("prometheus_client")

    def start(port, address, registry):
        return SimpleNamespace(server_port=port), None

    with patch("prometheus_client.start_http_server", start):
        return PrometheusExport(**arguments)


EPSILON_DIM = {"epsilon": 2.0, "dim": 32}
RECORDS = {"epsilon": 2.0, "dim": 3, "radius": 1.0, "delta": 1e-5, "steps": 2}
ITEMS = {"epsilon": 2.0, "domain_size": 64}

#: What is called with which arguments, each of whose numbers is tried.
CALLS = {
    "Numeric": [
        {"low": -100.0, "high": 100.0, "centre": 2.0, "scale": 100.0},
        {"low": 0.0, "high": 200.0},
    ],
    "PrivacyPolicy": [
        {
            "max_epsilon": 100.0,
            "max_rows": 3,
            "num_records": 100,
            "min_epsilon": 0.5,
            "max_width": 100,
            "reply_after": 2.0,
            "period": "30d",
            "lifetime_epsilon": 200.0,
        },
        {"max_epsilon": 2.0, "max_delta": 0.5},
    ],
    "GeneratedUsers": [{"num_users": 100, "num_features": 3, "generate": len, "first": 100}],
    "InProcessGrid": [{"client_app": ClientApp(), "num_nodes": 3}],
    "Users": [
        {"features": np.ones((2, 1)), "targets": np.ones(2), "offsets": np.arange(3), "first": 5}
    ],
    "assigned_arms": [{"experiment": "a", "numbers": np.arange(100), "allocation": 0.5}],
    "hash_items": [{"strings": ["a", "b"], "num_bits": 30}],
    "plan": [
        {"protocol": Means, "num_users": 100, "epsilon": 2.0, "target": 0.1},
        {"protocol": COUNTS, "num_users": 100},
    ],
    "simulate": [
        {"strategy": COUNTS, "users": PEOPLE, "seed": 100, "num_nodes": 3},
        {"strategy": COUNTS, "users": PEOPLE.take, "num_users": 100, "seed": 1},
    ],
    "Setting": [
        {
            "num_users": 100,
            "rows_per_user": 100.0,
            "num_features": 100,
            "quality": 0.5,
            "variance_between": 0.5,
        }
    ],
    "Expectation": [
        {
            "error": "error",
            "value": 100.0,
            "low": 50.0,
            "high": 200.0,
            "rounds": 100,
            "randomizers": (randomizers.RandomizedResponse(1.0),),
        }
    ],
    "expectation": [{"strategy": COUNTS, "setting": Setting(num_users=1000), "runs": 3}],
    "GaussianEvent": [{"mu": 100.0, "count": 2}],
    "RandomizedResponseEvent": [{"epsilon": 2.0, "count": 100}],
    "dp_fedavg": [{"epsilon": 2.0, "delta": 1e-5, "rounds": 100, "clip": 100.0, "num_nodes": 100}],
    "flower_epsilon": [{"noise_multiplier": 2.0, "delta": 1e-5, "releases": 100, "num_nodes": 100}],
    "gaussian_delta": [{"epsilon": 100.0, "mu": 100.0}],
    "gaussian_epsilon": [{"mu": 100.0, "delta": 0.5}],
    "gaussian_mu": [{"epsilon": 100.0, "delta": 0.5}],
    "gaussian_noise_multiplier": [{"epsilon": 2.0, "delta": 1e-5, "releases": 100}],
    "local_dp_mod": [{"epsilon": 2.0, "delta": 1e-5, "clip": 100.0, "answers": 100}],
    "local_dp_multiplier": [{"epsilon": 100.0, "delta": 0.5}],
    "noise_multiplier_epsilon": [{"noise_multipliers": [100.0, 2.0, 3.0], "delta": 1e-5}],
    "total_epsilon": [
        {"events": [GaussianEvent(100.0, 2), RandomizedResponseEvent(2.0, 3)], "delta": 0.5}
    ],
    "zcdp_epsilon": [{"rho": 100.0, "delta": 0.5}],
    "zcdp_rho": [{"epsilon": 100.0, "delta": 0.5}],
    "audit_handler": [{"num_reports": 100, "confidence": 0.5, "seed": 1}],
    "audit_network": [{"epsilon": 2.0, "dim": 2, "num_reports": 100, "confidence": 0.5, "seed": 1}],
    "extreme_holders": [{"domain_size": 100}],
    "extreme_silos": [{"num_features": 3}],
    "extreme_users": [{"num_features": 3}],
    "extremes": [{"query": one_query(), "dim": 3}],
    "recorded_queries": [{"strategy": COUNTS, "users": PEOPLE, "seed": 100}],
    "Options": [{"nodes": 3, "claim": 100.0, "delta": 0.5, "seconds": 100.0, "runs": 100}],
    "compare": [
        {
            "num_nodes": 30,
            "epsilons": [2.0, 4.0],
            "seeds": 1,
            "rounds": 1,
            "delta": 1e-3,
            "clip": 2.0,
        }
    ],
    "Limits": [{field.name: 100 for field in fields(Limits)}],
    "Cohort": [{"low": 0, "high": 100, "size": 100}],
    "Ask": [
        {
            "cohort": Cohort(0, 100, 100),
            "question": Mean(0.5),
            "randomizer": randomizers.RandomizedResponse(1.0),
            "public": (3, 100),
            "min_reports": 100,
            "collections": 100,
        }
    ],
    "sweep": [{"seeds": 2, "processes": 1}],
    "PrometheusExport": [{"port": 200}],
    "start": [{"timeout": 100.0, "num_nodes": 1, "roster_timeout": 100.0, "seed": 100}],
    "Codebook": [
        {**EPSILON_DIM, "radius": 2.0, "num_codewords": 100, "num_codebooks": 3, "coin": 5}
    ],
    "HadamardCodebook": [{"epsilon": 2.0, "dim": 300, "radius": 2.0, "num_codewords": 16}],
    "SubsetHypercube": [{**EPSILON_DIM, "radius": 100.0}],
    "GaussianMechanism": [{**EPSILON_DIM, "radius": 100.0, "delta": 0.5}],
    "GaussianRecord": [{**EPSILON_DIM, "radius": 100.0, "delta": 0.5}],
    "DiscreteSquareWave": [ITEMS],
    "NarrowSquareWave": [{**ITEMS, "window": 3}],
    "HadamardBit": [ITEMS],
    "HadamardResponse": [ITEMS],
    "KRandomizedResponse": [ITEMS],
    "OptimizedLocalHashing": [ITEMS],
    "SubsetSelection": [{**ITEMS, "set_size": 3}],
    "HybridMechanism": [{"epsilon": 2.0, "radius": 100.0}],
    "PiecewiseMechanism": [{"epsilon": 2.0, "radius": 100.0}],
    "RandomizedResponse": [{"epsilon": 2.0, "radius": 100.0}],
    "PrefixExtending": [{"epsilon": 2.0, "num_bits": 30, "first_bits": 10, "step_bits": 3}],
    "TreeHist": [{"epsilon": 2.0, "num_bits": 30}],
    "BallSum": [{**EPSILON_DIM, "delta": 1e-5, "parts": 5000, "radius": 2.0}],
    "CellSum": [{**EPSILON_DIM, "delta": 1e-5, "parts": 5000}],
    "RecordGaussian": [RECORDS],
    "RecordPeeling": [{**RECORDS, "sparsity": 2}],
    "RecordVertices": [RECORDS],
    "SampledCoordinate": [{"part": randomizers.RandomizedResponse(1.0), "dim": 100}],
    "ball_codebook": [{**EPSILON_DIM, "radius": 100.0, "num_codewords": 16}],
    "best_frequency_oracle": [{**ITEMS, "num_users": 100, "set_size": 2}],
}
TRAINING = {
    "epsilon": 2.0,
    "delta": 1e-5,
    "num_rounds": 3,
    "steps": 2,
    "sampling_rate": 0.5,
    "max_grad_norm": 100.0,
}
CALLS |= {
    "RecordDpSgdMod": [TRAINING],
    "RecordDpSgd": [{**TRAINING, "learning_rate": 2.0, "min_nodes": 2}],
    "personal_head": [{"penalty": 2.0}],
}
DOORS = {
    "sweep": sweep,
    "PrometheusExport": served,
    "RecordDpSgd": over_silos,
    "personal_head": own_head,
    "start": started,
    "audit_handler": of_query,
    "compare": compared,
}
#: Take as long as a number is large: tried with one number only.
LONG = {
    *("audit_handler", "audit_network", "compare", "simulate", "start", "plan", "expectation"),
    *("InProcessGrid", "extreme_users", "extreme_holders", "extreme_silos", "extremes", "sweep"),
    "recorded_queries",
}
#: What the library makes and hands out; whoever makes one makes it of the library's numbers.
MADE = {
    *("Audit", "NetworkAudit", "AppAudit", "Finding", "Worth", "Comparison", "Plan"),
    *("Estimate", "Summary", "PrivacySpent", "Step", "OneUser", "Refusal", "FieldSpec"),
    *("Graph", "NetworkError"),
}
#: Take a seed as a number or a function, and use it in a run: see below.
SEEDED = {"LdpClientApp", "LdpUpdateMod", "LdpUserUpdateMod", "NetworkClientApp"} | {
    *("NetworkUsersApp", "attach"),
}
#: scikit-learn's estimators keep arguments as they are, and hand them to a strategy: see below.
ESTIMATORS = {"LdpClassifier", "LdpRegressor"}
ABSTRACT = {"FrequencyOracle", "NodeSum", "RecordMechanism", "Randomizer", "TwoLevel"} | {
    "LdpStrategy"
}


def test_every_public_door_with_a_number_is_tried():
    doors = {name: door for name, door in public().items() if numbers_of(door)}
    assert len(doors) > 130
    results = {name for name, door in doors.items() if inspect.isclass(door)}
    results = {name for name in results if issubclass(doors[name], Result)}
    questions = {type(question).__name__ for question in QUESTIONS}
    tried = set(CALLS) - {"sweep", "start"} | {name for name, *_ in MODES}
    elsewhere = results | questions | MADE | SEEDED | ESTIMATORS | ABSTRACT
    assert not tried & elsewhere
    left = set(doors) - tried - elsewhere
    assert not left, (
        f"Expected runs of {left}: of a strategy in MODES of test_arguments.py, of a question in "
        "PLAIN of test_questions.py, of a function in CALLS."
    )


# -------------------------------------------------------------------------- what comes out


def shown(value, depth=0):
    """Return all that a value holds, to the last bit, with the type of each number."""
    kind = type(value).__name__
    if value is None or isinstance(value, bool | str | bytes | type):
        return kind, str(value)
    if isinstance(value, int | float | np.generic):
        return kind, value.hex() if isinstance(value, float) else str(value)
    if isinstance(value, np.ndarray):
        return kind, str(value.dtype), value.shape, value.tobytes()
    if depth > 6:
        return kind
    if isinstance(value, dict):
        return kind, [(shown(k, depth + 1), shown(v, depth + 1)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return kind, [shown(each, depth + 1) for each in value]
    if type(value).__module__.startswith("ldp_flower") and hasattr(value, "__dict__"):
        return kind, shown(dict(vars(value)), depth + 1)
    return kind


def outcome(door, arguments):
    """Return what comes of a call, or the text of the refusal."""
    try:
        return shown(door(**arguments))
    except ValueError as error:
        return "refused", str(error)


def as_scalars(value, kinds=KINDS):
    """Return a number as those of NumPy's types that can hold one that is near."""
    found = []
    for kind in kinds:
        with suppress(OverflowError), np.errstate(all="ignore"):
            scalar = kind(value)
            # Integers that do not fit wrap around, and fractions are cut off.
            if np.asarray(scalar).dtype.kind == "f" or float(scalar) == value:
                found.append(scalar)
    return found


def tried_with(value, kind, quick):
    """Return NumPy's scalars, with the Python numbers that they are."""
    values = [value] if isinstance(value, int | float) else []
    if quick and any(is_number(each) for each in options(kind)):
        values += [2, 100, 200]
    scalars = [scalar for each in values for scalar in as_scalars(each, KINDS if quick else FEW)]
    scalars += ENDS if quick else []
    return [(each, float(each) if each.dtype == np.longdouble else each.item()) for each in scalars]


def check(door, arguments, names, quick=True):
    """Try every type for every argument; return how often something came of it."""
    useful = 0
    for name, kind in names.items():
        value = arguments.get(name)
        if isinstance(value, list | tuple):
            expected = outcome(door, arguments)
            for scalar in SCALARS:
                given = type(value)(one for each in value for one in as_scalars(each, [scalar]))
                if [*map(float, given)] == [*value]:
                    got = outcome(door, {**arguments, name: given})
                    expects_integers = all(isinstance(each, int) for each in value)
                    if not (expects_integers and np.dtype(scalar).kind == "f"):
                        assert got == expected, (name, given)
                        useful += expected[0] != "refused"
            continue
        known = {}
        for found, number in tried_with(value, kind, quick):
            key = type(number), number
            if key not in known:
                known[key] = outcome(door, {**arguments, name: number})
            got = outcome(door, {**arguments, name: found})
            assert got == known[key], (name, found, number)
            useful += got[0] != "refused"
    return useful


LEFT_OUT = {
    "compare": pytest.mark.slow,
    "audit_network": pytest.mark.long,
    "audit_handler": pytest.mark.long,
}


def doors():
    packages = public() | DOORS
    for name, calls in CALLS.items():
        for number, arguments in enumerate(calls):
            marks = LEFT_OUT.get(name, ())
            yield pytest.param(packages[name], arguments, id=f"{name} {number}", marks=marks)


@pytest.mark.parametrize(("door", "arguments"), [*doors()])
def test_numpys_numbers_are_pythons(door, arguments, request, tmp_path):
    name = request.node.callspec.id.split()[0]
    if name == "sweep":
        door = partial(swept, tmp_path)
    if name == "RecordDpSgd":
        linear_network()
    names = {key: kind for key, kind in numbers_of(public_door(name)).items() if key in arguments}
    assert names
    assert outcome(door, arguments)[0] != "refused", outcome(door, arguments)
    assert check(door, arguments, names, quick=name not in LONG) >= len(names)


def public_door(name):
    if name == "start":
        return strategies.LdpStrategy.start
    if name == "sweep":
        return sweep
    return public()[name]


def of_mode(kind, arguments):
    first = [field.name for field in fields(kind) if field.init and not field.kw_only]

    def build(**changed):
        merged = {**arguments, **changed}
        leading = [merged.pop(name) for name in first if name in merged]
        return kind(*leading, **merged)

    return build


@pytest.mark.parametrize("number", range(len(MODES)), ids=lambda n: f"{MODES[n][0]} {n}")
def test_strategies_of_numpys_numbers_are_those_of_pythons(number):
    name, arguments, *_ = MODES[number]
    kind = getattr(strategies, name)
    build = of_mode(kind, arguments)
    assert outcome(build, {})[0] != "refused"
    defaults = {field.name: field.default for field in fields(kind) if field.init}
    names = {each: found for each, found in numbers_of(kind).items() if each in defaults}
    for each, found in names.items():
        value = arguments.get(each, defaults[each])
        if isinstance(value, np.ndarray) or each in ("coef", "covariance"):
            continue
        known = {each: value} if isinstance(value, int | float | list) else {}
        check(build, known, {each: found})


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_questions_of_numpys_numbers_are_those_of_pythons(question):
    for slot in slots(type(question)):
        value = getattr(question, slot.field)
        if slot.kind is bool or not isinstance(value, int | float):
            continue
        for scalar in as_scalars(value):
            if float(scalar) == value:
                same = replace(question, **{slot.field: scalar})
                assert shown(same.to_wire()) == shown(question.to_wire())
                assert type(getattr(same, slot.field)) is slot.kind


# ------------------------------------------------------------------------ what is refused


def named(name, text):
    """Whether an error names an argument, as it is or as a message calls it."""
    return name in text or name.replace("_", "-") in text


@pytest.mark.parametrize(("door", "arguments"), [*doors()])
def test_what_is_no_number_or_too_large_is_refused_by_name(door, arguments, request, tmp_path):
    name = request.node.callspec.id.split()[0]
    if name == "sweep":
        door = partial(swept, tmp_path)
    if name in ("Cohort", "Ask"):
        pytest.skip("what a run makes of the numbers of nodes that it has checked")
    for argument, kind in numbers_of(public_door(name)).items():
        if argument not in arguments or isinstance(arguments[argument], list):
            continue
        others = [*NO_NUMBERS, *(HUGE if argument != "seed" and name not in LONG else [])]
        for value in others:
            if bool in options(kind) and isinstance(value, bool | np.bool_):
                continue
            found = outcome(door, {**arguments, argument: value})
            assert found[0] == "refused" and named(argument, found[1]), (argument, found)


def test_strategies_refuse_by_name_too():
    seen = set()
    for name, arguments, *_ in MODES:
        kind = getattr(strategies, name)
        build = of_mode(kind, arguments)
        for argument, annotation in numbers_of(kind).items():
            if argument in ("strategy", "coef", "covariance", "levels", "link"):
                continue
            for value in [*NO_NUMBERS, *HUGE]:
                if bool in options(annotation):
                    continue
                found = outcome(build, {argument: value})
                assert found[0] == "refused", (name, argument)
                assert named(argument, found[1]), (name, argument, found)
                seen.add((name, argument))
    assert len(seen) > 150


def test_numbers_that_overflow_are_refused_by_name():
    for call, name in (
        (lambda: Numeric(0, 10**400), "high"),
        (lambda: Numeric(-(10**5000), 0), "low"),
        (lambda: Numeric(1e308, 1.7e308), "low 1e"),
        (lambda: Numeric(np.int64(2**63 - 1), np.uint64(2**63)), "low < high"),
        (lambda: GaussianEvent(10**400), "mu"),
        (lambda: GaussianEvent(1.0, 10**400), "count"),
        (lambda: accounting.gaussian_epsilon(10**400, 1e-5), "mu"),
        (lambda: Means(SCHEMA, "x", epsilon=10**400), "epsilon"),
    ):
        with pytest.raises(ValueError, match=f"Expected .*{name}"):
            call()


# ------------------------------------------------------------------------- what it comes to


def test_events_of_a_byte_cost_what_they_cost():
    """Before, 39.4."""
    small = GaussianEvent(np.int8(100), np.int8(2))
    assert small == GaussianEvent(100.0, 2) and type(small.mu) is float
    assert accounting.total_epsilon([small], 1e-5) == pytest.approx(10_602, abs=1)


LOWS = {np.uint8: 0, np.uint64: 0}


@pytest.fixture(scope="module")
def measured():
    rng = np.random.default_rng(0)
    return {"x": rng.integers(40, 97, 200), "kind": np.array([*"abc"])[rng.integers(0, 3, 200)]}


def of_column(kind, measured, make):
    """Return the result of a protocol on a column whose bounds are of a type."""
    low, high = kind(LOWS.get(kind, -100)), kind(100)
    schema = Schema({"x": Numeric(low, high)}, "kind", Categories(np.array([*"abc"])))
    assert (
        schema.digests()
        == Schema({"x": Numeric(float(low), 100.0)}, "kind", Categories([*"abc"])).digests()
    )
    return simulate(make(schema), schema.users(measured), seed=1)


def described(schema):
    return Describe(schema, epsilon=50.0, min_reports=1)


PROTOCOLS = [
    lambda schema: Means(schema, "x", epsilon=8.0, min_reports=5),
    lambda schema: Quantiles(schema, "x", [0.5], epsilon=20.0, min_reports=5),
    lambda schema: Distribution(schema, "x", epsilon=20.0, min_reports=5),
    lambda schema: Counts(schema, "kind", epsilon=8.0, min_reports=5),
    described,
]


@pytest.mark.parametrize("make", PROTOCOLS)
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64, np.float16, np.float32])
def test_a_protocol_ends_with_the_same_bits_whatever_the_types_of_bounds(kind, make, measured):
    """Before, bounds of a byte gave means that were off, or a run that died half-way."""
    python = int if np.dtype(kind).kind in "iu" else float
    LOWS[python] = LOWS.get(kind, -100)
    expected = of_column(python, measured, make)
    found = of_column(kind, measured, make)
    assert shown(found.to_dict()) == shown(expected.to_dict())


def test_a_mean_of_bounds_of_a_byte_is_near_the_truth(measured):
    result = of_column(np.int8, measured, PROTOCOLS[0])
    assert abs(result.means[0, 0] - measured["x"].mean()) < 4 * result.std_error[0, 0]
    assert 0 < result.std_error[0, 0] < 20


def test_categories_of_numpy_are_pythons():
    for kind, values in (
        (np.int64, [1, 2, 3]),
        (np.str_, ["a", "b"]),
        (np.bool_, [False, True]),
        (np.float32, [0.5, 0.25]),
    ):
        given = Categories([kind(each) for each in values], other=None)
        assert shown(given) == shown(Categories(values)) == shown(Categories(np.array(values)))
    # As a column of the same numbers has them, which are doubles by then.
    tenths = np.array([0.1, 0.2], np.float32)
    assert Categories(tenths).coded(tenths).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("seed", [np.int8(5), np.uint64(5), np.array(5), lambda _: np.int16(5)])
def test_seeds_of_numpy_give_the_bits_of_pythons(seed):
    def run(seed):
        grid = InProcessGrid(LdpClientApp(loaded, seed=seed), np.int8(2))
        return COUNTS.start(grid, timeout=np.float32(5), num_nodes=np.int8(2), seed=np.int8(7))

    assert shown(run(seed).to_dict()) == shown(run(5).to_dict())


def test_estimators_take_numpys_numbers():
    pytest.importorskip("sklearn")
    from ldp_flower.estimators import LdpRegressor

    rng = np.random.default_rng(0)
    x = rng.uniform(-100, 100, (3000, 2))
    y = x[:, 0] / 2

    def fitted(number, integer):
        model = LdpRegressor(
            epsilon=number(8),
            bounds=[number(-100), number(100)],
            target_bounds=(number(-100), number(100)),
            random_state=integer(3),
            rows_per_user=integer(1),
        )
        return model.fit(x, y).predict(x[:5]).tobytes()

    expected = fitted(float, int)
    for number in (np.int8, np.float16, np.float32):
        assert fitted(number, np.int8) == expected
