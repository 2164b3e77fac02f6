"""A node that trains networks which come as data: what is refused, paid and replied."""

import pickle
from dataclasses import replace
from io import BytesIO
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from torch import nn

from ldp_flower import InProcessGrid, PrivacyPolicy
from ldp_flower.clients import NetworkClientApp, Refusal
from ldp_flower.clients.private_training import network_app, steps
from ldp_flower.clients.private_training.child import Child, ChildError, ChildLimits
from ldp_flower.clients.private_training.records import Form
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import ErrorCode
from ldp_flower.guarantee.training import ARRAYS, NETWORK, OPTIMIZERS, NetworkRound
from ldp_flower.models import Limits, Network
from ldp_flower.models.graph import Graph, Operation, Reference, Tensor
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import SystemRandom
from ldp_flower.supernode.bookkeeping import charges

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(60, 4)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0).astype(np.int64)
PLAN = DpSgdPlan(2.0, 1e-5, 2, 3, 0.5, 1.0)


def network():
    """A softmax regression, written by hand: it takes no export."""
    graph = Graph(
        Tensor("float32", (4,)),
        {"w": Tensor("float32", (4, 2), True), "b": Tensor("float32", (2,))},
        (Operation("aten.addmm.default", (Reference("b"), Reference(None), Reference("w")), {}),),
        Reference(0),
        "cross_entropy",
    )
    arrays = {"w": np.zeros((4, 2), np.float32), "b": np.array([0.1, -0.1], np.float32)}
    return Network(graph, arrays)


def wide(width=1 << 20):
    """Takes the mean of many copies of a record, so that a step of the training takes a while."""
    operations = (
        Operation("aten.expand.default", (Reference(None), (1, width)), {}),
        Operation("aten.exp.default", (Reference(0),), {}),
        Operation("aten.mean.dim", (Reference(1), (1,), True), {}),
        Operation("aten.mm.default", (Reference(2), Reference("w")), {}),
    )
    record, weight = Tensor("float32", (1,)), Tensor("float32", (1, 1), True)
    graph = Graph(record, {"w": weight}, operations, Reference(3), "mse")
    return Network(graph, {"w": np.zeros((1, 1), np.float32)})


def record_of(arrays):
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def content(number=1, plan=PLAN, salt=5, optimizer="sgd", net=None):
    net = net or network()
    asked = NetworkRound(net.graph.to_text(), plan, optimizer, 0.5, salt, number)
    return RecordDict({ARRAYS: record_of(net.arrays), NETWORK: asked.to_config()})


class App:
    """An app that counts how often data are loaded."""

    def __init__(self, records=ROWS, targets=LABELS, **arguments):
        self.loaded = 0
        self.data = records, targets
        self.app = NetworkClientApp(self.load, **arguments)

    def load(self, context):
        self.loaded += 1
        return self.data


def deployed(app, sent, node_config, kind="train"):
    """Hand a message to an app as its SuperNode does."""
    if vars(TaskIdentity)["_run_id"] is None:  # messages belong to one of Flower's processes
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    message = Message(sent, 5, kind)
    message.metadata.__dict__["_message_id"] = str(uuid4())
    return app(message, Context(1, 5, node_config, RecordDict(), {}))


def simulated(app, sent):
    (reply,) = InProcessGrid(app, 1).send_and_receive([Message(sent, 1, "train")])
    return reply


def weights(reply):
    return reply.content[ARRAYS]["w"].numpy()


# --------------------------------------------------------------------------- simulations


