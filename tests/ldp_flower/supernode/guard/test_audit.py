"""An audit of a node that guards training finds what it finds of the mod in the app."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from guarded_node import DIM, MODEL, Node, fab_of

from ldp_flower import InProcessGrid
from ldp_flower.audit.distinguish import Sample, likeliest_events
from ldp_flower.clients import LdpUpdateMod
from ldp_flower.guarantee.keys import HASH_END
from ldp_flower.guarantee.messages import Query, Report
from ldp_flower.guarantee.questions import NormalisedUpdate
from ldp_flower.guarantee.training import with_query
from ldp_flower.randomizers import Codebook
from ldp_flower.supernode.run import Run

EPSILON, TIMES, ALPHA = 4.0, 200, 1e-3
TRAIN = "def train(message, context):\n    return returned(message, STEP)\n"


def in_process(message, context, step):
    model = message.content["arrays"]
    moved = {
        name: Array(np.asarray(array.numpy() + (step if array.dtype[0] == "f" else 0), array.dtype))
        for name, array in model.items()
    }
    return Message(RecordDict({"arrays": ArrayRecord(moved)}), reply_to=message)


def reports(train):
    """Return reports of one node under as many seeds, all with the same coin."""
    query = Query(NormalisedUpdate(), Codebook(EPSILON, DIM, num_codewords=4), 1, 0, HASH_END, 1)
    model = ArrayRecord({name: Array(array) for name, array in MODEL.items()})
    content = with_query(RecordDict({"arrays": model}), query)
    codes = np.zeros(TIMES, np.uint64)
    for seed in range(TIMES):
        app = ClientApp(mods=[LdpUpdateMod(seed=seed)])
        app.train()(train)
        (reply,) = InProcessGrid(app, 1).send_and_receive([Message(content, 1, "train")])
        codes[seed] = Report.from_record_dict(reply.content).arrays["reports"][0]
    return codes


def measured(codes):
    """Return how far at least what was chosen on one half tells the other half apart."""
    nothing, half = np.zeros((TIMES // 2, 0)), TIMES // 2
    chosen = {name: Sample(each[:half], nothing) for name, each in codes.items()}
    judged = {name: Sample(each[half:], nothing) for name, each in codes.items()}
    events = likeliest_events(chosen, 4, 0.0, ALPHA / 4)
    return max(event.bound(judged, 0.0, ALPHA / 4) for event in events)


def test_the_audits_figure_is_the_same_through_the_guard(tmp_path):
    node, codes = Node(tmp_path), {"guarded": {}, "plain": {}}
    for step in (1.0, -1.0):
        run, trained = Run(1, "its/name", "1", fab_of(TRAIN.replace("STEP", str(step)))), {}

        def guarded(message, context, run=run, trained=trained):
            if not trained:  # a training for all, since these are alike
                trained["content"] = node.operator._train(message, context, run).content
            return Message(trained["content"], reply_to=message)

        codes["guarded"][str(step)] = reports(guarded)
        codes["plain"][str(step)] = reports(lambda m, c, step=step: in_process(m, c, step))

    figures = {name: measured(each) for name, each in codes.items()}
    print(figures)
    assert figures["guarded"] == figures["plain"]
    assert 0.3 * EPSILON < figures["guarded"] <= EPSILON  # below, it would have seen nothing
