import contextlib
import json

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from ldp_flower.guarantee.messages import MessageError, Query, Report
from ldp_flower.guarantee.packing import pack, unpack
from ldp_flower.questions import question_from_wire
from ldp_flower.randomizers import Codebook, SubsetHypercube, Summary


def query(**changes):
    arguments = {
        "randomizer": SubsetHypercube(2.0, 3),
        "salt": 2**63 - 1,
        "low": 0,
        "high": 2**63,
        "step": 4,
    }
    asked = {
        "name": "gradient",
        "arrays": {"theta": np.array([0.0, 1.0, -2.0]), "coordinates": np.array([0, 2])},
        "params": {"residual_bound": 0.5},
    }
    asked |= {key: changes.pop(key) for key in asked if key in changes}
    return Query(question_from_wire(**asked), **arguments | changes)


def test_a_query_survives_the_wire():
    sent = query()
    got = Query.from_record_dict(sent.to_record_dict())
    assert got.randomizer == sent.randomizer
    (_, arrays, params), (_, got_arrays, got_params) = (q.question.to_wire() for q in (sent, got))
    assert got_params == params == {"residual_bound": 0.5}
    for name in ("statistic", "salt", "low", "high", "step"):
        assert getattr(got, name) == getattr(sent, name)
    assert set(got_arrays) == set(arrays) == {"theta", "coordinates"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(got_arrays[name], array)
    assert got.digest("a") == sent.digest("a")


def test_flower_can_encode_every_field():
    # Simulation hands records over as objects; only a deployment encodes them.
    for record in query().to_record_dict().values():
        record.deflate()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "logistic_gradient"},
        {"randomizer": SubsetHypercube(2.0, 3, 0.5)},
        {"randomizer": Codebook(2.0, 3)},
        {"salt": 1},
        {"low": 1},
        {"high": 5},
        {"step": 5},
        {"arrays": {"theta": np.array([0.0, 1.0, -2.1]), "coordinates": np.array([0, 2])}},
        {"arrays": {"theta": np.array([0.0, 1.0, -2.0])}},
        {"params": {"residual_bound": 0.25}},
    ],
)
def test_everything_that_decides_the_reports_is_in_the_digest(change):
    assert query(**change).digest("a") != query().digest("a")


def test_the_digest_separates_users():
    assert query().digest(0, "a", "b") != query().digest(0, "ab")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"salt": -1}, "Expected 0 <= salt"),
        ({"salt": 2**63}, "Expected 0 <= salt"),
        ({"low": 1.0}, "Expected 0 <= low"),
        ({"high": True}, "Expected 0 <= high"),
        ({"step": 0}, "Expected 1 <= step"),
        ({"params": {"residual_bound": float("nan")}}, "finite float for 'residual_bound'"),
        ({"params": {"residual_bound": float("inf")}}, "finite float for 'residual_bound'"),
        ({"params": {"residual_bound": "1"}}, "finite float for 'residual_bound'"),
        ({"arrays": {"theta": np.array([np.nan, 0, 0])}}, "finite numbers in array 'theta'"),
        ({"arrays": {"theta": np.array([np.inf, 0, 0])}}, "finite numbers in array 'theta'"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(MessageError, match=message):
        query(**change)


def changed(config=(), arrays=None, drop=()):
    content = query().to_record_dict()
    record = dict(content["config"]) | dict(config)
    for name in drop:
        del record[name]
    return RecordDict(
        {
            "config": ConfigRecord(record),
            "arrays": content["arrays"] if arrays is None else ArrayRecord(arrays),
        }
    )


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"config": ConfigRecord()}),
        changed({"version": 2}),
        changed({"version": "1"}),
        changed(drop=["version"]),
        changed(drop=["salt"]),
        changed({"extra": 1}),
        changed({"other.extra": 1}),
        changed({"statistic": 3}),
        changed({"layout": "["}),
        changed({"layout": "[[1]]"}),
        changed({"layout": "{}"}),
        changed({"layout": '[["theta", "<f8", [99]]]'}),
        changed({"layout": '[["theta", "<f8", [2]]]'}),
        changed({"layout": '[["theta", "<f8", [-3]]]'}),
        changed({"layout": '[["theta", "|O", [3]]]'}),
        changed({"layout": '[["theta", "<f8", [1e300]]]'}),
        changed({"randomizer.name": "Identity"}),
        changed({"randomizer.epsilon": float("nan")}),
        changed({"randomizer.dim": 2**62}, drop=["randomizer.epsilon"]),
        changed({"param.residual_bound": float("nan")}),
        changed({"param.residual_bound": 1}),
        changed(arrays=[np.zeros(3)]),
        changed(arrays=[np.zeros(3, np.uint8), np.zeros(3, np.uint8)]),
        changed(arrays=[]),
    ],
)
def test_malformed_queries_are_refused(content):
    with pytest.raises(MessageError):
        Query.from_record_dict(content)