def test_steps_are_those_of_the_formula(monkeypatch):
    """Softmax regression has gradients that can be written down; all records are drawn."""
    monkeypatch.setattr(steps, "with_noise", lambda sums, sigma, rng: sums)
    plan = replace(PLAN, sampling_rate=1.0, steps=4, max_grad_norm=0.3)
    found = weights(simulated(App().app, content(plan=plan)))
    theta, bias = np.zeros((4, 2)), network().arrays["b"]
    for _ in range(4):
        odds = np.exp(ROWS @ theta + bias)
        errors = odds / odds.sum(1, keepdims=True) - np.eye(2)[LABELS]
        each = ROWS[:, :, None] * errors[:, None]
        lengths = np.linalg.norm(each, axis=(1, 2), keepdims=True)
        theta -= 0.5 * (each * np.minimum(1.0, 0.3 / lengths)).sum(0) / len(ROWS)
    np.testing.assert_allclose(found, theta, atol=1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_simulation_is_reproducible_and_replies_what_is_trained(optimizer):
    replies = [simulated(App(seed=3).app, content(optimizer=optimizer)) for _ in range(2)]
    assert np.array_equal(weights(replies[0]), weights(replies[1]))
    assert set(replies[0].content[ARRAYS]) == {"w"} and weights(replies[0]).any()
    assert dict(replies[0].content["metrics"]) == {"num-examples": 60, "seeded": 1}
    other = simulated(App(seed=4).app, content(optimizer=optimizer))
    assert not np.array_equal(weights(other), weights(replies[0]))


@pytest.mark.parametrize(
    "odd", [np.nan, np.inf, 1e30, "text", None, np.ones(3), np.ones((4, 1)), [1, "a", 2, 3], b"x"]
)
def test_an_odd_record_moves_a_sum_by_its_bound_at_most(monkeypatch, odd):
    """It keeps its place, so that the draw of all others is the same."""
    monkeypatch.setattr(steps, "with_noise", lambda sums, sigma, rng: sums)
    plan = replace(PLAN, steps=1, num_rounds=1, max_grad_norm=0.3)
    rows = [*ROWS]
    rows[7] = np.full(4, odd, np.float32) if isinstance(odd, float) else odd
    found = [weights(simulated(App(data, seed=1).app, content(plan=plan))) for data in (ROWS, rows)]
    moved = np.linalg.norm(found[1] - found[0]) / 0.5 * 0.5 * 60
    assert found[1].any() and moved <= 2 * 0.3 * (1 + 1e-5)


# --------------------------------------------------------------------------- deployments


class ChildOfThisProcess:
    """In the place of the process, which takes seconds to start."""

    def __init__(self, limits):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def prepare(self, task):
        form = Form.of(task.network, task.limits)
        return form, task.without_records(SystemRandom())

    def train(self, task, data):
        return task.trained(data, SystemRandom())


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(network_app, "Child", ChildOfThisProcess)


@pytest.mark.slow
def test_a_deployment_pays_the_plan_once_and_gives_the_same_bytes(ledger, node_config):
    poor = App(child_limits=ChildLimits(memory=64))
    assert deployed(poor.app, content(), node_config).error.code == Refusal.FAILED
    assert ledger.spent() == {}
    app = App()
    first = deployed(app.app, content(), node_config)
    assert form_of(first) == USUAL and weights(first).any()
    assert dict(first.content["metrics"]) == {"num-examples": 50}  # declared; there are 60
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)} and app.loaded == 1
    again = deployed(App().app, content(), node_config)
    assert again.content[ARRAYS]["w"].data == first.content[ARRAYS]["w"].data
    assert deployed(app.app, content(2), node_config).has_content()
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    assert [row[3:5] for row in charges(ledger)] == [("train", "RecordDpSgd")]
    third = content(2, optimizer="adam")  # a third reply of a plan of two
    for other in (third, content(salt=6)):  # and another plan
        assert deployed(app.app, other, node_config).error.code == Refusal.EXHAUSTED
    assert app.loaded == 2


def test_a_node_with_approved_studies_trains_nothing(ledger, node_config, tmp_path):
    file = tmp_path / "studies.toml"
    file.write_text("format = 1\nstudy = []\n")
    file.chmod(0o644)
    app, config = App(), {**node_config, "studies": str(file)}
    assert deployed(app.app, content(), config).error.code == ErrorCode.NOT_APPROVED
    assert app.loaded == 0 and ledger.spent() == {}
    file.write_text("format = 1\n")
    assert deployed(app.app, content(), config).error.code == ErrorCode.STUDIES_FILE


