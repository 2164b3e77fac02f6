"""The mod as a black box: whatever the app does, what leaves was trained by DP-SGD, and paid."""

import importlib.util
from uuid import uuid4

import numpy as np
import pytest
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg
from flwr.supercore.task_identity import TaskIdentity
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from ldp_flower import InProcessGrid, PrivacyPolicy
from ldp_flower.clients import RecordDpSgdMod, Refusal, dp_sgd
from ldp_flower.clients.private_training import record_mod, steps
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.training import RIDER, census
from ldp_flower.supernode.bookkeeping import charges

ROWS = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
LABELS = (ROWS[:, 0] > 0).long()
PLAN = {"epsilon": 2.0, "delta": 1e-5, "num_rounds": 2, "steps": 3, "sampling_rate": 0.5}


def net():
    """A frozen layer, one that learns, and a counter."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    model[0].requires_grad_(False)
    model.register_buffer("counter", torch.tensor(7))
    return model


def loss(model, record):
    rows, labels = record
    return F.cross_entropy(model(rows), labels)


def honest(message, model=None, rows=ROWS):
    """Train as the mod wants it; return a new model with the result."""
    model = model or net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    dp_sgd(model, optimizer, TensorDataset(rows, LABELS[: len(rows)]), loss)
    return model


def plainly(model):
    """Train without privacy."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(5):
        optimizer.zero_grad()
        loss(model, (ROWS, LABELS)).backward()
        optimizer.step()
    return model


def replied(message, arrays=None, metrics=None, config=None):
    content = RecordDict({"arrays": ArrayRecord((arrays or net()).state_dict())})
    content["metrics"] = MetricRecord({"num-examples": len(ROWS), "loss": 4.711, **(metrics or {})})
    if config:
        content["config"] = ConfigRecord(config)
    return Message(content, reply_to=message)


def outside_first(message):
    honest(message, plainly(net()))
    return replied(message)


def outside_after(message):
    return replied(message, plainly(honest(message)))


def outside_in_the_loss(message):
    model = net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    called = []

    def meddling(given, record):
        if not called:
            with torch.no_grad():
                model[1].weight.add_(ROWS.mean())
                model[0].weight.add_(ROWS.mean())
            called.append(True)
        return loss(given, record)

    dp_sgd(
        model,
        torch.optim.SGD(model[1].parameters(), lr=0.5),
        TensorDataset(ROWS, LABELS),
        meddling,
    )
    return replied(message, model)


def data_in_records(message):
    honest(message)
    return replied(message, metrics={"mean": float(ROWS.mean())}, config={"row": str(ROWS[0])})


def data_in_the_message(message):
    honest(message)
    message.content["arrays"]["0.weight"] = Array(ROWS[:4].numpy())
    message.content["metrics"] = MetricRecord({"mean": float(ROWS.mean())})
    message.metadata.__dict__["_group_id"] = "patient 4711"
    return Message(message.content, reply_to=message)


def raises_after(message):
    honest(message)
    raise ValueError("patient 4711")


def leaves_after(message):
    honest(message)
    raise SystemExit(4711)


def nothing_after(message):
    honest(message)


def twice(message):
    honest(message)
    with pytest.raises(RuntimeError, match="Expected one call"):
        honest(message)
    return replied(message)


#: All of these have trained by dp_sgd, whatever else they do.
TRAINED = [
    outside_first,
    outside_after,
    outside_in_the_loss,
    data_in_records,
    data_in_the_message,
    raises_after,
    leaves_after,
    nothing_after,
    twice,
]


def not_at_all(message):
    return replied(message, plainly(net()))


def raises_before(message):
    raise ValueError("patient 4711")


def refused_inside(message):
    raise Refusal(4711, "patient 4711")


def wrong_loss(message):
    model = net()
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.5)
    try:
        dp_sgd(model, optimizer, TensorDataset(ROWS, LABELS), lambda model, x, y: 0)
    except ValueError:
        return replied(message, plainly(model))


#: None of these has.
UNTRAINED = [not_at_all, raises_before, refused_inside, wrong_loss]