@given(st.text(max_size=60), st.binary(max_size=64))
def test_unpacking_noise_raises_nothing_else(layout, payload):
    with contextlib.suppress(MessageError):
        unpack(layout, payload)


EMPTY = ("<f8", [0])


@pytest.mark.parametrize(
    "described",
    [
        [[f"a{i}", *EMPTY] for i in range(65)],
        [["a" * 257, *EMPTY]],
        [["a", *EMPTY], ["a", *EMPTY]],
        [[1, *EMPTY]],
        [[None, *EMPTY]],
        [[["a"], *EMPTY]],
        {"abc": 1},
    ],
    ids=["many", "long name", "twice", "number", "null", "list", "object"],
)
def test_a_layout_of_many_or_odd_names_is_refused(described):
    """Before, a layout was bounded by its length only, and the last array of a name counted."""
    layout = json.dumps(described)
    with pytest.raises(MessageError, match="layout of arrays"):
        unpack(layout, b"")
    with pytest.raises(MessageError, match="layout of arrays"):
        Query.from_record_dict(changed({"layout": layout}, [np.zeros(0, np.uint8)]))


def test_what_one_has_kept_oneself_may_have_many_arrays():
    """Parameters of a trained network, which the ledger keeps for a reply that is lost."""
    arrays = {f"block.{i}.{'weight' * 50}": np.full(2, i, np.float32) for i in range(200)}
    kept = Report.from_bytes(Report(arrays).to_bytes()).arrays
    assert list(kept) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(kept[name], array)
    few = {f"a{i}" + "x" * 200: np.zeros(1) for i in range(64)}
    assert set(unpack(*pack(few))) == set(few)


def test_packing_keeps_types_and_shapes():
    arrays = {
        "b": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "a": np.array(2.5),
        "c": np.zeros((0, 4), np.float32),
        "big-endian": np.arange(3, dtype=">f8"),
    }
    got = unpack(*pack(arrays))
    for name, array in arrays.items():
        np.testing.assert_array_equal(got[name], array)
        assert got[name].shape == array.shape


@pytest.mark.parametrize(
    "report",
    [
        Report.of_reports(np.array([1, 5]), np.array([3, 2], np.uint8)),
        Report.of_summary(Summary(3, np.array([1.0, 2.0]), np.array([4.0, 5.0]))),
    ],
)
def test_a_report_survives_wire_and_ledger(report):
    for got in (
        Report.from_record_dict(report.to_record_dict()),
        Report.from_bytes(report.to_bytes()),
    ):
        assert got.to_bytes() == report.to_bytes()


def test_a_report_with_anything_else_is_refused():
    with pytest.raises(MessageError):
        Report.from_record_dict(query().to_record_dict())
    with pytest.raises(MessageError):
        Report.from_record_dict(Report({"slots": np.array([1])}).to_record_dict())
