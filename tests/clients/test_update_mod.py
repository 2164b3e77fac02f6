"""The mod as a black box: whatever an app's training does, one randomised report leaves."""

import asyncio
import hashlib
import logging
from collections import Counter
from dataclasses import replace
from uuid import uuid4

import numpy as np
import pytest
from as_sent import AsSent
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import FedAvg

from ldp_flower import InProcessGrid, PrivacyPolicy
from ldp_flower.audit.distinguish import Sample, likeliest_events
from ldp_flower.clients import LdpUpdateMod, Refusal, node, update_mod
from ldp_flower.guarantee.budget import Cost, in_simulation
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.ledger_file import LedgerError
from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Query, Report
from ldp_flower.guarantee.training import census, flattened, parameters_of, with_query
from ldp_flower.questions import ClippedUpdate, FrequentItems, NormalisedUpdate
from ldp_flower.randomizers import (
    BallSum,
    Codebook,
    HybridMechanism,
    SampledCoordinate,
    SubsetHypercube,
)
from ldp_flower.randomness import RandomSource

# A matrix, a parameter without dimensions, a counter without dimensions, a mask.
MODEL = {
    "weight": np.array([[0.5, -0.25], [0.0, 1.0]], np.float32),
    "temperature": np.array(2.0, np.float64),
    "batches": np.array(7, np.int64),
    "mask": np.array([1, 0, 1], np.uint8),
}
DIM = 5
CODEBOOK = Codebook(2.0, DIM, num_codewords=8)
ROTATED = AsSent("normalised_update", {}, {"rotated": 1.0})


def inexact(epsilon):
    """Return a mechanism in real arithmetic for values of DIM coordinates, without a delta."""
    return SampledCoordinate(HybridMechanism(epsilon), DIM)


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def query(**changes):
    arguments = {
        "question": NormalisedUpdate(),
        "randomizer": CODEBOOK,
        "salt": 1,
        "low": 0,
        "high": HASH_END,
        "step": 1,
    }
    return Query(**arguments | changes)


def content(question=None, model=None, config=None):
    own = {"arrays": record(model or MODEL), "config": ConfigRecord(config or {"lr": 0.1})}
    return with_query(RecordDict(own), question or query())


def changed(**arrays):
    return {"arrays": record(MODEL | arrays), "metrics": MetricRecord({"num-examples": 4711})}


def raises(message):
    raise ValueError("patient 4711")


def leaves(message):
    raise SystemExit(4711)


def cancelled(message):
    raise asyncio.CancelledError("patient 4711")


#: What a train function may do, told apart by the data that made it do so.
BEHAVIOURS = {
    "up": lambda message: changed(weight=MODEL["weight"] + 1),
    "down": lambda message: changed(weight=MODEL["weight"] - 1),
    "0-d": lambda message: changed(temperature=1002.0),
    "0-d, down": lambda message: changed(temperature=-1000.0),
    "zero": lambda message: changed(),
    "NaN": lambda message: changed(weight=np.full((2, 2), np.nan)),
    "one NaN, huge": lambda message: changed(weight=np.array([[np.nan, 5000], [0, 0]])),
    "infinite": lambda message: changed(weight=np.array([[np.inf, 1], [0, -np.inf]])),
    "largest": lambda message: changed(temperature=1.7e308, weight=np.full((2, 2), -1.7e308)),
    "smallest": lambda message: changed(weight=MODEL["weight"].astype(float) + 5e-324),
    "counter": lambda message: changed(batches=4711, mask=np.array([4, 7, 11], np.uint8)),
    "other type": lambda message: changed(weight=np.array([[4, 7], [1, 1]])),
    "text": lambda message: changed(weight=np.array([["4711", "x"], ["y", "z"]])),
    "complex": lambda message: changed(weight=np.full((2, 2), 4711j)),
    "other shape": lambda message: changed(weight=np.ones((4711, 1))),
    "flat": lambda message: changed(weight=np.ones(4)),
    "missing": lambda message: {"arrays": record({"weight": MODEL["weight"]})},
    "more arrays": lambda message: changed(patient=np.arange(4711.0)),
    "another record": lambda message: changed() | {"data": record({"x": np.arange(4711.0)})},
    "renamed": lambda message: {"model": record(MODEL | {"weight": MODEL["weight"] + 1})},
    "metrics": lambda message: (
        changed(weight=MODEL["weight"] + 1)
        | {"more": MetricRecord({"loss": 4.711, "row": [4.0, 7.0, 11.0]})}
        | {"config": ConfigRecord({"name": "patient 4711"})}
    ),
    "no records": lambda message: {},
    "None": lambda message: None,
    "no message": lambda message: "patient 4711",
    "error": lambda message: Message(Error(4711 % 256, "patient 4711"), reply_to=message),
    "reply to nothing": lambda message: Message(
        RecordDict(changed()), dst_node_id=1, message_type="train"
    ),
    "exception": raises,
    "exit": leaves,
    "cancelled": cancelled,
    "takes the message apart": lambda message: message.content.clear(),
}


