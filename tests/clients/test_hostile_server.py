"""A hostile server: malformed, contradictory and greedy queries to two nodes that differ in data.

Whatever it asks, both nodes answer alike but for the randomised bytes, nobody spends more
than the operator allows, and no word of the data or of an exception leaves. Some 1,000
queries here; ``LDP_FLOWER_QUERIES=100000 pytest tests/clients/test_hostile_server.py``
sends more.
"""

import logging
import os
import shutil
from dataclasses import fields
from uuid import uuid4

import numpy as np
import pytest
from deployed_node import DIM, NODE_ID, SALT, ask
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp, Refusal
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Report
from ldp_flower.guarantee.packing import FORMAT_VERSION, pack
from ldp_flower.questions import WIRE_TYPES, Per, TransformedQuestion, question_from_wire
from ldp_flower.randomizers import (
    _REGISTRY,
    Codebook,
    DiscreteSquareWave,
    GaussianMechanism,
    KRandomizedResponse,
    NarrowSquareWave,
    OptimizedLocalHashing,
    PrefixExtending,
    RandomizedResponse,
    Randomizer,
    RecordGaussian,
    RecordMechanism,
    RecordPeeling,
    RecordVertices,
    SampledCoordinate,
    SubsetHypercube,
    SubsetSelection,
    randomizer_from_config,
)

BATCH = 20  # queries on one ledger
QUERIES = int(os.environ.get("LDP_FLOWER_QUERIES", "1000"))
LIMIT = 20.0
_LENIENT = {"allow-inexact": True, "max-delta": 0.01}
OPERATORS = [{}, _LENIENT, _LENIENT | {"unit": "record", "num-records": 3}]
SECRET = 7919.0  # appears in the data, and in no query
CODES = {
    Refusal.MALFORMED,
    Refusal.FORBIDDEN,
    Refusal.EXHAUSTED,
    Refusal.MISCONFIGURED,
}


def people(kind):
    """Return six users: ordinary ones, or ones of whom nothing is as it should be."""
    rows = [3, 1, 2, 5, 1, 4] if kind == "ordinary" else [1, 0, 9, 1, 2, 1]
    offsets = np.concatenate([[0], np.cumsum(rows)])
    x = np.random.default_rng(0).standard_normal((offsets[-1], DIM))
    y = x[:, 0].copy()
    if kind != "ordinary":
        x[0], x[1:3], x[4] = np.nan, SECRET, np.inf
        y[5:] = [1e308, -np.inf, SECRET, np.nan, 0.0, 1e-308, SECRET, 1.0, 1.0][: len(y) - 5]
    missing = np.zeros(x.shape, bool) if kind == "ordinary" else x > 0
    return Users(x, y, offsets, np.array([f"patient-{i}" for i in range(6)]), missing=missing)


# ------------------------------------------------------------------ what a server may send

ODD = st.sampled_from(
    [0, 1, 2, -1, True, 1 << 62, 0.0, 1.0, -1.0, 1e-12, 1e300, np.nan, np.inf, "", "x", b"x"]
)
NAMES = sorted({*_REGISTRY, SampledCoordinate.__name__})
FIELDS = sorted({field.name for kind in _REGISTRY.values() for field in fields(kind)})
PLAUSIBLE = {
    "epsilon": st.sampled_from([0.5, 1.0, 2.0, 15.0, 1e-5]),
    "delta": st.sampled_from([1e-6, 1e-3]),
    "dim": st.sampled_from([1, 2, DIM, DIM + 1, 10]),
    "domain_size": st.sampled_from([2, DIM, 40, 1 << 20]),
    "radius": st.sampled_from([1.0, 1e-9, 1e9, 1e-300, 5e-324]),
    "bound": st.sampled_from([1.0, 1e9]),
    "set_size": st.sampled_from([1, 2]),
    "steps": st.sampled_from([1, 3, 1 << 20]),
    "first_bits": st.sampled_from([1, 12]),
    "num_codewords": st.sampled_from([2, 256, 1 << 40]),
    "sparsity": st.sampled_from([1, 2]),
}


@st.composite
def randomizers(draw):
    """Return the plain values of a randomizer, more or less as they should be."""
    kind = _REGISTRY[draw(st.sampled_from(sorted(_REGISTRY)))]
    config = {"name": kind.__name__}
    for field in fields(kind):
        if field.name in PLAUSIBLE:
            config[field.name] = draw(PLAUSIBLE[field.name])
    while draw(st.integers(0, 5)) == 0:
        key = draw(st.sampled_from([*FIELDS, "name", "part/name", "part/epsilon", "nonsense"]))
        config[key] = draw(st.one_of(ODD, st.sampled_from(NAMES)))
    return config


