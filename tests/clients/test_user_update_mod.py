"""Several users behind one node: each reports as on a node of its own, whatever the others hold."""

import logging
import random
import subprocess
import sys
import warnings
from contextlib import nullcontext, suppress
from dataclasses import replace
from uuid import uuid4

import numpy as np
import pytest
from flwr.app import Array, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from test_update_mod import (
    BEHAVIOURS,
    CODEBOOK,
    DIM,
    MODEL,
    Counting,
    changed,
    content,
    query,
    record,
    report_in,
    send,
)

from ldp_flower import InProcessGrid, PrivacyPolicy, Users
from ldp_flower.audit import audit_handler, independence
from ldp_flower.clients import (
    LdpClientApp,
    LdpUpdateMod,
    LdpUserUpdateMod,
    Refusal,
    node,
    user_of,
    user_update_mod,
)
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import CENSUS, HASH_END, MessageError, NodeKeys, Purpose, Query
from ldp_flower.guarantee.training import census, with_query
from ldp_flower.questions import ClippedUpdate, Gradient
from ldp_flower.randomizers import Codebook, HybridMechanism, SampledCoordinate, SubsetHypercube

NUM_USERS = 6
NAMES = list(BEHAVIOURS)


def inexact(epsilon):
    """Return a mechanism in real arithmetic for values of DIM coordinates, without a delta."""
    return SampledCoordinate(HybridMechanism(epsilon), DIM)


def people(number=NUM_USERS, targets=None):
    """Return users with ids and two rows each; the target of user i is i, or as given."""
    targets = np.arange(number) if targets is None else np.asarray(targets, float)
    rows = np.repeat(targets, 2)
    return Users.from_rows(
        np.stack([rows, np.ones(2 * number)], axis=1),
        rows,
        [f"patient-{i:03d}" for i in np.repeat(np.arange(number), 2)],
    )


def app_of(users, behave=None, **arguments):
    """Return an app that trains so for each user, and the targets of those that it has trained.

    By default user i's update is that of the behaviour of number i.
    """
    app, trained = ClientApp(mods=[LdpUserUpdateMod(lambda context: users, **arguments)]), []

    @app.train()
    def train(message, context):
        user = user_of(message)
        trained.append(float(user.targets[0]) if len(user.targets) else None)
        chosen = behave or (lambda message: BEHAVIOURS[NAMES[int(user.targets[0])]](message))
        found = chosen(message)
        return Message(RecordDict(found), reply_to=message) if isinstance(found, dict) else found

    return app, trained


def up(message):
    return changed(weight=MODEL["weight"] + 1)


def slots_in(reply):
    return sorted(report_in(reply)["slots"].tolist())


# ------------------------------------------------------- whatever one user's training does


@pytest.mark.parametrize("mechanism", [CODEBOOK, inexact(2.0)], ids=["codebook", "inexact"])
def test_a_user_reports_whatever_its_training_does_and_the_others_report_the_same(
    mechanism, monkeypatch
):
    """User 2's training does everything that training may do."""
    forms, draws, others, own = set(), set(), set(), set()
    for number in range(len(NAMES)):
        users = people(3, [0, 1, number])
        app, _ = app_of(users, seed=3)
        reply = send(app, content(query(randomizer=mechanism)))
        arrays = report_in(reply)  # which allows nothing else in the reply
        assert sorted(arrays["slots"].tolist()) == [0, 1, 2]
        assert mechanism.well_formed(arrays["reports"], 3), NAMES[number]
        others.add(arrays["reports"][arrays["slots"] != 2].tobytes())
        own.add(arrays["reports"][arrays["slots"] == 2].tobytes())
        config = tuple(sorted(reply.content["config"].items()))
        forms.add((config, tuple((n, a.shape, a.dtype.str) for n, a in sorted(arrays.items()))))
        source = Counting(node.SystemRandom())
        monkeypatch.setattr(node, "SystemRandom", lambda source=source: source)
        send(app_of(users)[0], content(query(randomizer=mechanism)))
        monkeypatch.undo()
        draws.add(source.drawn)
    assert len(forms) == len(others) == len(draws) == 1 < len(own)


