"""Nodes of a deployment that the audit starts, and all that a server sees of their replies."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, RecordDict

from ..data.users import Users
from ..guarantee.budget import Cost, place_of
from ..guarantee.ledger import SqliteLedger
from ..guarantee.messages import CENSUS, QUERY, Query
from ..randomizers import NodeSum, Randomizer, RecordMechanism
from ..simulation.grid import InProcessGrid
from .probe import MakeApp
from .replies import Parts, parts_of

#: Settings of a node's operator, by their names in ``node_config``.
NodeConfig = dict[str, str | int | float | bool]

NODE_ID = 4711
_SHARED = Path("/dev/shm")
#: Folder in memory for temporary ledgers, which need not wait for the disk.
MEMORY = _SHARED if _SHARED.is_dir() else None
#: Nodes that may collude with the server, by the operator's settings, where noise is shared.
MAX_DISHONEST = 1
_CLIENT_RAISED = 2  # Flower's error code
_NUM_RECORDS = 3  # number of a silo's records that its operator declares


def terms_for(randomizer: Randomizer, ledger: Path) -> NodeConfig:
    """Return an operator's settings under which every user can pay for one plan of a mechanism.

    The settings allow anything else. ``ledger`` is the path of the ledger's file.
    """
    cost = Cost.of(randomizer)
    terms: NodeConfig = {
        "max-epsilon": cost.epsilon,
        "max-delta": cost.delta,
        "allow-inexact": True,
        "min-epsilon": 0.0,
        "max-width": 1 << 40,
        "features-public": True,
        "unit": "user",
        "noise": place_of(randomizer),
        "ledger-path": str(ledger),
    }
    if isinstance(randomizer, RecordMechanism):
        terms |= {"unit": "record", "num-records": _NUM_RECORDS}
    if isinstance(randomizer, NodeSum) and randomizer.shared:
        terms |= {"max-epsilon-alone": randomizer.alone, "max-dishonest": MAX_DISHONEST}
    return terms


@dataclass(frozen=True)
class DeployedNode:
    """Node that answers as in a deployment, with the operator's settings and without a seed."""

    make_app: MakeApp
    load_users: Callable[[Context], Users]
    node_config: NodeConfig

    @classmethod
    def started(
        cls, make_app: MakeApp, people: Users, randomizer: Randomizer, path: Path, **more: Any
    ) -> Self:
        """Return a node with these users, who get ids, and with a new ledger in the file ``path``.

        ``more`` are settings in addition to those of :func:`terms_for`.
        """
        SqliteLedger.create(path)
        users = replace(people, ids=np.array([f"{i:04d}" for i in range(len(people))]))
        return cls(make_app, lambda _: users, {**terms_for(randomizer, path), **more})

    @property
    def ledger(self) -> SqliteLedger:
        """Ledger file of the node's operator."""
        return SqliteLedger(str(self.node_config["ledger-path"]))

    def ask(self, query: Query | None) -> tuple[Message, Parts]:
        """Send a query, or the census if it is None; return the reply, and the reply's form."""
        if query is None:
            return self.send(CENSUS, RecordDict())
        return self.send(QUERY, query.to_record_dict())

    def send(self, kind: str, content: RecordDict) -> tuple[Message, Parts]:
        """Send a message to the node; return the reply and its form.

        Every message is handled by a newly started client, as in a SuperNode.
        """
        app = self.make_app(self.load_users, lambda _: None)
        grid = InProcessGrid(app, 1)
        asked = grid.create_message(content, f"query.{kind}", NODE_ID, "17", 3600.0)
        asked.metadata.__dict__["_message_id"] = "message"
        before = dict(asked.metadata.__dict__)
        context = Context(1, NODE_ID, dict(self.node_config), RecordDict(), {})
        try:
            reply = app(asked, context)
        except Exception as error:  # Flower sends the error to the server
            reply = Message(Error(_CLIENT_RAISED, repr(error)), reply_to=asked)
        return reply, form(reply, before["_created_at"] + before["_ttl"])


def form(reply: Message, deadline: float) -> Parts:
    """Return by name all that a server sees of a reply, except its time and arrays' contents.

    The forms of replies of neighbouring nodes must be equal.
    """
    form, values = parts_of(reply, deadline)
    return form | {path: _described(value) for path, value in values.items()}


def _described(value: object) -> object:
    if isinstance(value, Array):
        return value.dtype, tuple(value.shape), value.stype, len(value.data)
    return type(value).__name__, value


def contents(reply: Message) -> bytes:
    """Return the bytes of all arrays in a reply; there are none in an error."""
    if reply.has_error():
        return b""
    arrays = (record for record in reply.content.values() if isinstance(record, ArrayRecord))
    return b"".join(array.data for record in arrays for array in record.values())


def fails(context: Context) -> Users:
    """Raise an error instead of loading users; its message contains private facts about a user."""
    raise ValueError("patient-0001 has 3 rows")