def app_of(behave, mods=(), **arguments):
    """Return an app whose training behaves like that, and how often it has trained."""
    app, trained = ClientApp(mods=[*mods, LdpUpdateMod(**arguments)]), Counter()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        trained["times"] += 1
        found = behave(message)
        return Message(RecordDict(found), reply_to=message) if isinstance(found, dict) else found

    return app, trained


def send(app, sent, grid=None, message_type="train"):
    """Send a message to the one node of a grid and return its reply."""
    grid = grid or InProcessGrid(app, 1)
    (reply,) = grid.send_and_receive([Message(sent, 1, message_type)])
    return reply


def report_in(reply):
    return Report.from_record_dict(reply.content).arrays


# ------------------------------------------------------------------ whatever training does


class Counting(RandomSource):
    """Counts the words that a handler draws."""

    def __init__(self, inner):
        self.inner, self.drawn = inner, 0

    def words(self, shape):
        self.drawn += int(np.prod(shape))
        return self.inner.words(shape)


@pytest.mark.parametrize("mechanism", [CODEBOOK, inexact(2.0)], ids=["codebook", "inexact"])
def test_every_reply_is_one_report_of_one_size(mechanism, monkeypatch):
    forms, draws = set(), set()
    for name, behave in BEHAVIOURS.items():
        source = Counting(node.SystemRandom())
        monkeypatch.setattr(node, "SystemRandom", lambda source=source: source)
        reply = send(app_of(behave)[0], content(query(randomizer=mechanism)))
        monkeypatch.undo()
        assert reply.has_content(), name
        arrays = report_in(reply)  # which allows nothing else in the reply
        assert mechanism.well_formed(arrays["reports"], 1), name
        config = tuple(sorted(reply.content["config"].items()))
        forms.add((config, tuple((n, a.shape, a.dtype.str) for n, a in sorted(arrays.items()))))
        draws.add(source.drawn)
    assert len(forms) == 1 and len(draws) == 1 and draws != {0}


def code_of(reply):
    """Return a number for a whole reply."""
    packed = reply.content["arrays"].to_numpy_ndarrays()[0].tobytes()
    rest = repr([sorted(reply.content["config"].items()), sorted(reply.content)])
    return int.from_bytes(hashlib.sha256(rest.encode() + packed).digest()[:8], "little")


