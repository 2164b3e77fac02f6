"""An operator's guarded node, without a SuperNode around it, and apps that are sent to it."""

import io
import zipfile
from itertools import count
from uuid import uuid4

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from ldp_flower.guarantee.keys import HASH_END
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import Query, Report
from ldp_flower.guarantee.questions import NormalisedUpdate
from ldp_flower.guarantee.training import with_query
from ldp_flower.randomizers import Codebook
from ldp_flower.supernode.guard.limits import Limits
from ldp_flower.supernode.guard.sandbox import Sandbox
from ldp_flower.supernode.guard.training import Guarded
from ldp_flower.supernode.run import Run

EPSILON = 2.0
SECRET = "patient-4711"
MODEL = {
    "weight": np.array([[0.5, -0.25], [0.0, 1.0]], np.float32),
    "temperature": np.array(2.0),
    "batches": np.array(7),
}
DIM = 5
PYPROJECT = '[tool.flwr.app.components]\nclientapp = "pkg.client_app:app"\n'
HEAD = """
import json, os, sys
from pathlib import Path
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def returned(message, step=1, **more):
    model = message.content["arrays"]
    moved = {
        name: Array(np.asarray(array.numpy() + (step if array.dtype[0] == "f" else 0), array.dtype))
        for name, array in model.items()
    }
    return Message(RecordDict({"arrays": ArrayRecord(moved | more)}), reply_to=message)


@app.train()
"""


def fab_of(code, **files):
    """Return an app as it is sent: its client's code below the head, and other files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        for name, text in {
            "pyproject.toml": PYPROJECT,
            "pkg/__init__.py": "",
            "pkg/client_app.py": HEAD + code,
            **files,
        }.items():
            opened.writestr(name, text)
    return packed.getvalue()


class Node:
    """An operator's node with data, a ledger and a limit on what runs may use."""

    def __init__(self, folder, kind="bubblewrap", **limits):
        folder.chmod(0o755)  # pytest's own are for their owner only, also from nobody
        self.data = folder / "data"
        self.data.mkdir(exist_ok=True)
        (self.data / "rows.csv").write_text(SECRET)
        self.path = folder / "ledger" / "ledger.db"
        self.path.parent.mkdir(exist_ok=True)
        self.ledger = SqliteLedger.create(self.path)
        self.node_config = {
            "max-epsilon": 1000.0,
            "ledger-path": str(self.path),
            "user-id": "the silo",
            "data-path": str(self.data),
        }
        self.operator = Guarded(Sandbox((self.data,), Limits(**limits), kind))
        self._steps = count(1)

    def query(self):
        """Return a question that has not been asked before."""
        randomizer = Codebook(EPSILON, DIM, num_codewords=8)
        return Query(NormalisedUpdate(), randomizer, 1, 0, HASH_END, next(self._steps))

    def training(self):
        """Return the records of a message that asks such a question."""
        model = ArrayRecord({name: Array(array) for name, array in MODEL.items()})
        own = RecordDict({"arrays": model, "config": ConfigRecord({"lr": 0.1})})
        return with_query(own, self.query())

    def ask(self, fab, kind="train", state=None, content=None):
        """Send a run's message; return the reply."""
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 5, 1
        message = Message(self.training() if content is None else content, 5, kind)
        message.metadata.__dict__["_message_id"] = str(uuid4())
        context = Context(1, 5, dict(self.node_config), state or RecordDict(), {})
        return self.operator.answer(message, context, Run(1, "its/name", "1.0.0", fab))

    def spent(self):
        """Return the epsilon that the ledger has."""
        return {name: cost.epsilon for name, cost in self.ledger.spent().items()}


def report_in(reply):
    """Return the report in a reply, which must be all that there is."""
    assert not reply.has_error(), reply.error
    return Report.from_record_dict(reply.content)