def arrays_for(slots, draw):
    """Return arrays that are about what the question wants."""
    value = st.sampled_from([0.0, 1.0, -1.0, 1e300, 1e-300])
    arrays = {
        slot.wire: np.full(DIM + (slot.per is Per.COLUMN), draw(value))
        for slot in slots
        if slot.required and slot.per is not None
    }
    if any(slot.per is Per.CHOSEN for slot in slots) and draw(st.booleans()):
        size = draw(st.integers(0, DIM + 1))
        arrays["coordinates"] = np.arange(size, dtype=np.int64) + draw(st.integers(-1, 1))
        for slot in slots:
            if slot.per in (Per.COORDINATE, Per.INNER):
                arrays[slot.wire] = arrays[slot.wire][:1].repeat(size)
    while draw(st.integers(0, 5)) == 0:
        name = draw(st.sampled_from([*arrays, "theta", "coordinates", "more"]))
        dtype = draw(st.sampled_from([np.float64, np.float32, np.int64, np.uint8]))
        arrays[name] = np.zeros(draw(st.sampled_from([0, 1, DIM, (2, 2)])), dtype)
    return arrays


def fitting_arrays(name, slots, params):
    """Return arrays that are all that the question wants, and the width of its values."""
    features = int(params.get("projected_dim", params.get("num_features", DIM)))
    lengths = dict.fromkeys(Per, features + ("column" in name))
    lengths |= {Per.ONE: 1, Per.COLUMN: DIM + 1}
    wanted = [slot for slot in slots if slot.required and slot.per is not None]
    arrays = {slot.wire: np.ones(lengths[slot.per]) for slot in wanted}
    for slot in wanted:
        if slot.per in (Per.CHOSEN, Per.MARK):  # one column, and all indicators of a table's
            size = 2 if "table" in name or "level" in name else 1
            chosen = slot.per is Per.CHOSEN
            arrays[slot.wire] = np.arange(size) if chosen else np.full(1, float(size))
    question = question_from_wire(name, arrays, params)
    width = question.width(DIM)
    inner = question.inner.width(DIM) if isinstance(question, TransformedQuestion) else None
    lengths |= {Per.VALUE: width, Per.INNER: inner}
    listed = {Per.CHOSEN, Per.MARK}
    return {
        slot.wire: arrays[slot.wire] if slot.per in listed else np.ones(lengths[slot.per])
        for slot in wanted
    }, width


def fitting_randomizer(width, draw):
    """Return the plain values of a mechanism for values of this width."""
    epsilon = draw(st.sampled_from([0.5, 1.0, 15.0]))
    choices = [SubsetHypercube(epsilon, width), Codebook(epsilon, width)]
    choices.append(SampledCoordinate(RandomizedResponse(epsilon), width))
    choices.append(SubsetSelection(epsilon, 40, set_size=width))
    choices += [GaussianMechanism(epsilon, width)]
    choices += [RecordGaussian(epsilon, width, steps=3), RecordVertices(epsilon, width)]
    choices.append(RecordPeeling(epsilon, width, steps=2))
    if width == 1:
        choices += [RandomizedResponse(epsilon), KRandomizedResponse(epsilon, 9)]
        choices += [DiscreteSquareWave(epsilon, 40), NarrowSquareWave(epsilon, 40, 7)]
        choices += [OptimizedLocalHashing(epsilon, 40), PrefixExtending(epsilon, 1 << 20)]
    return draw(st.sampled_from(choices)).to_config()


@st.composite
def contents(draw):
    """Return what a query message holds."""
    name = draw(st.sampled_from(sorted(WIRE_TYPES)))
    slots = WIRE_TYPES[name].slots
    number = st.sampled_from([1.0, 2.0, 3.0, 0.5, 1e-300, 1e300])
    numbers = sorted((slot for slot in slots if slot.per is None), key=lambda slot: slot.wire)
    params = {slot.wire: draw(number) for slot in numbers if slot.required or draw(st.booleans())}
    well_formed = draw(st.booleans())
    try:
        if not well_formed:
            raise ValueError
        arrays, width = fitting_arrays(name, slots, params)
        randomizer = fitting_randomizer(width, draw)
    except (ValueError, OverflowError):  # or numbers of which a client could make nothing either
        arrays, randomizer = arrays_for(slots, draw), draw(randomizers())
    config = {"version": FORMAT_VERSION, "statistic": name, "salt": SALT}
    config |= {"step": draw(st.integers(1, 4)), "low": 0, "high": HASH_END}
    config |= {f"param.{param}": value for param, value in params.items()}
    config |= {f"randomizer.{key}": value for key, value in randomizer.items()}
    layout, payload = pack(arrays)
    config["layout"] = layout
    while draw(st.integers(0, 7)) == 0:
        config[draw(st.sampled_from([*sorted(config), "seed", "max-epsilon", "param.x"]))] = draw(
            ODD
        )
    if not well_formed and draw(st.integers(0, 7)) == 0:
        payload = payload[: draw(st.integers(0, len(payload)))]
    records = {"config": ConfigRecord({key: _plain(value) for key, value in config.items()})}
    records["arrays"] = ArrayRecord([np.frombuffer(payload, np.uint8)])
    if not well_formed and draw(st.integers(0, 7)) == 0:
        records["metrics"] = MetricRecord({"seed": 1})
    if not well_formed and draw(st.integers(0, 7)) == 0:
        del records[draw(st.sampled_from(sorted(records)))]
    return RecordDict(records)


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