@pytest.mark.long
def test_no_two_behaviours_are_told_apart_better_than_promised():
    """Send every behaviour's report 1,000 times through the whole app and try to tell two apart.

    All reports have the same coin, so that whole replies can be compared. Events are
    chosen on one half and judged by the other: fails by chance once in 10,000 runs.
    """
    epsilon, times, alpha = 1.0, 1000, 1e-4
    sent = content(query(randomizer=Codebook(epsilon, DIM, num_codewords=4)))
    chosen, judged = {}, {}
    logging.getLogger("ldp_flower").setLevel(logging.CRITICAL + 1)
    try:
        for name in ("up", "down", "0-d", "zero", "one NaN, huge", "counter", "metrics"):
            app, _ = app_of(BEHAVIOURS[name])
            codes = np.array([code_of(send(app, sent)) for _ in range(times)], np.uint64)
            nothing = np.zeros((times // 2, 0))
            chosen[name] = Sample(codes[: times // 2], nothing)
            judged[name] = Sample(codes[times // 2 :], nothing)
    finally:
        logging.getLogger("ldp_flower").setLevel(logging.NOTSET)
    events = likeliest_events(chosen, 4, 0.0, alpha / 4)
    measured = max(event.bound(judged, 0.0, alpha / 4) for event in events)
    print(f"measured {measured:.2f} of {epsilon}")
    assert 0.4 * epsilon < measured <= epsilon  # below, the attack would have seen nothing


def test_metrics_declared_public_leave_as_they_are_and_no_others():
    metrics = MetricRecord({"epochs": 3, "loss": 4.711, "row": [4.0, 7.0], "rate": 0.5})
    huge = {"steps": MetricRecord({"steps": 1 << 63})}  # which the wire does not take

    def behave(message):
        return changed() | {"metrics": metrics} | huge

    names = ("epochs", "rate", "row", "steps", "not there")
    app, trained = app_of(behave, public_metrics=names)
    grid = InProcessGrid(app, 1)
    reply = send(app, content(), grid)
    assert dict(reply.content.pop("public-metrics")) == {"epochs": 3, "rate": 0.5}
    assert CODEBOOK.well_formed(report_in(reply)["reports"], 1)
    # Told with the training; the same query again trains nothing and has none to tell.
    again = send(app, content(), grid)
    assert again.content == reply.content and trained["times"] == 1
    for name in ("exception", "None", "no records", "error"):
        reply = send(app_of(BEHAVIOURS[name], public_metrics=names)[0], content())
        assert set(reply.content) == {"config", "arrays"}, name


@pytest.mark.parametrize("names", ["epochs", [1]])
def test_names_of_public_metrics_are_checked(names):
    with pytest.raises(ValueError, match="public_metrics"):
        LdpUpdateMod(public_metrics=names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"policy": {"max_epsilon": 1.0}}, "PrivacyPolicy, got dict"), ({"seed": "a"}, "got 'a'")],
)
def test_policy_and_seed_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        LdpUpdateMod(**arguments)


@pytest.mark.parametrize("name", ["exception", "exit", "other shape", "one NaN, huge", "error"])
def test_the_operator_learns_what_went_wrong(name, caplog):
    with caplog.at_level(logging.WARNING):
        send(app_of(BEHAVIOURS[name])[0], content())
    assert "reports an update of 0" in caplog.text


def test_flowers_local_dp_mod_fails_on_what_this_mod_is_made_for():
    """Where Flower's mod lets data through; should one be mended, this test says so."""
    floats = {name: MODEL[name].astype(float) for name in ("weight", "temperature")}

    def reply_to(found, sent=floats):
        app = ClientApp()

        @app.train(mods=[LocalDpMod(1.0, 1.0, 1.0, 1e-5)])
        def train(message, context):
            return Message(RecordDict(found), reply_to=message)

        own = Message(RecordDict({"arrays": record(sent)}), 1, "train")
        return list(InProcessGrid(app, 1).send_and_receive([own]))

    metrics = MetricRecord({"num-examples": 4711})
    (reply,) = reply_to({"arrays": record(floats | {"temperature": 1002.0}), "metrics": metrics})
    assert reply.content["arrays"]["temperature"].numpy() == 1002.0  # neither clipped nor noised
    assert reply.content["metrics"]["num-examples"] == 4711
    (reply,) = reply_to({"arrays": record(floats)})
    assert "ZeroDivisionError" in reply.error.reason  # a zero update is told from all others
    nan = np.array([[np.nan, 5000], [0, 0]])
    (reply,) = reply_to({"arrays": record(floats | {"weight": nan})})
    weight = reply.content["arrays"]["weight"].numpy()
    assert np.isnan(weight[0, 0]) and weight[0, 1] > 4900  # NaN arrives, the rest unclipped
    counter = floats | {"batches": MODEL["batches"]}
    (reply,) = reply_to({"arrays": record(counter | {"batches": np.array(4711)})}, counter)
    assert reply.content["arrays"]["batches"].numpy() == 4711  # how long it trained
    counted = floats | {"mask": MODEL["mask"]}
    (reply,) = reply_to({"arrays": record(counted | {"weight": floats["weight"] + 1})}, counted)
    assert reply.has_error()  # integers
    assert reply_to({"metrics": metrics}) == []  # lost: a SuperNode would wait for ever


# ------------------------------------------------------------------------------- the value


def values(behave, question, monkeypatch):
    """Return what the mechanism was given."""
    seen = []

    def spy(self, given, rng, coins):
        seen.append(np.array(given))
        return np.zeros(len(given), np.uint8)

    monkeypatch.setattr(type(question.randomizer), "_randomize", spy)
    assert send(app_of(behave)[0], content(question)).has_content()
    monkeypatch.undo()
    return seen[0][0]


def test_the_value_is_the_update_in_the_order_of_names(monkeypatch):
    trained = MODEL | {"weight": MODEL["weight"] + [[1, 2], [3, 4]], "temperature": 2.5}

    def behave(message):
        return {"arrays": record(dict(reversed(trained.items())))}

    update = np.array([0.5, 1, 2, 3, 4])  # temperature, weight
    got = values(behave, query(), monkeypatch)
    np.testing.assert_allclose(got, update / np.linalg.norm(update))
    for radius, expected in ((100.0, update), (2.0, 2 * update / np.linalg.norm(update))):
        clipped = query(question=ClippedUpdate(radius=radius))
        np.testing.assert_allclose(values(behave, clipped, monkeypatch), expected)


def test_an_update_that_is_nothing_counts_as_zero(monkeypatch):
    for name in ("zero", "NaN", "infinite", "exception", "counter", "more arrays"):
        for question in (NormalisedUpdate(), ClippedUpdate(radius=0.5)):
            asked = query(question=question)
            np.testing.assert_array_equal(values(BEHAVIOURS[name], asked, monkeypatch), 0)
    largest = values(BEHAVIOURS["largest"], query(), monkeypatch)
    assert np.linalg.norm(largest) == pytest.approx(1)


def test_training_sees_the_apps_records_and_nothing_else(caplog):
    def behave(message):
        assert set(message.content) == {"arrays", "config"}
        assert dict(message.content["config"]) == {"lr": 0.1}
        assert message.metadata.src_node_id == 0
        arrays = message.content["arrays"]
        assert {name: arrays[name].numpy().tolist() for name in arrays} == {
            name: array.tolist() for name, array in MODEL.items()
        }
        return changed()

    app, trained = app_of(behave)
    send(app, content())
    assert trained["times"] == 1
    assert "no update" not in caplog.text  # where a failed assertion would be


def test_reports_of_many_nodes_average_to_the_update():
    app, _ = app_of(BEHAVIOURS["up"], seed=0)
    grid = InProcessGrid(app, 400)
    mechanism = Codebook(8.0, DIM)
    sent = content(query(randomizer=mechanism))
    replies = grid.send_and_receive([Message(sent, i, "train") for i in grid.contexts])
    total = np.zeros(DIM)
    for reply in replies:
        keys = NodeKeys(0, reply.metadata.src_node_id - 1, 1)
        coins = keys.coins(1, 1, np.zeros(1, np.int64))
        total += mechanism.debias(report_in(reply)["reports"], coins)[0]
    error = total / 400 - [0, 0.5, 0.5, 0.5, 0.5]
    assert np.abs(error).max() < 5 * np.sqrt(mechanism.variance / 400)


# ------------------------------------------------------------------------ paid, and once


def test_the_same_query_trains_once_and_a_different_one_is_refused():
    app, trained = app_of(BEHAVIOURS["up"], policy=PrivacyPolicy(2.0))
    grid = InProcessGrid(app, 1)
    first = send(app, content(), grid)
    assert send(app, content(), grid).content == first.content
    assert trained["times"] == 1
    different = [
        content(query(step=2)),
        content(model=MODEL | {"weight": MODEL["weight"] + 1e-3}),
        content(model=MODEL | {"batches": np.array(8)}),
        content(config={"lr": 0.2}),
    ]
    for sent in different:
        refused = send(app, sent, grid)
        assert refused.error.code == Refusal.EXHAUSTED
    assert trained["times"] == 1
    assert send(app, content(), grid).content == first.content


def test_each_train_function_is_a_question_of_its_own():
    app, trained = app_of(BEHAVIOURS["up"], policy=PrivacyPolicy(4.0))

    @app.train("other")
    def other(message, context):
        trained["other"] += 1
        return Message(RecordDict(changed()), reply_to=message)

    grid = InProcessGrid(app, 1)
    send(app, content(), grid)
    assert send(app, content(), grid, "train.other").has_content()
    assert trained == {"times": 1, "other": 1}
    assert send(app, content(query(step=2)), grid).error.code == Refusal.EXHAUSTED


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (RecordDict({"arrays": record(MODEL)}), 100),  # as Flower's own strategies do
        (RecordDict({"ldp-flower": ConfigRecord({"version": 1})}), 100),
        (RecordDict({"ldp-flower": ConfigRecord({"version": 2, "ask": "census"})}), 100),
        (RecordDict({"ldp-flower": MetricRecord({"version": 1})}), 100),
        (with_query(RecordDict(), query()), 100),
        (with_query(RecordDict({"a": record(MODEL), "b": record(MODEL)}), query()), 100),
        (content(model={"batches": np.array(7)}), 100),
        (content(model=MODEL | {"temperature": np.array(np.nan)}), 100),
        (content(model=MODEL | {"more": np.zeros(1)}), 100),
        (content(query(question=AsSent("gradient"))), 100),
        (content(query(question=FrequentItems(set_size=DIM, domain_size=40))), 100),
        (content(query(question=AsSent("normalised_update", {}, {"radius": 1.0}))), 100),
        (content(query(question=ROTATED)), 100),
        (content(query(randomizer=SubsetHypercube(2.0, 8))), 100),
        (content(query(question=AsSent("clipped_update"))), 100),
        (content(query(question=AsSent("clipped_update", {}, {"radius": 0.0}))), 100),
        (content(query(randomizer=Codebook(2.0, DIM + 1))), 100),
        (content(query(low=5, high=5)), 100),
        (content(query(randomizer=Codebook(2.1, DIM))), 101),
        (content(query(randomizer=inexact(1.0))), 101),
    ],
)
def test_what_is_refused_trains_nothing_and_costs_nothing(sent, code):
    app, trained = app_of(BEHAVIOURS["up"], policy=PrivacyPolicy(2.0))
    grid = InProcessGrid(app, 1)
    assert send(app, sent, grid).error.code == code
    assert trained["times"] == 0
    assert send(app, content(), grid).has_content()  # the budget is still there


def test_a_forged_array_is_refused():
    app, trained = app_of(BEHAVIOURS["up"])
    sent = content()
    forged = Array(dtype="float64", shape=(2,), stype="numpy.ndarray", data=b"no header")
    sent["arrays"] = ArrayRecord({"weight": forged})
    assert send(app, sent).error.code == Refusal.MALFORMED
    assert trained["times"] == 0


@pytest.mark.parametrize("kind", ["evaluate", "query", "query.report", "evaluate.all"])
def test_an_app_with_the_mod_does_nothing_but_train(kind):
    app, _ = app_of(BEHAVIOURS["up"])
    category, _, action = kind.partition(".")

    @getattr(app, category)(*[action][: len(action)])
    def leak(message, context):
        return Message(RecordDict({"metrics": MetricRecord({"loss": 4.711})}), reply_to=message)

    reply = send(app, content(), message_type=kind)
    assert reply.error.code == Refusal.FORBIDDEN and "4" not in reply.error.reason


def test_flowers_own_strategy_gets_refusals_only():
    app, trained = app_of(BEHAVIOURS["up"])
    strategy = FedAvg(fraction_evaluate=1.0)
    initial = record({"weight": MODEL["weight"]})
    result = strategy.start(InProcessGrid(app, 3), initial, num_rounds=1)
    assert trained["times"] == 0
    assert not result.train_metrics_clientapp.get(1)


def test_the_census_tells_public_facts_only():
    app, trained = app_of(BEHAVIOURS["up"], seed=2)
    grid = InProcessGrid(app, 3)
    (reply,) = grid.send_and_receive([Message(census(), 3, "train")])
    assert dict(reply.content["census"]) == {
        "group": 0,
        "first": 2,
        "users": 1,
        "seeded": 1,
        "rehearsing": 0,
        "simulated": 1,
        "exhausted": 0,
    }
    assert trained["times"] == 0


def test_seeded_reports_depend_on_seed_node_and_step_alone():
    mechanism = Codebook(0.5, DIM, num_codewords=256)

    def reports(seed, step=1):
        app, _ = app_of(BEHAVIOURS["up"], seed=seed)
        grid = InProcessGrid(app, 8)
        sent = content(query(randomizer=mechanism, step=step))
        replies = grid.send_and_receive([Message(sent, i, "train") for i in range(1, 9)])
        return [int(report_in(reply)["reports"][0]) for reply in replies]

    assert reports(1) == reports(1)
    assert reports(1) != reports(2) and reports(1) != reports(1, step=2)
    assert len(set(reports(1))) > 1


# -------------------------------------------------------------------------- deployments


@pytest.fixture
def node_config(ledger, tmp_path):
    path = str(tmp_path / "ledger.db")
    return {"max-epsilon": 2.0, "ledger-path": path, "user-id": "patient-17"}


def deployed(app, sent, node_config, node_id=5):
    """Hand a message to an app as its SuperNode does."""
    assert not in_simulation()
    message = Message(sent, node_id, "train")
    message.metadata.__dict__["_message_id"] = str(uuid4())
    context = Context(
        run_id=1,
        node_id=node_id,
        node_config=node_config,
        state=RecordDict(),
        run_config={"max-epsilon": 100.0, "ledger-path": "elsewhere.db", "user-id": "nobody"},
    )
    reply = app(message, context)
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    return reply


@pytest.mark.parametrize("sent", [content(), census()], ids=["query", "census"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"max-epsilon": None},
        {"max-epsilon": "2.0"},
        {"ledger-path": None},
        {"user-id": None},
        {"user-id": ""},
        {"user-id": 17},
        {"max-epsilon": None, "ledger-path": None, "partition-id": 0, "num-partitions": 1},
    ],
    ids=str,
)
def test_an_operator_who_has_not_set_everything_answers_nothing(ledger, node_config, wrong, sent):
    broken = {k: v for k, v in (node_config | wrong).items() if v is not None}
    app, trained = app_of(BEHAVIOURS["up"], policy=PrivacyPolicy(2.0))
    assert deployed(app, sent, broken).error.code == Refusal.MISCONFIGURED
    assert trained["times"] == 0 and ledger.spent() == {}