def test_the_operator_learns_what_went_wrong_once_and_how_often(caplog):
    numbers = [NAMES.index(name) for name in ("exception", "up", "exit", "NaN", "None", "up")]
    with caplog.at_level(logging.WARNING):
        send(app_of(people(targets=numbers))[0], content())
    assert len([told for told in caplog.records if told.exc_info]) == 1
    assert "patient 4711" in caplog.text and "4 of 6 users" in caplog.text


def values(users, asked, monkeypatch, behave=None):
    """Return what the mechanism was given."""
    seen = []

    def spy(self, given, rng, coins):
        seen.append(np.array(given))
        return np.zeros(len(given), np.uint8)

    monkeypatch.setattr(type(asked.randomizer), "_randomize", spy)
    assert send(app_of(users, behave)[0], content(asked)).has_content()
    monkeypatch.undo()
    return np.concatenate(seen)


@pytest.mark.parametrize("at_once", [1 << 23, 2 * DIM])
def test_values_are_the_updates_of_the_users_in_order(at_once, monkeypatch):
    monkeypatch.setattr("ldp_flower.clients.update_mod._ENTRIES", at_once)

    def behave(message):
        return changed(temperature=2.0 + user_of(message).targets.sum())

    got = values(people(), query(question=ClippedUpdate(radius=6.0)), monkeypatch, behave)
    expected = np.zeros((NUM_USERS, DIM))
    expected[:, 0] = np.minimum(2.0 * np.arange(NUM_USERS), 6.0)
    np.testing.assert_allclose(got, expected)


def test_many_users_leave_as_a_sum_of_their_reports():
    number = 60
    mechanism, asked = CODEBOOK, content(query())
    (sums, _), (few, _) = (app_of(people(number), up, seed=1) for _ in range(2))
    arrays = report_in(send(sums, asked))
    assert set(arrays) == {"count", "sum", "sum_of_squares"} and arrays["count"] == [number]
    keys = NodeKeys(1, 0, number)  # of node 1, which says nothing of where its users come from
    assert mechanism.well_formed(report_in(send(few, content(asked_part(keys))))["reports"], 10)
    coins = keys.coins(1, 1, np.arange(number))
    randomness = node.KeyedRandom(keys.states(Purpose.NOISE, 1, 1, np.arange(number)))
    update = np.array([[0, 1, 1, 1, 1]]) / 2
    reports = mechanism.randomize(np.repeat(update, number, axis=0), randomness, coins)
    np.testing.assert_array_equal(arrays["sum"], mechanism.summarize(reports, coins).sum)


def asked_part(keys, size=10):
    """Return a query to the users with the smallest hashes."""
    return query(high=int(np.sort(keys.hashes(1))[size]))


# ------------------------------------------------------------------------------ isolation


def test_training_sees_one_user_the_apps_records_and_fresh_copies():
    seen = []

    def behave(message):
        user = user_of(message)
        assert set(message.content) == {"arrays", "config", "ldp-flower"}
        assert dict(message.content["config"]) == {"lr": 0.1, "layers": [1, 2]}
        arrays = message.content["arrays"]
        assert {name: arrays[name].numpy().tolist() for name in arrays} == {
            name: array.tolist() for name, array in MODEL.items()
        }
        assert user.features.shape == (2, 2) and user.targets.flags.writeable
        assert len(set(user.targets)) == 1
        seen.append((user.targets[0], user.seed))
        # Into everything that it was given.
        user.features[:] = user.targets[:] = 4711
        message.content["config"]["layers"].append(4711)
        message.content["config"]["lr"] = 4711.0
        arrays["weight"] = Array(np.full((2, 2), 4711.0))
        next(iter(arrays.values())).data = b"4711"
        message.content["more"] = MetricRecord({"a": 4711})
        message.metadata.__dict__["_reply_to_message_id"] = "4711"
        return changed()

    users = people()
    app, trained = app_of(users, behave)
    sent = content(config={"lr": 0.1, "layers": [1, 2]})
    assert send(app, sent).has_content()
    assert [target for target, _ in seen] == trained == list(range(NUM_USERS))
    assert len({seed for _, seed in seen}) == NUM_USERS
    assert all(0 <= seed < 1 << 32 for _, seed in seen)
    np.testing.assert_array_equal(users.targets, np.repeat(np.arange(NUM_USERS), 2))