def app_of(train, **arguments):
    times = {"trained": 0}
    app = ClientApp(mods=[RecordDpSgdMod(**PLAN | arguments)])

    @app.train()
    def handler(message, context):
        times["trained"] += 1
        return train(message)

    return app, times


def content(model=None, server_round=1, name="arrays"):
    arrays = ArrayRecord((model or net()).state_dict())
    return RecordDict({name: arrays, "config": ConfigRecord({"server-round": server_round})})


def send(app, sent, grid=None, message_type="train"):
    grid = grid or InProcessGrid(app, 1)
    (reply,) = grid.send_and_receive([Message(sent, 1, message_type)])
    return reply


def bits(reply):
    """Return all that a reply holds."""
    return {
        name: {key: (a.dtype, a.data) for key, a in record.items()}
        if isinstance(record, ArrayRecord)
        else dict(record)
        for name, record in reply.content.items()
    }


@pytest.mark.parametrize("train", TRAINED, ids=lambda train: train.__name__)
def test_what_leaves_is_what_the_steps_have_made(train):
    """With a seed, to the last bit what an app sends that does nothing else."""
    reply = send(app_of(train, seed=3)[0], content())
    model = None

    def plain(message):
        nonlocal model
        model = honest(message)
        return replied(message, model)

    expected = send(app_of(plain, seed=3)[0], content())
    assert bits(reply) == bits(expected)
    assert reply.metadata.group_id == expected.metadata.group_id
    # The model that the app is left with is that which leaves, and has learnt something.
    state = reply.content["arrays"].to_torch_state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert {n for n, tensor in net().state_dict().items() if not torch.equal(state[n], tensor)} == {
        "1.weight",
        "1.bias",
    }
    assert set(reply.content) == {"arrays", "metrics"}
    assert dict(reply.content["metrics"]) == {"num-examples": len(ROWS)}


@pytest.mark.parametrize("train", UNTRAINED, ids=lambda train: train.__name__)
def test_without_it_nothing_leaves_and_the_error_is_paid_once(train, ledger, node_config):
    """Whether it fails may depend on records, so that it is no question to ask for nothing."""
    app, _ = app_of(train)
    reply = deployed(app, content(), node_config)
    assert (reply.error.code, reply.error.reason) == (
        104,
        "Training failed on the node; its log says why.",
    )
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    app, times = app_of(outside_after)
    assert deployed(app, content(), node_config).error.code == 104 and not times["trained"]


def test_training_that_fails_at_records_gives_what_a_round_without_records_does(
    ledger, node_config, caplog
):
    """Here the optimiser fails in the first attempt; the second one draws nobody."""
    drawn, rows = [], ROWS.clone()

    class Rows(TensorDataset):
        def __getitem__(self, place):
            drawn.append(place)
            return super().__getitem__(place)

    def fails_once(message):
        model = net()
        optimizer = torch.optim.SGD(model[1].parameters(), lr=0.5)
        if not times["failed"]:
            times["failed"] = 1
            message.content["config"]["server-round"] = int(rows[0, 0])  # is not seen again
            optimizer.step = lambda: 1 / 0
        else:
            drawn.clear()
            assert message.content["config"]["server-round"] == 1
        dp_sgd(model, optimizer, Rows(rows, LABELS), loss)
        return replied(message)

    app, times = app_of(fails_once)
    times["failed"] = 0
    reply = deployed(app, content(), node_config)
    assert "given without data" in caplog.text and times["trained"] == 2
    assert set(drawn) <= {0}  # whose form is public
    state = reply.content["arrays"].to_torch_state_dict()
    assert not torch.equal(state["1.weight"], net().state_dict()["1.weight"])
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    assert deployed(app, content(), node_config).content == reply.content


@pytest.mark.parametrize("kind", ["evaluate", "query", "query.report"])
def test_nothing_but_training_is_answered(kind):
    app, _ = app_of(nothing_after)
    category, _, action = kind.partition(".")
    getattr(app, category)(*[action][: len(action)])(lambda m, c: replied(m))
    assert send(app, content(), message_type=kind).error.code == Refusal.FORBIDDEN


def with_nan():
    model = net()
    with torch.no_grad():
        model[0].weight[0, 0] = torch.nan
    return model