# --------------------------------------------------------------------- what must come back


def shape_of(reply):
    """Return all of a reply that is not randomised."""
    if reply.has_error():
        assert reply.error.code in CODES, reply.error
        for word in ("patient", str(int(SECRET)), "Traceback", "Error:", "line "):
            assert word not in reply.error.reason
        return reply.error.code, reply.error.reason
    assert set(reply.content) == {"config", "arrays"}
    arrays = Report.from_record_dict(reply.content).arrays
    assert "public" not in arrays  # the operator has declared nothing public
    return {name: (array.dtype, array.shape) for name, array in arrays.items()}


def send(app, content, node_config):
    """Send a message as it is, and return the reply."""
    message = Message(content, NODE_ID, "query.report")
    message.metadata.__dict__["_message_id"] = str(uuid4())
    context = Context(1, NODE_ID, node_config, RecordDict(), {"max-epsilon": 1e9, "seed": 1})
    reply = app(message, context)
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    return reply


def checked(reply, content, operators):
    """Check single reports against the output set of the mechanism that was asked for."""
    arrays = Report.from_record_dict(reply.content).arrays
    prefix = "randomizer."
    config = {k.removeprefix(prefix): v for k, v in content["config"].items() if prefix in k}
    mechanism = randomizer_from_config(config)
    assert isinstance(mechanism, Randomizer)
    assert (mechanism.exact and not mechanism.delta) or "allow-inexact" in operators
    assert not isinstance(mechanism, RecordMechanism) or "unit" in operators
    if "reports" in arrays:
        assert mechanism.contains(arrays["reports"])
        assert set(arrays["slots"].tolist()) <= set(range(6))
    else:
        assert arrays["count"][0] <= 6
    return mechanism.epsilon


@pytest.fixture(scope="module")
def empty_ledger(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "empty.db"
    SqliteLedger.create(path)
    return path


@pytest.mark.slow
def test_no_query_gets_more_than_the_operator_allows(empty_ledger, tmp_path):
    apps = {kind: LdpClientApp(lambda _, kind=kind: people(kind)) for kind in ("ordinary", "odd")}
    seen = {"answered": 0, "refused": 0}

    @settings(
        max_examples=max(1, QUERIES // BATCH),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.lists(contents(), min_size=BATCH, max_size=BATCH), st.sampled_from(OPERATORS))
    def attack(batch, operators):
        configs = {}
        for kind, app in apps.items():
            path = shutil.copy(empty_ledger, tmp_path / f"{kind}.db")
            configs[kind] = {"max-epsilon": LIMIT, "ledger-path": str(path)} | operators
            ask(app, None, configs[kind])  # makes this process one of Flower's
        charged = 0.0
        for content in batch:
            replies = {kind: send(app, content, configs[kind]) for kind, app in apps.items()}
            shapes = {kind: shape_of(reply) for kind, reply in replies.items()}
            assert shapes["ordinary"] == shapes["odd"]
            if replies["odd"].has_error():
                seen["refused"] += 1
                continue
            seen["answered"] += 1
            charged += checked(replies["odd"], content, operators)
        for config in configs.values():
            spent = SqliteLedger(config["ledger-path"]).spent()
            delta = operators.get("max-delta", 0)
            assert all(0 < cost.epsilon <= LIMIT and cost.delta <= delta for cost in spent.values())
            assert not spent or max(cost.epsilon for cost in spent.values()) <= charged + 1e-9

    logging.disable(logging.CRITICAL)  # the operator's log is full of what was wrong
    try:
        attack()
    finally:
        logging.disable(logging.NOTSET)
    # Neither side of the test is empty: about a fifth is answered. (What hypothesis draws
    # depends on the constants of the modules that are loaded, hence the distance.)
    assert seen["answered"] > 0.05 * QUERIES
    assert seen["refused"] > 0.2 * QUERIES