HUGE = Graph(
    Tensor("float32", (4,)),
    {"w": Tensor("float32", (4, 2), True)},
    (Operation("aten.expand.default", (Reference(None), (1 << 30, 4)), {}),),
    Reference(0),
    "mse",
).to_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"text": HUGE}, "Expected at most 4194304 numbers in a value"),
        ({"text": "[" * 10_000}, "deep nesting"),
        ({"text": 3}, "Expected the text of a network"),
        ({"optimizer": "lion"}, "Expected optimizer in"),
        ({"learning_rate": -1.0}, "Expected learning_rate > 0"),
        ({"epsilon": -1.0}, "Expected epsilon > 0"),
        ({"number": 3}, "Expected an integer 1 <= number <= 2"),
        ({"version": 2}, "Expected message format version"),
        ({"more": 1}, "Unknown or missing fields"),
    ],
)
def test_what_is_no_network_is_refused_before_data_are_loaded(ledger, node_config, changes, words):
    app, sent = App(), content()
    sent[NETWORK] = ConfigRecord({**sent[NETWORK], **changes})
    if "text" in changes:
        sent[ARRAYS] = record_of({"w": np.zeros((4, 2), np.float32)})
    reply = deployed(app.app, sent, node_config)
    assert reply.error.code == Refusal.MALFORMED and words in reply.error.reason
    assert app.loaded == 0 and ledger.spent() == {}


def one_operation(name, *arguments, record, **parameters):
    """Return a network of one operation, and what it learns."""
    graph = Graph(
        Tensor("float32", record),
        {key: Tensor("float32", shape, True) for key, shape in parameters.items()},
        (
            Operation("aten.mul.Tensor", (Reference(None), Reference("w")), {}),
            Operation(f"aten.{name}.default", arguments, {}),
            Operation("aten.sum.dim_IntList", (Reference(1, PART.get(name)), (2, 3)), {}),
        ),
        Reference(2),
        "mse",
    )
    arrays = {key: np.ones(shape, np.float32) for key, shape in parameters.items()}
    return Network(graph, arrays)


PART = {"max_pool2d_with_indices": 0, "_native_batch_norm_legit_no_training": 0}
IMAGES, A, B = Reference(0), Reference("a"), Reference("b")
# Accepted by PyTorch's functions for shapes: kernels read or write beside an array, or fail.
MISFITS = {
    "a norm of one number": one_operation(
        *("_native_batch_norm_legit_no_training", IMAGES, None, None, A, B, 0.1, 1e-5),
        **{"record": (8, 2, 2), "w": (8, 2, 2), "a": (1,), "b": (8,)},
    ),
    "windows without an element": one_operation(
        *("max_pool2d_with_indices", IMAGES, (2, 2), (2, 2), (1, 1), (3, 3)),
        **{"record": (8, 2, 2), "w": (8, 2, 2)},
    ),
    "a bias of another size": one_operation(
        *("convolution", IMAGES, A, B, (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        **{"record": (8, 2, 2), "w": (8, 2, 2), "a": (4, 8, 1, 1), "b": (3,)},
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_network_that_does_not_fit_is_refused_before_data_are_loaded(ledger, node_config, name):
    app = App(np.ones((60, 8, 2, 2), np.float32), np.ones((60, 8)))
    reply = deployed(app.app, content(net=MISFITS[name]), node_config)
    assert reply.error.code == Refusal.MALFORMED and "Operation 1 " in reply.error.reason
    assert app.loaded == 0 and ledger.spent() == {}


@pytest.mark.parametrize("arrays", [{}, {"w": np.zeros((4, 2))}, {"w": np.full((4, 2), np.nan)}])
def test_parameters_that_do_not_fit_are_refused(ledger, node_config, arrays):
    app, sent = App(), content()
    sent[ARRAYS] = record_of({"b": np.zeros(2, np.float32), **arrays})
    assert deployed(app.app, sent, node_config).error.code == Refusal.MALFORMED
    assert app.loaded == 0 and ledger.spent() == {}


@pytest.mark.parametrize("forged", ["npz", "npz of none", "pickle", "no header", "long header"])
def test_parameters_that_are_no_arrays_are_refused(ledger, node_config, forged):
    """Before, an archive of arrays was a failure of the app, not a malformed message."""
    archive, empty = BytesIO(), BytesIO()
    np.savez(archive, w=np.zeros((4, 2), np.float32))
    np.savez(empty)
    data = {
        "npz": archive.getvalue(),
        "npz of none": empty.getvalue(),
        "pickle": pickle.dumps(np.zeros((4, 2), np.float32)),
        "no header": b"no header",
        "long header": b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    }[forged]
    app, sent = App(), content()
    arrays = dict(sent[ARRAYS])
    arrays["w"] = Array("float32", (4, 2), "numpy.ndarray", data)
    sent[ARRAYS] = ArrayRecord(arrays)
    error = deployed(app.app, sent, node_config).error
    assert error.code == Refusal.MALFORMED and "parameters as NumPy arrays" in error.reason
    assert app.loaded == 0 and ledger.spent() == {}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"unit": "user"}, Refusal.FORBIDDEN),
        ({"allow-inexact": False}, Refusal.FORBIDDEN),
        ({"max-epsilon": 1.9}, Refusal.FORBIDDEN),
        ({"max-delta": 0.0}, Refusal.FORBIDDEN),
        ({"max-width": 7}, Refusal.FORBIDDEN),  # of 8 parameters
        ({"num-records": None}, Refusal.MISCONFIGURED),
        ({"user-id": None}, Refusal.MISCONFIGURED),
        ({"ledger-path": None}, Refusal.MISCONFIGURED),
        ({"max-epsilon": None}, Refusal.MISCONFIGURED),
    ],
    ids=str,
)
def test_the_operator_decides(ledger, node_config, wrong, code):
    config = {key: value for key, value in (node_config | wrong).items() if value is not None}
    app = App()
    assert deployed(app.app, content(), config).error.code == code
    assert app.loaded == 0 and ledger.spent() == {}