def test_an_update_with_a_part_of_the_noise_is_refused(ledger, node_config):
    """Masks would have to hide it, and updates have none."""
    app, trained = app_of(BEHAVIOURS["up"])
    node_config |= {"max-delta": 1e-5, "noise": "shared", "max-dishonest": 1}
    for honest in (2, 9):
        asked = query(question=ClippedUpdate(radius=1.0), randomizer=BallSum(2.0, 1e-6, DIM))
        shared = replace(asked, randomizer=replace(asked.randomizer, honest=honest))
        reply = deployed(app, content(shared), node_config)
        assert reply.has_error() and reply.error.code == Refusal.MALFORMED
    assert trained["times"] == 0 and ledger.spent() == {}
    assert report_in(deployed(app, content(asked), node_config))["reports"].shape == (1, DIM)


@pytest.mark.parametrize("sent", [content(), census()], ids=["query", "census"])
def test_a_seed_is_refused(ledger, node_config, sent):
    app, _ = app_of(BEHAVIOURS["up"], seed=0)
    assert deployed(app, sent, node_config).error.code == Refusal.MISCONFIGURED


@pytest.mark.parametrize("name", list(BEHAVIOURS))
def test_whatever_training_does_is_paid_for_once_also_after_a_restart(ledger, node_config, name):
    app, trained = app_of(BEHAVIOURS[name])
    first = deployed(app, content(), node_config)
    restarted, trained_again = app_of(BEHAVIOURS["down"])
    assert deployed(restarted, content(), node_config).content == first.content
    assert (trained["times"], trained_again["times"]) == (1, 0)
    assert ledger.spent() == {"patient-17": Cost(2.0)}
    assert deployed(app, content(query(step=2)), node_config).error.code == Refusal.EXHAUSTED
    # Another node, or the same with a new id, pays from the same account.
    assert deployed(app, content(), node_config, 6).error.code == Refusal.EXHAUSTED
    assert ledger.spent() == {"patient-17": Cost(2.0)}