def meddling(number):
    """Return a train function whose updates are drawn, after user 2 has left traces everywhere."""

    def train(message, context):
        user = user_of(message)
        found = [
            *np.random.standard_normal(3),  # noqa: NPY002
            random.random(),
            sum(kept["rows"] for kept in context.state.config_records.values()),
            context.node_config.get("seen", 0),
            message.content["config"]["lr"],
        ]
        try:
            np.float64(1e308) * 10
        except FloatingPointError:
            found[0] += 1
        if user.targets[0] == 2:
            np.random.standard_normal(number)  # noqa: NPY002
            random.seed(number)
            np.seterr(over="raise" if number % 2 else "ignore")
            context.state["seen"] = ConfigRecord({"rows": number})
            context.node_config["seen"] = number
            message.content["config"]["lr"] = float(number)
        update = np.array([found[0], sum(found[3:]), *found[1:3], 1.0])
        flat = np.concatenate([[2.0], MODEL["weight"].ravel()]) + update
        arrays = {"temperature": flat[0], "weight": flat[1:].reshape(2, 2)}
        return Message(RecordDict(changed(**arrays)), reply_to=message)

    return train


def traces(number, monkeypatch):
    """Return the others' values where user 2 leaves this trace, and what it leaves behind."""
    seen = []

    def spy(self, given, rng, coins):
        seen.append(np.array(given))
        return np.zeros(len(given), np.uint8)

    with monkeypatch.context() as patched:
        patched.setattr(Codebook, "_randomize", spy)
        app = ClientApp(mods=[LdpUserUpdateMod(lambda context: people(), seed=1)])
        app.train()(meddling(number))
        before = random.getstate(), np.random.get_state()[1].tolist(), np.geterr()  # noqa: NPY002
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert send(app, content()).has_content()
        after = random.getstate(), np.random.get_state()[1].tolist(), np.geterr()  # noqa: NPY002
    return np.delete(seen[0], 2, axis=0).tobytes(), before == after


def test_no_users_training_decides_what_another_finds(monkeypatch):
    found = [traces(number, monkeypatch) for number in (0, 1, 5)]
    assert len({others for others, _ in found}) == 1
    assert all(unchanged for _, unchanged in found)


def plant_shared_generators(monkeypatch):
    monkeypatch.setattr(user_update_mod, "isolated_training", lambda seed: nullcontext())


def plant_shared_context(monkeypatch):
    monkeypatch.setattr(user_update_mod, "own_context", lambda context: context)


def plant_shared_records(monkeypatch):
    honest, kept = user_update_mod.with_user, {}

    def with_user(content, user, seed):
        own = honest(content, user, seed)
        own["config"] = kept.setdefault("config", own["config"])
        return own

    monkeypatch.setattr(user_update_mod, "with_user", with_user)


@pytest.mark.parametrize(
    "plant", [plant_shared_generators, plant_shared_context, plant_shared_records]
)
def test_what_is_shared_shows(plant, monkeypatch):
    plant(monkeypatch)
    states = random.getstate(), np.random.get_state(), np.geterr()  # noqa: NPY002
    try:
        found = {traces(number, monkeypatch)[0] for number in (0, 1, 5)}
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        np.seterr(**states[2])
    assert len(found) > 1


LATE = """
import sys
from ldp_flower.clients.user_update_mod import isolated_training
assert "torch" not in sys.modules
with isolated_training(6):
    import torch
    drawn = torch.rand(1)
torch.manual_seed(6)
assert drawn == torch.rand(1)
"""