@pytest.mark.parametrize(
    "sent",
    [
        RecordDict(),
        RecordDict({"arrays": ArrayRecord()}),
        {**content(), "more": ArrayRecord(net().state_dict())},
        content(with_nan()),
        census(),
        {**content(), RIDER: ConfigRecord()},
    ],
)
def test_what_is_no_message_of_flowers_strategies_is_refused(sent):
    app, times = app_of(nothing_after)
    assert send(app, RecordDict({**sent})).error.code == Refusal.MALFORMED
    assert times["trained"] == 0


def test_the_server_may_call_its_model_as_it_likes():
    app, _ = app_of(lambda message: honest(rename(message)))

    def rename(message):
        message.content["arrays"] = message.content.pop("global")
        return message

    assert set(send(app, content(name="global")).content) == {"global", "metrics"}


@pytest.mark.slow
def test_any_of_flowers_strategies_averages_and_the_model_learns():
    """Four silos, and labels by what the frozen layer shows: 0.99 and 0.88 on this seed."""
    torch.manual_seed(1)
    silos = torch.randn(4, 500, 4)
    with torch.no_grad():
        labels = (net()[0](silos)[..., 0] > 0).long()

    @torch.no_grad()
    def right(model):
        return (model(silos).argmax(-1) == labels).float().mean()

    def train(message, context):
        mine, model = context.node_config["partition-id"], net()
        optimizer = torch.optim.SGD(model[1].parameters(), lr=5.0)
        dp_sgd(model, optimizer, TensorDataset(silos[mine], labels[mine]), loss)
        return replied(message)

    mod = RecordDpSgdMod(8.0, 1e-5, num_rounds=6, seed=0)
    app = ClientApp(mods=[mod])
    app.train()(train)
    for strategy in (
        FedAvg(fraction_evaluate=0.0, min_available_nodes=4),
        FedAdam(fraction_evaluate=0.0, min_available_nodes=4, eta=0.3),
    ):
        # Flower's own optimisers average floats only.
        initial = ArrayRecord({k: v for k, v in net().state_dict().items() if k != "counter"})
        result = strategy.start(InProcessGrid(app, 4), initial, num_rounds=6)
        model = net()
        model.load_state_dict(result.arrays.to_torch_state_dict(), strict=False)
        assert right(model) > 0.8 and right(net()) < 0.7


def test_seeded_training_depends_on_seed_node_and_message_alone():
    def weights(seed, **changes):
        app, _ = app_of(nothing_after, seed=seed)
        grid = InProcessGrid(app, 2)
        sent = [Message(content(**changes), node, "train") for node in (1, 2)]
        replies = {r.metadata.src_node_id: r for r in grid.send_and_receive(sent)}
        return [replies[n].content["arrays"]["1.weight"].data for n in (1, 2)]

    assert weights(1) == weights(1)
    assert len({*weights(1), *weights(2), *weights(1, server_round=2), *weights(None)}) == 8


# -------------------------------------------------------------------------- deployments


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(steps, "with_noise", lambda sums, sigma, rng: sums)


def deployed(app, sent, node_config, run_id=1):
    """Hand a message to an app as its SuperNode does."""
    if vars(TaskIdentity)["_run_id"] is None:  # messages belong to one of Flower's processes
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    message = Message(sent, 5, "train")
    message.metadata.__dict__["_message_id"] = str(uuid4())
    return app(message, Context(run_id, 5, node_config, RecordDict(), {"max-epsilon": 100.0}))


def test_the_whole_plan_is_paid_at_once_and_gives_its_rounds_and_no_more(ledger, node_config):
    app, times = app_of(nothing_after)
    for server_round in (1, 2):
        assert deployed(app, content(server_round=server_round), node_config).has_content()
        assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    assert deployed(app, content(server_round=3), node_config).error.code == Refusal.EXHAUSTED
    assert times["trained"] == 2
    assert [row[3:5] for row in charges(ledger)] == [("train", "RecordDpSgd")]


