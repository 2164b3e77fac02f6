"""Messages of two megabytes that are wrong: refused with little work, and by a short text.

Work is counted, not timed: the factors of every product, and the characters of a refusal.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from deployed_node import NODE_ID, ask, load_users, query
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from ldp_flower.clients import LdpClientApp, LdpUpdateMod, NetworkClientApp, NetworkUsersApp
from ldp_flower.guarantee import packing
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import MessageError, Report
from ldp_flower.guarantee.packing import pack
from ldp_flower.guarantee.training import NETWORK, RIDER, LocalTraining, NetworkRound, with_query
from ldp_flower.questions import NormalisedUpdate
from ldp_flower.randomizers import Codebook, randomizer_from_config
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.strategies.models.record_dp_sgd import linear_network

SIZE = 2_000_000  # characters
LAYOUTS = {
    "digits": f'[["theta", "<f8", [1{"0" * SIZE}]]]',
    "long numbers": f'[["theta", "<f8", [{",".join(["9" * 4000] * 500)}]]]',
    "many numbers": f'[["theta", "<f8", [{",".join(["999999999999999999"] * 100_000)}]]]',
    "many, shorter": f'[["theta", "<f8", [{",".join(["999999999999"] * 70_000)}]]]',
    "few long ones": f'[["theta", "<f8", [{",".join(["9" * 4000] * 7)}]]]',
    "nested lists": "[" * SIZE,
    "a nested shape": f'[["theta", "<f8", {"[" * 900}{"]" * 900}]]',
    "many arrays": "[" + ",".join(['["t", "|u1", [0]]'] * 120_000) + "]",
    "no list": '[["theta", "<f8", {}]]',
}
FIELDS = {
    "a list": {"salt": [1] * 200_000},
    "a text": {"salt": "9" * SIZE},
    "a text for a name": {"statistic": "x" * SIZE},
    "a mechanism's text": {"randomizer.name": "x" * SIZE},
    "a mechanism's list": {"randomizer.epsilon": [1.0] * 200_000},
    "a list of texts": {"randomizer.epsilon": ["x"] * 200_000},
    "a number's list": {"param.residual_bound": [1.0] * 200_000},
    "a long integer": {"step": 10**5000},
    "many fields": {f"param.x{i}": 1.0 for i in range(60_000)},
    "a long name": {"x" * SIZE: 1},
}


@pytest.fixture
def products(monkeypatch):
    """Return the bits of the factors of every product, as they are multiplied."""
    seen = []
    multiply = math.prod

    def counted(factors, **arguments):
        factors = list(factors)
        seen.append(sum(int(each).bit_length() for each in factors if each == each))
        return multiply(factors, **arguments)

    monkeypatch.setattr(math, "prod", counted)
    return seen


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "ledger.db"
    SqliteLedger.create(path)
    return {"max-epsilon": 8.0, "ledger-path": str(path), "num-users": 3, "user-id": "someone"}


def refused(reply, config):
    """Check that a reply is a short refusal of a malformed message, and nobody paid."""
    assert (reply.has_error(), reply.error.code) == (True, 100), reply
    assert len(reply.error.reason) < 1000
    assert not SqliteLedger(config["ledger-path"]).spent()


def told(app, content, kind, config):
    ask(LdpClientApp(load_users), None, config)  # makes this process one of Flower's
    message = Message(content, NODE_ID, kind)
    message.metadata.__dict__["_message_id"] = "1"
    return app(message, Context(1, NODE_ID, config, RecordDict(), {}))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_is_bounded_before_anything_is_multiplied(layout, config, products):
    content = query(1).to_record_dict()
    content["config"]["layout"] = layout
    refused(told(LdpClientApp(load_users), content, "query.report", config), config)
    rider = with_query(RecordDict(), changed_update())
    rider[RIDER]["layout"], rider[RIDER]["payload"] = layout, b""
    rider["arrays"] = ArrayRecord([np.ones(3)])
    mod = LdpUpdateMod()
    refused(told(lambda m, c: mod(m, c, None), rider, "train", config), config)
    # And so does the server with what nodes reply, and the ledger, and the store.
    with pytest.raises(MessageError):
        Report.from_record_dict(report_with(layout))
    with pytest.raises(MessageError):
        Report.from_bytes(layout.encode() + b"\n")
    assert not products or max(products) <= packing._MAX_DIMS * 44


def changed_update():
    question = NormalisedUpdate(trained=np.array([0]))
    return replace(query(1), question=question, randomizer=Codebook(1.0, 3))


def report_with(layout):
    content = Report({"reports": np.zeros(1, np.uint8)}).to_record_dict()
    content["config"]["layout"] = layout
    return content


@pytest.mark.parametrize("change", FIELDS.values(), ids=FIELDS)
def test_the_fields_of_a_query_are_few_and_short(change, config):
    content = query(1).to_record_dict()
    content["config"] = ConfigRecord({**content["config"], **change})
    kept = randomizer_from_config.__globals__["_kept"].cache_info().currsize
    refused(told(LdpClientApp(load_users), content, "query.report", config), config)
    assert randomizer_from_config.__globals__["_kept"].cache_info().currsize == kept
    reply = report_with("[]")
    reply["config"] = ConfigRecord({**reply["config"], **change})
    with pytest.raises(MessageError) as error:
        Report.from_record_dict(reply)
    assert len(str(error.value)) < 1000


def test_the_fields_of_a_round_and_of_local_training_are_short(config):
    network = linear_network(3)
    text = network.graph.to_text()
    record = ArrayRecord([np.zeros((3, 1), np.float32)])
    silo = config | {"unit": "record", "num-records": 3, "max-delta": 1e-3, "allow-inexact": True}
    plan = DpSgdPlan(1.0, 1e-5, 2, 1, 1.0, 1.0)
    asked = NetworkRound(text, plan, "sgd", 0.5, 1, 1).to_config()
    local = LocalTraining(text, 1, 0.5).to_config()
    for own, app, terms in (
        (asked, NetworkClientApp(never_loaded), silo),
        (local, NetworkUsersApp(never_loaded), config),
    ):
        for name in own:
            if name != "text":
                for wrong in ("9" * SIZE, [1.0] * 200_000, 10**5000):
                    sent = ConfigRecord({**own, name: wrong})
                    content = RecordDict({"arrays": record, NETWORK: sent})
                    refused(told(app, content, "train", terms), config)


def never_loaded(context):
    raise AssertionError("No data are loaded for a message that is refused.")


def test_a_census_of_long_numbers_is_rejected():
    from ldp_flower.strategies.runtime.census import census_content, census_facts

    honest = {"group": 5, "first": 0, "users": 3, "seeded": 0, "rehearsing": 0, "simulated": 0}
    assert census_facts(facts(honest), 5, 100).keys.count == 3
    for name in honest:
        for wrong in (10**4000, 1e300, -(10**4000)):
            with pytest.raises((ValueError, OverflowError)):
                census_content(RecordDict({"census": MetricRecord({**honest, name: wrong})}))


def facts(declared):
    from ldp_flower.strategies.runtime.census import census_content

    return census_content(RecordDict({"census": MetricRecord(declared)}))


def test_what_is_packed_is_within_the_bounds():
    arrays = {f"layer.{i}.weight": np.zeros((0, 3, 1, 2, 3, 1, 1, 1)) for i in range(5000)}
    assert set(Report.from_bytes(Report(arrays).to_bytes()).arrays) == set(arrays)
    layout, _ = pack(arrays)
    assert len(layout) < packing._MAX_LAYOUT