@pytest.mark.slow
def test_a_user_whose_training_imports_pytorch_first_draws_from_its_own_seed():
    """Or the next one's draws would tell whether this one's has, for lack of rows, say."""
    subprocess.run([sys.executable, "-c", LATE], check=True, timeout=120)


def rows_as_updates(message):
    """Learn from rows as an app without any care would."""
    user = user_of(message)
    with np.errstate(all="ignore"):
        moments = user.features.T @ user.features / len(user.targets)
        update = np.append(moments.ravel(), user.targets.sum())
    return {"arrays": record({"weights": update})}


class Asked(ClientApp):
    """An app with the mod, asked by queries as the audit does: each rides on a train message."""

    def __init__(self, load_users, seed):
        super().__init__()
        self._app = ClientApp(mods=[LdpUserUpdateMod(load_users, seed=seed)])

        @self._app.train()
        def train(message, context):
            return Message(RecordDict(rows_as_updates(message)), reply_to=message)

    def __call__(self, message, context):
        if message.metadata.message_type == f"query.{CENSUS}":
            sent = census()
        else:
            sent = message.content  # of a question that nobody knows there is no train message
            with suppress(MessageError):
                asked = Query.from_record_dict(message.content)
                sent = content(asked, model={"weights": np.zeros(DIM)})
        inner = Message(sent, message.metadata.dst_node_id, "train")
        inner.__dict__["_metadata"] = message.metadata
        inner.metadata.__dict__["_message_type"] = "train"
        return self._app(inner, context)


@pytest.mark.long
def test_the_audit_finds_nothing(monkeypatch):
    """All its attacks: loss, isolation, replay, own noise, census, forms, ledger.

    Everybody trains, so that the crowded node has few users behind the first thousand.
    """
    monkeypatch.setattr(independence, "_MANY_USERS", 1_060)
    rows = {
        "up": ([[3.0, 0.0]], [9.0]),
        "down": ([[0.0, -3.0]], [-9.0]),
        "NaN": ([[np.nan, 1.0]], [1.0]),
    }
    candidates = {name: Users.from_rows(x, y) for name, (x, y) in rows.items()}
    asked = query(randomizer=Codebook(2.0, DIM, num_codewords=8))
    audit = audit_handler(asked, candidates, make_app=Asked, num_reports=600, seed=0)
    assert audit.passed, audit.checks
    assert audit.measured > 0.4  # below, it would have seen nothing


# -------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (RecordDict({"arrays": record(MODEL)}), 100),  # as Flower's own strategies do
        (with_query(RecordDict({"a": record(MODEL), "b": record(MODEL)}), query()), 100),
        (content(model=MODEL | {"temperature": np.array(np.nan)}), 100),
        (content(query(question=Gradient(np.zeros(DIM)))), 100),
        (content(query(randomizer=Codebook(2.0, DIM + 1))), 100),
        (content(query(low=5, high=5)), 100),
        (content(query(randomizer=Codebook(2.1, DIM))), 101),
        (content(query(randomizer=inexact(1.0))), 101),
    ],
)
def test_what_is_refused_trains_nobody_and_costs_nothing(sent, code):
    app, trained = app_of(people(), up, policy=PrivacyPolicy(2.0))
    grid = InProcessGrid(app, 1)
    assert send(app, sent, grid).error.code == code
    assert trained == []
    assert slots_in(send(app, content(), grid)) == list(range(NUM_USERS))


@pytest.mark.parametrize("kind", ["evaluate", "query", "query.report", "evaluate.all"])
def test_an_app_with_the_mod_does_nothing_but_train(kind):
    app, _ = app_of(people(), up)
    category, _, action = kind.partition(".")

    @getattr(app, category)(*[action][: len(action)])
    def leak(message, context):
        return Message(RecordDict({"metrics": MetricRecord({"loss": 4.711})}), reply_to=message)

    assert send(app, content(), message_type=kind).error.code == Refusal.FORBIDDEN


def test_flowers_own_strategy_gets_refusals_only():
    app, trained = app_of(people(), up)
    initial = record({"weight": MODEL["weight"]})
    result = FedAvg(fraction_evaluate=1.0).start(InProcessGrid(app, 3), initial, num_rounds=1)
    assert trained == [] and not result.train_metrics_clientapp.get(1)