@pytest.mark.parametrize(
    ("run_id", "change"),
    [
        (2, {}),  # started again, or two at once
        (1, {"sampling_rate": 0.6}),
        (1, {"steps": 4}),
        (1, {"num_rounds": 3}),
        (1, {"epsilon": 1.9}),
    ],
)
def test_another_run_or_plan_is_paid_anew_or_refused(ledger, node_config, run_id, change):
    assert deployed(app_of(nothing_after)[0], content(), node_config).has_content()
    other, times = app_of(nothing_after, **change)
    reply = deployed(other, content(server_round=2), node_config, run_id)
    assert reply.error.code == Refusal.EXHAUSTED and times["trained"] == 0
    richer = node_config | {"max-epsilon": 4.0, "max-delta": 2e-5}
    assert deployed(other, content(server_round=2), richer, run_id).has_content()
    assert ledger.spent()["clinic"].epsilon == 2.0 + change.get("epsilon", 2.0)


def test_the_same_message_gets_the_same_bytes_also_after_a_restart(ledger, node_config):
    first = deployed(app_of(nothing_after)[0], content(), node_config)
    again, times = app_of(data_in_records)
    assert bits(deployed(again, content(), node_config)) == bits(first)
    assert times["trained"] == 0
    assert dict(first.content["metrics"]) == {"num-examples": 50}  # as declared; there are 60


def test_the_spend_is_on_the_ledger_before_the_reply(ledger, node_config, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(record_mod, "as_reply", killed)
    with pytest.raises(KeyboardInterrupt):
        deployed(app_of(nothing_after)[0], content(), node_config)
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"unit": "user"}, Refusal.FORBIDDEN),
        ({"allow-inexact": False}, Refusal.FORBIDDEN),
        ({"max-epsilon": 1.9}, Refusal.FORBIDDEN),
        ({"max-delta": 0.0}, Refusal.FORBIDDEN),
        ({"max-width": 29}, Refusal.FORBIDDEN),  # of 30 parameters
        ({"min-epsilon": 1.1}, Refusal.FORBIDDEN),  # of two rounds
        ({"num-records": None}, Refusal.MISCONFIGURED),
        ({"user-id": None}, Refusal.MISCONFIGURED),
        ({"ledger-path": None}, Refusal.MISCONFIGURED),
        ({"max-epsilon": None}, Refusal.MISCONFIGURED),
    ],
    ids=str,
)
def test_the_operator_decides(ledger, node_config, wrong, code):
    config = {key: value for key, value in (node_config | wrong).items() if value is not None}
    app, times = app_of(nothing_after)
    assert deployed(app, content(), config).error.code == code
    assert times["trained"] == 0 and ledger.spent() == {}


def test_a_seed_is_for_simulations(node_config):
    app, _ = app_of(nothing_after, seed=0)
    assert deployed(app, content(), node_config).error.code == Refusal.MISCONFIGURED


def test_a_rehearsal_draws_nobody_and_spends_nothing(ledger, node_config, monkeypatch):
    sums = []
    honest_noise = steps.with_noise
    monkeypatch.setattr(
        steps, "with_noise", lambda s, sigma, rng: [sums.append(s), honest_noise(s, sigma, rng)][1]
    )
    app, _ = app_of(nothing_after)
    rehearsing = node_config | {"rehearsal": True}
    assert deployed(app, content(), rehearsing).has_content()
    assert len(sums) == 3 * 2 and not np.concatenate(sums, axis=1).any()
    assert ledger.spent() == {}


def test_metrics_leave_if_app_and_operator_call_them_public(ledger, node_config):
    for names, config, told in (
        (["loss"], {"public-metrics": "loss"}, {"loss": 4.711}),
        (["loss"], {}, {}),
        ([], {"public-metrics": "loss"}, {}),
    ):
        app, _ = app_of(data_in_records, public_metrics=names)
        named = node_config | config | {"user-id": f"clinic {len(ledger.spent())}"}
        for _ in range(2):  # the second from the ledger
            reply = deployed(app, content(), named)
            assert dict(reply.content["metrics"]) == {"num-examples": 50} | told


def test_a_rehearsal_shows_no_public_metric_either(ledger, node_config):
    app, _ = app_of(data_in_records, public_metrics=["loss"])
    rehearsing = node_config | {"public-metrics": "loss", "rehearsal": True}
    reply = deployed(app, content(), rehearsing)
    assert dict(reply.content["metrics"]) == {"num-examples": 50}