def test_the_apps_own_limits_and_policy_count(ledger, node_config):
    strict = App(limits=Limits(flops=1))
    refused = deployed(strict.app, content(), node_config).error
    assert refused.code == Refusal.MALFORMED and "floating-point" in refused.reason
    poor = App(policy=PrivacyPolicy(1.0, 1e-5, allow_inexact=True, unit="record"))
    assert deployed(poor.app, content(), node_config).error.code == Refusal.FORBIDDEN
    for kind in ("evaluate", "query.report"):  # has no handler
        with pytest.raises(ValueError, match="function registered"):
            deployed(App().app, content(), node_config, kind)
    assert ledger.spent() == {} and not strict.loaded and not poor.loaded


def test_records_that_would_not_fit_are_refused_unpaid(ledger, node_config, monkeypatch):
    """A server chooses their shape, and lists are converted to it: here to 6 GB."""
    product = Operation("aten.mm.default", (Reference(None), Reference("w")), {})
    weight = Tensor("float32", (1 << 20, 1), True)
    graph = Graph(Tensor("float32", (1 << 20,)), {"w": weight}, (product,), Reference(0), "mse")
    net = Network(graph, {"w": np.zeros((1 << 20, 1), np.float32)})
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # whatever the number of cores
    app = App([[1.0]] * 60, [1.0] * 60, child_limits=ChildLimits(memory=2048))
    config = {**node_config, "num-records": 1500}
    reply = deployed(app.app, content(net=net), config)
    assert reply.error.code == Refusal.MALFORMED and "memory limit" in reply.error.reason
    assert app.loaded == 0 and ledger.spent() == {}


@pytest.mark.usefixtures("quick")
def test_a_failure_of_the_loader_says_nothing_and_costs_nothing(ledger, node_config):
    def load(context):
        raise ValueError("patient 4711")

    reply = deployed(NetworkClientApp(load), content(), node_config)
    assert (reply.error.code, reply.error.reason) == (104, "The client failed; its log says why.")
    assert ledger.spent() == {}