def test_a_train_function_without_the_mod_is_told():
    app = ClientApp(mods=[LdpUpdateMod()])
    told = []

    @app.train()
    def train(message, context):
        with pytest.raises(ValueError, match=r"LdpUserUpdateMod\(load_users\) among the mods"):
            user_of(message)
        told.append(True)
        return Message(RecordDict(changed()), reply_to=message)

    assert send(app, content()).has_content() and told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"load_users": people()}, "load_users to be a function .* got Users"),
        ({"policy": {"max_epsilon": 1.0}}, "PrivacyPolicy, got dict"),
        ({"seed": "a"}, "got 'a'"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        LdpUserUpdateMod(**{"load_users": lambda context: people()} | arguments)


def fails(context):
    raise ValueError("patient 4711")


def refuses(context):
    raise Refusal(Refusal.EXHAUSTED, "patient 4711")


@pytest.mark.parametrize("sent", [content(), census()], ids=["query", "census"])
@pytest.mark.parametrize("load", [fails, refuses, lambda context: [4711]])
def test_a_loader_that_fails_says_nothing(load, sent):
    app = ClientApp(mods=[LdpUserUpdateMod(load)])
    app.train()(lambda message, context: message)
    reply = send(app, sent)
    assert reply.error.code == Refusal.FAILED and "4711" not in reply.error.reason


def test_the_census_tells_public_facts_only():
    users = replace(people(), ids=None)
    app = ClientApp(mods=[LdpUserUpdateMod(lambda context: users.partition(1, 3), seed=2)])
    app.train()(lambda message, context: fails(message))
    reply = send(app, census())
    assert dict(reply.content["census"]) == {
        "group": 0,
        "first": 2,
        "users": 2,
        "seeded": 1,
        "rehearsing": 0,
        "simulated": 1,
        "exhausted": 0,
        "features": 2,
    }


# ------------------------------------------------------------- everybody's own account


@pytest.fixture
def node_config(ledger, tmp_path):
    return {"max-epsilon": 2.0, "ledger-path": str(tmp_path / "ledger.db")}


def deployed(app, sent, node_config, kind="train"):
    """Hand a message to an app as its SuperNode does."""
    message = Message(sent, 5, kind)
    message.metadata.__dict__["_message_id"] = str(uuid4())
    reply = app(message, Context(1, 5, dict(node_config), RecordDict(), {"max-epsilon": 100.0}))
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    return reply


def test_each_user_pays_from_its_own_account_and_who_has_spent_is_left_out(ledger, node_config):
    app, trained = app_of(people(), up)
    keys = NodeKeys(5, 0, NUM_USERS)
    some = asked_part(keys, 2)
    first = deployed(app, content(some), node_config)
    spent = slots_in(first)
    assert spent == sorted(keys.addressed(1, 0, some.high).tolist()) and len(spent) == 2
    assert ledger.spent() == {f"patient-{slot:03d}": Cost(2.0) for slot in spent}
    # A restarted node, the same query: the same bytes, and nobody trains.
    restarted, again = app_of(people(), up)
    assert deployed(restarted, content(some), node_config).content == first.content
    assert again == [] and len(trained) == 2
    # Another query, to all: the others answer, and pay.
    everyone = deployed(restarted, content(query(step=2)), node_config)
    left = sorted(set(range(NUM_USERS)) - set(spent))
    assert slots_in(everyone) == left == sorted(again)
    assert ledger.spent() == {f"patient-{slot:03d}": Cost(2.0) for slot in range(NUM_USERS)}
    assert deployed(restarted, content(query(step=3)), node_config).error.code == 102
    assert len(again) == len(left)
    # The same accounts as those of the node's statistics.
    asked = Query(Gradient(np.zeros(2)), SubsetHypercube(1.0, 2), 1, 0, HASH_END, 1)
    statistics = LdpClientApp(lambda context: people())
    refused = deployed(statistics, asked.to_record_dict(), node_config, "query.report")
    assert refused.error.code == Refusal.EXHAUSTED


def test_the_spend_is_on_the_ledger_before_the_reply(ledger, node_config, monkeypatch):
    def killed(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("ldp_flower.guarantee.messages.Report.to_record_dict", killed)
    with pytest.raises(KeyboardInterrupt):
        deployed(app_of(people(), up)[0], content(), node_config)
    assert len(ledger.spent()) == NUM_USERS


def test_what_the_apps_code_writes_into_the_context_changes_no_rule(ledger, node_config):
    def meddle(context):
        context.node_config |= {"max-epsilon": 100.0, "rehearsal": True, "ledger-path": "no.db"}
        context.state["ldp-spent"] = ConfigRecord()
        return people()

    app = ClientApp(mods=[LdpUserUpdateMod(meddle)])

    @app.train()
    def train(message, context):
        meddle(context)
        return Message(RecordDict(up(message)), dst_node_id=0, message_type="train")

    assert slots_in(deployed(app, content(), node_config)) == list(range(NUM_USERS))
    assert ledger.spent() == {f"patient-{slot:03d}": Cost(2.0) for slot in range(NUM_USERS)}
    assert deployed(app, content(query(step=2)), node_config).error.code == Refusal.EXHAUSTED


def test_a_simulation_may_take_its_runs_seed(node_config):
    def answered(seed, run_config):
        app, _ = app_of(people(), up, seed=seed)
        return send(app, content(), InProcessGrid(app, 1, run_config))

    assert answered("run", {"seed": 3}).content == answered(3, {}).content
    assert answered("run", {"seed": 3}).content != answered(4, {}).content
    assert answered("run", {}).error.code == Refusal.MISCONFIGURED
    app, _ = app_of(people(), up, seed="run")
    assert deployed(app, content(), node_config).has_content()


def test_an_operator_decides(ledger, node_config):
    nameless, trained = app_of(replace(people(), ids=None), up)
    assert deployed(nameless, content(), node_config).error.code == Refusal.MISCONFIGURED
    app, trained_too = app_of(people(), up, policy=PrivacyPolicy(100.0, allow_inexact=True))
    for missing in node_config:
        config = {key: value for key, value in node_config.items() if key != missing}
        assert deployed(app, content(), config).error.code == Refusal.MISCONFIGURED
    real_valued = content(query(randomizer=inexact(2.0)))
    assert deployed(app, real_valued, node_config).error.code == Refusal.FORBIDDEN
    seeded, _ = app_of(people(), up, seed=1)
    assert deployed(seeded, content(), node_config).error.code == Refusal.MISCONFIGURED
    assert ledger.spent() == {} and trained == trained_too == []


def test_training_sees_as_many_rows_as_the_operator_allows_and_none_that_is_not_finite(
    node_config,
):
    rows = [[0.0, np.nan], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    users = Users.from_rows(rows, [0.0, 1.0, 2.0, 3.0], ["a", "a", "a", "b"], ids=["a", "b", "c"])
    app = ClientApp(mods=[LdpUserUpdateMod(lambda context: users)])
    seen = []

    @app.train()
    def train(message, context):
        seen.append(user_of(message).targets.tolist())
        return Message(RecordDict(changed()), reply_to=message)

    reply = deployed(app, content(), node_config | {"max-rows": 2})
    assert slots_in(reply) == [0, 1, 2] and seen == [[1.0], [3.0], []]


def test_a_rehearsal_says_nothing_and_costs_nothing(ledger, node_config, monkeypatch):
    given = []
    honest = Codebook._randomize

    def spy(self, values, rng, coins):
        given.append(np.array(values))
        return honest(self, values, rng, coins)

    monkeypatch.setattr(Codebook, "_randomize", spy)
    app, trained = app_of(people(), up)
    reply = deployed(app, content(), node_config | {"rehearsal": True})
    assert slots_in(reply) == list(range(NUM_USERS)) and len(trained) == NUM_USERS
    assert not given[0].any() and ledger.spent() == {}