@pytest.mark.parametrize("rows", [0, 1, 49, 50, 60])
def test_the_form_of_a_reply_does_not_depend_on_the_number_of_records(node_config, rows):
    app, _ = app_of(lambda message: honest(message, rows=ROWS[:rows]))
    reply = deployed(app, content(), node_config)
    assert dict(reply.content["metrics"]) == {"num-examples": 50}
    shapes = {name: array.shape for name, array in reply.content["arrays"].items()}
    assert shapes == {name: tuple(t.shape) for name, t in net().state_dict().items()}


def test_what_is_missing_is_named(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(record_mod, "find_spec", lambda n: None if n == "torch" else found(n))
    with pytest.raises(ImportError, match=r"RecordDpSgdMod needs torch: pip install .*torch"):
        RecordDpSgdMod(**PLAN)


def test_arguments_are_checked_where_they_are_given():
    for wrong, message in (
        ({"steps": 0}, "Expected an integer steps >= 1, got 0"),
        ({"policy": 2.0}, "Expected policy to be a PrivacyPolicy"),
        ({"public_metrics": "loss"}, "Expected public_metrics to be names"),
    ):
        with pytest.raises(ValueError, match=message):
            RecordDpSgdMod(**PLAN | wrong)
    assert RecordDpSgdMod(**PLAN, policy=PrivacyPolicy(1.0)).plan.steps == 3


# ------------------------------------------------- one odd record and a server that amplifies

GROUPS, CATEGORIES = 24, 5


def one_hot():
    """Return rows with a 1 in each group of columns."""
    generator = torch.Generator().manual_seed(4)
    chosen = torch.randint(CATEGORIES, (50, GROUPS), generator=generator)
    return F.one_hot(chosen, CATEGORIES).flatten(1).float(), (chosen[:, 0] > 2).long()


def amplifier():
    """Return a model whose first layer adds up 0 for every row, up to the last bit.

    All columns of a group have one weight, and the groups' weights cancel in pairs. What is
    left is how the sum was rounded; its sign opens a gate or closes it.
    """
    torch.manual_seed(5)
    model = torch.nn.Sequential(
        torch.nn.Linear(GROUPS * CATEGORIES, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
    )
    pairs = torch.randn(16, GROUPS // 2)
    weights = torch.cat([pairs, -pairs], 1)[:, torch.randperm(GROUPS)]
    with torch.no_grad():
        model[0].weight.copy_(1e7 * weights.repeat_interleave(CATEGORIES, 1))
        model[0].bias.zero_()
    return model


def bad_label(row, label):
    return row, torch.tensor(4711)


def another_shape(row, label):
    return row[:-1], label


def unreadable(row, label):
    raise ValueError("patient 4711")


@pytest.mark.parametrize("odd", [bad_label, another_shape, unreadable])
def test_a_server_that_amplifies_last_bits_learns_nothing_of_one_odd_record(
    ledger, node_config, noiseless, odd
):
    """One step on all 50 records, without noise: another in one's place moves a sum by 2 at most.

    With a second path for such records, half of all gates opened or closed.
    """
    rows, labels = one_hot()

    class Records(torch.utils.data.Dataset):
        def __init__(self, change):
            self.change = change

        def __len__(self):
            return len(rows)

        def __getitem__(self, index):
            if index == 7 and self.change:
                return self.change(rows[index], labels[index])
            return rows[index], labels[index]

    replies = []
    for change in (None, odd):

        def train(message, change=change):
            model = amplifier()
            dp_sgd(model, torch.optim.SGD(model.parameters(), lr=1.0), Records(change), loss)

        app, _ = app_of(train, steps=1, sampling_rate=1.0, num_rounds=1)
        named = node_config | {"user-id": f"clinic {len(replies)}"}
        reply = deployed(app, content(amplifier()), named)
        state = reply.content["arrays"].to_torch_state_dict()
        replies.append(torch.cat([state[name].flatten() for name in ("2.weight", "2.bias")]))
        assert ledger.spent()[f"clinic {len(replies) - 1}"] == Cost(2.0, 1e-5)
    assert 50 * (replies[0] - replies[1]).norm() <= 2 * (1 + 1e-4)