@pytest.mark.slow
def test_a_rehearsal_draws_nobody_and_spends_nothing(ledger, node_config):
    """What leaves is noise, the same for all data: here of an exported network."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    net = Network.export(module, ROWS[0], "cross_entropy", ["2.*"])
    app = App(np.full((60, 4), 1e30, np.float32))
    reply = deployed(app.app, content(net=net), node_config | {"rehearsal": True})
    assert set(reply.content[ARRAYS]) == {"2.weight", "2.bias"}
    assert ledger.spent() == {}


# ------------------------------------------------------- once the budget is reserved


def form_of(reply):
    """Return all of a reply but the numbers that were trained."""
    arrays = {name: (a.dtype, a.shape) for name, a in reply.content[ARRAYS].items()}
    return arrays, dict(reply.content["metrics"])


USUAL = ({"w": ("float32", (4, 2))}, {"num-examples": 50})  # checked above


class Fails:
    """Records of which one, when it is read, fails in any way."""

    def __init__(self, failure):
        self.failure = failure

    def __len__(self):
        return len(ROWS)

    def __getitem__(self, place):
        raise self.failure("patient 4711")


@pytest.mark.usefixtures("quick")
def test_records_that_cannot_be_read_are_paid_and_answered(ledger, node_config):
    reply = deployed(App(Fails(SystemExit)).app, content(), node_config)
    assert form_of(reply) == USUAL and weights(reply).any()
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}


@pytest.mark.usefixtures("quick")
def test_a_child_that_fails_with_data_is_paid_and_answered_by_noise(
    ledger, node_config, monkeypatch, caplog
):
    def fails(*given):
        raise ChildError("killed")

    monkeypatch.setattr(ChildOfThisProcess, "train", fails)
    reply = deployed(App().app, content(), node_config)
    assert form_of(reply) == USUAL and weights(reply).any()
    assert "given without data" in caplog.text
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    app = App()
    again = deployed(app.app, content(), node_config)
    assert again.content[ARRAYS]["w"].data == reply.content[ARRAYS]["w"].data
    assert not app.loaded
    assert deployed(app.app, content(salt=6), node_config).error.code == Refusal.EXHAUSTED


@pytest.mark.usefixtures("quick")
def test_an_interrupted_round_is_trained_again_at_no_further_price(
    ledger, node_config, monkeypatch
):
    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ChildOfThisProcess, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            deployed(App().app, content(), node_config)
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    assert deployed(App().app, content(salt=6), node_config).error.code == Refusal.EXHAUSTED
    assert deployed(App().app, content(), node_config).has_content()
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}


@pytest.mark.slow
def test_a_child_that_is_killed_decides_neither_whether_a_node_answers_nor_what_it_pays(
    ledger, node_config, monkeypatch, caplog
):
    """The data of the second node count as such that take long: its time is over at once."""
    honest, seconds = Child.train, iter((600, 0))

    def limited(child, *given):
        monkeypatch.setattr(child, "_limits", SimpleNamespace(seconds=next(seconds)))
        return honest(child, *given)

    monkeypatch.setattr(Child, "train", limited)
    sent = content(plan=replace(PLAN, steps=15, sampling_rate=1.0), net=wide())
    forms, killed = [], []
    for name in ("first", "second"):
        caplog.clear()
        app = App(np.ones((50, 1), np.float32), np.zeros(50))
        reply = deployed(app.app, sent, node_config | {"user-id": name})
        forms.append(form_of(reply))
        killed.append("given without data" in caplog.text)
    assert killed == [False, True]
    assert forms[0] == forms[1]
    assert ledger.spent() == {"first": Cost(2.0, 1e-5), "second": Cost(2.0, 1e-5)}


# ------------------------------------------------------------- files that do not fit


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("records", "targets", "told"),
    [
        (ROWS, LABELS.astype(str), "Expected targets that are numbers, got <U21."),
        (ROWS[:, None], LABELS, "Expected records of 4, got 1 x 4."),
    ],
    ids=["text", "channel"],
)
def test_arrays_that_do_not_fit_as_a_whole_cost_nothing(
    ledger, node_config, caplog, records, targets, told
):
    reply = deployed(App(records, targets).app, content(), node_config)
    assert (reply.error.code, reply.error.reason) == (
        Refusal.MALFORMED,
        "The network takes records of 4 and targets of one number, and this node's have another "
        "form.",
    )
    assert told in caplog.text and ledger.spent() == {}


@pytest.mark.usefixtures("quick")
def test_too_few_targets_cost_nothing(ledger, node_config, caplog):
    reply = deployed(App(ROWS, LABELS[:-1]).app, content(), node_config)
    assert reply.error.reason == "The client failed; its log says why."
    assert "Expected a target for each of 60 records, got 59." in caplog.text
    assert ledger.spent() == {}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("records", "targets", "told"),
    [
        (ROWS, LABELS + 1, "Of 50 records {} count: {} have a target outside 0..1."),
        (ROWS * np.nan, LABELS, "Of 50 records 0 count: 50 hold a number that is not finite."),
    ],
)
def test_values_that_do_not_fit_are_paid_and_told_to_the_operator_alone(
    ledger, node_config, caplog, records, targets, told
):
    reply = deployed(App(records, targets).app, content(), node_config)
    assert form_of(reply) == USUAL
    ones = int(LABELS[:50].sum())
    assert told.format(50 - ones, ones) in caplog.text
    assert ledger.spent()["clinic"] == Cost(2.0, 1e-5)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="Expected load_records to be a function"):
        NetworkClientApp(None)
    with pytest.raises(ValueError, match="Expected policy to be a PrivacyPolicy"):
        NetworkClientApp(lambda context: None, policy=1)
    with pytest.raises(ValueError, match="Expected an integer"):
        ChildLimits(seconds=0)


# ------------------------------------------------------------------ the end of a plan

STOPPABLE = replace(PLAN, num_rounds=4, stoppable=True)


def end_of(plan=STOPPABLE, salt=5):
    sent = content(0, plan, salt)
    return RecordDict({NETWORK: sent[NETWORK]})


@pytest.mark.usefixtures("quick")
def test_an_ended_plan_is_answered_no_more_and_costs_its_rounds(ledger, node_config):
    app = App()
    first = deployed(app.app, content(1, STOPPABLE), node_config)
    assert deployed(app.app, end_of(salt=6), node_config).has_content()  # of another run
    assert ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    for _ in range(2):
        reply = deployed(app.app, end_of(), node_config)
        assert dict(reply.content["metrics"]) == {"ended": 1} and ARRAYS not in reply.content
        spent = ledger.spent()["clinic"]
        assert spent.epsilon == pytest.approx(STOPPABLE.epsilon_after(1)) and spent.epsilon < 1.9
        assert spent.delta == 1e-5
    again = deployed(app.app, content(1, STOPPABLE), node_config)
    assert again.content[ARRAYS]["w"].data == first.content[ARRAYS]["w"].data
    error = deployed(app.app, content(2, STOPPABLE), node_config).error
    assert error.code == Refusal.EXHAUSTED


@pytest.mark.usefixtures("quick")
def test_what_is_no_end_of_a_plan_is_refused(ledger, node_config):
    app = App()
    deployed(app.app, content(1, STOPPABLE), node_config)
    forged = end_of()
    del forged[NETWORK]["stoppable"]  # as if the plan of other noise could end
    of_round = RecordDict({NETWORK: content(1, STOPPABLE)[NETWORK]})
    text = RecordDict({NETWORK: ConfigRecord({**end_of()[NETWORK], "stoppable": "yes"})})
    arrays = RecordDict({NETWORK: record_of(network().arrays)})
    for sent in (forged, of_round, text, arrays):
        assert deployed(app.app, sent, node_config).error.code == Refusal.MALFORMED
    rehearsal = deployed(app.app, end_of(), node_config | {"rehearsal": True})
    assert rehearsal.has_content() and ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    with pytest.raises(ValueError, match="number"):
        content(0)


@pytest.mark.usefixtures("quick")
def test_rounds_of_an_ended_plan_cost_no_less_than_the_least(ledger, node_config):
    """Without it, a plan of hardly any draws would ask for next to nothing, without end."""
    plan = replace(STOPPABLE, num_rounds=2, steps=1, sampling_rate=1e-6)
    least = {"min-epsilon": 1.0, "max-epsilon": 2.0}
    app = App()
    deployed(app.app, content(1, plan), node_config | least)
    assert plan.epsilon_after(1) == 0 and ledger.spent() == {"clinic": Cost(2.0, 1e-5)}
    assert deployed(app.app, end_of(plan), node_config | least).has_content()
    assert ledger.spent()["clinic"].epsilon == pytest.approx(1.0)


def test_the_end_of_a_plan_trains_nothing(ledger, node_config):
    app = App()
    sent = RecordDict({**end_of(), ARRAYS: record_of(network().arrays)})
    error = deployed(app.app, sent, node_config).error
    assert error.code == Refusal.MALFORMED and "end of a plan" in error.reason
    assert ledger.spent() == {} and not app.loaded
