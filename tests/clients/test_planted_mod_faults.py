"""LdpUpdateMod on neighbouring nodes of a deployment: one form of replies, whatever training does.

And faults planted in it, each of which shows in the form.
"""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid
from ldp_flower.audit.deployed_node import NODE_ID, contents, form
from ldp_flower.clients import LdpUpdateMod, update_mod
from ldp_flower.clients.node import Node
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Query
from ldp_flower.guarantee.training import census, with_query
from ldp_flower.questions import NormalisedUpdate
from ldp_flower.randomizers import Codebook

DIM = 5
CODEBOOK = Codebook(2.0, DIM, num_codewords=8)
MODEL = {"weight": np.zeros(DIM)}


def trained(update, loss):
    """Return a train function that learns this."""

    def train(message: Message, context: Context) -> Message:
        if update is None:
            raise ValueError(f"patient {loss}")
        arrays = ArrayRecord({"weight": Array(np.asarray(update))})
        metrics = MetricRecord({"loss": loss, "num-examples": int(100 * loss)})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return train


TRAININGS = [
    trained(np.ones(DIM), 0.5),
    trained(-np.ones(DIM), 0.25),
    trained(np.full(DIM, np.nan), 2.0),
    trained(np.ones(DIM, np.float32), 3.0),
    trained(np.zeros(DIM), 4.0),
    trained(np.ones(2 * DIM), 5.0),
    trained(None, 6.0),
]


def forms(tmp_path, names=()):
    """Return what a server sees of nodes that train so: census, report, refusal."""
    seen = set()
    for number, train in enumerate(TRAININGS):
        path = tmp_path / f"{number}.db"
        SqliteLedger.create(path)
        config = {"max-epsilon": 2.0, "ledger-path": str(path), "user-id": "u"}
        app = ClientApp(mods=[LdpUpdateMod(public_metrics=names)])
        app.train()(train)
        model = ArrayRecord({name: Array(array) for name, array in MODEL.items()})
        found = []
        for salt in (None, 1, 2):  # two is more than the user can pay
            sent = census()
            if salt is not None:
                query = Query(NormalisedUpdate(), CODEBOOK, salt, 0, HASH_END, 1)
                sent = with_query(RecordDict({"arrays": model}), query)
            asked = InProcessGrid(app, 1).create_message(sent, "train", NODE_ID, "17", 3600.0)
            asked.metadata.__dict__["_message_id"] = "message"
            deadline = asked.metadata.created_at + asked.metadata.ttl
            context = Context(1, NODE_ID, config, RecordDict(), {})
            reply = app(asked, context)
            found.append(form(reply, deadline))
            found.append(len(contents(reply)))
        seen.add(repr(found))
    return seen


@pytest.mark.parametrize("names", [(), ("loss",)], ids=["none declared", "not by the operator"])
def test_all_replies_have_one_form(names, tmp_path):
    assert len(forms(tmp_path, names)) == 1


def leaked(reply, public):
    return {
        name: value
        for record in reply.metric_records.values()
        for name, value in record.items()
        if isinstance(value, float)
    }


def plant_metrics(monkeypatch):
    monkeypatch.setattr(update_mod, "metrics_in", leaked)


def plant_undeclared(monkeypatch):
    """What the app declares public is sent, whatever the operator says."""
    monkeypatch.setattr(LdpUpdateMod, "_public", lambda self, *_: self._public_metrics)


def plant_error_reply(monkeypatch):
    """Training that fails is told."""
    monkeypatch.setattr(
        update_mod,
        "reply_of",
        lambda message, context, call_next: call_next(message, context).content,
    )


def plant_no_report_of_nothing(monkeypatch):
    """An update that is nothing is not reported."""
    honest = update_mod.update_of

    def update(reply, name, sent):
        found = honest(reply, name, sent)
        if not np.isfinite(found).all() or not found.any():
            raise update_mod.Refusal(update_mod.Refusal.FAILED, "No update.")
        return found

    monkeypatch.setattr(update_mod, "update_of", update)


def plant_error_that_leaves(plant):
    """What fails once data are looked at is told."""

    def both(monkeypatch):
        plant(monkeypatch)
        monkeypatch.setattr(Node, "_computed", lambda self, slots, about, _: about(self, slots))

    return both


@pytest.mark.parametrize(
    "plant",
    [
        plant_metrics,
        plant_undeclared,
        plant_error_that_leaves(plant_error_reply),
        plant_error_that_leaves(plant_no_report_of_nothing),
    ],
)
def test_faults_show_in_the_form(plant, tmp_path, monkeypatch):
    plant(monkeypatch)
    assert len(forms(tmp_path, ("loss",))) > 1


@pytest.mark.parametrize("plant", [plant_error_reply, plant_no_report_of_nothing])
def test_an_error_of_some_trainings_alone_shows_nowhere(plant, tmp_path, monkeypatch):
    """The answer is then one that any training may give."""
    plant(monkeypatch)
    assert len(forms(tmp_path)) == 1