def test_the_spend_is_on_the_ledger_before_the_reply(ledger, node_config, monkeypatch):
    def killed(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(update_mod.Report, "to_record_dict", killed)
    app, _ = app_of(BEHAVIOURS["up"])
    with pytest.raises(KeyboardInterrupt):
        deployed(app, content(), node_config)
    assert ledger.spent() == {"patient-17": Cost(2.0)}


def test_the_spend_is_on_the_ledger_before_training(ledger, node_config):
    """So how long training takes has no part in who else can pay."""
    spent = []

    def looks(message):
        spent.append(ledger.spent())
        return changed()

    assert report_in(deployed(app_of(looks)[0], content(), node_config))
    assert spent == [{"patient-17": Cost(2.0)}] == [ledger.spent()]


def test_training_that_does_not_come_back_is_paid_once_and_made_up_for(ledger, node_config):
    def interrupted(message):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deployed(app_of(interrupted)[0], content(), node_config)
    assert ledger.spent() == {"patient-17": Cost(2.0)}
    reply = deployed(app_of(BEHAVIOURS["up"])[0], content(), node_config)
    again = deployed(app_of(BEHAVIOURS["down"])[0], content(), node_config)
    assert again.content == reply.content
    assert ledger.spent() == {"patient-17": Cost(2.0)}


def test_a_report_that_cannot_be_stored_is_not_sent(ledger, node_config, monkeypatch):
    def full(*arguments):
        raise LedgerError("disk of patient-17 is full")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteLedger, "fulfil", full)
        reply = deployed(app_of(BEHAVIOURS["up"])[0], content(), node_config)
        assert reply.error.code == Refusal.MISCONFIGURED and "17" not in reply.error.reason
    assert ledger.spent() == {"patient-17": Cost(2.0)}
    assert report_in(deployed(app_of(BEHAVIOURS["up"])[0], content(), node_config))
    assert ledger.spent() == {"patient-17": Cost(2.0)}


def test_the_operator_decides_about_mechanisms(ledger, node_config):
    app, _ = app_of(BEHAVIOURS["up"], policy=PrivacyPolicy(100.0, allow_inexact=True))
    real_valued = content(query(randomizer=inexact(2.0)))
    assert deployed(app, real_valued, node_config).error.code == Refusal.FORBIDDEN
    dear = content(query(randomizer=Codebook(2.1, DIM)))
    assert deployed(app, dear, node_config).error.code == Refusal.FORBIDDEN
    assert ledger.spent() == {}
    allowed = node_config | {"allow-inexact": True}
    assert deployed(app, real_valued, allowed).has_content()


def test_the_operator_decides_about_public_metrics(ledger, node_config):
    """Naming them in the app is not enough, nor in the run's config, nor here alone."""
    named = node_config | {"public-metrics": "loss num-examples"}
    for app_names, config, told in (
        (["num-examples"], named, {"num-examples": 4711}),
        (["num-examples"], node_config, None),
        (["num-examples"], node_config | {"public-metrics": True}, None),
        ([], named, None),
    ):
        app, _ = app_of(BEHAVIOURS["up"], public_metrics=app_names)
        user = f"patient {len(ledger.spent())}"
        reply = deployed(app, content(), config | {"user-id": user})
        found = reply.content.get("public-metrics")
        assert (None if found is None else dict(found)) == told


def test_a_ledger_that_fails_says_nothing(ledger, node_config, monkeypatch):
    def broken(*arguments):
        raise OSError("disk of patient-17 is full")

    monkeypatch.setattr(SqliteLedger, "reserve", broken)
    reply = deployed(app_of(BEHAVIOURS["up"])[0], content(), node_config)
    assert reply.error.code == Refusal.FAILED and "17" not in reply.error.reason


def test_parameters_are_floats_of_any_shape():
    assert flattened(parameters_of(record(MODEL))).tolist() == [2.0, 0.5, -0.25, 0.0, 1.0]
