"""A node of a deployment for the audit: the operator's terms, a ledger on disk, whole messages."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, Error, Message, RecordDict

from ..guarantee.budget import Cost
from ..guarantee.ledger import SqliteLedger
from ..guarantee.messages import CENSUS, QUERY, Query
from ..guarantee.users import Users
from ..randomizers import Randomizer, RecordMechanism
from ..simulation.grid import InProcessGrid
from .probe import MakeApp

NODE_ID = 4711
_SHARED = Path("/dev/shm")
#: Where a ledger is made that is thrown away: it need not wait for the disk.
MEMORY = _SHARED if _SHARED.is_dir() else None
_CLIENT_RAISED = 2  # Flower's error code
NUM_RECORDS = 3  # of a silo, as its operator declares

Seen = tuple[object, ...]


def terms_for(randomizer: Randomizer, ledger: Path) -> dict[str, str | int | float | bool]:
    """Return an operator's settings under which every user can pay for one plan."""
    cost, by_record = Cost.of(randomizer), isinstance(randomizer, RecordMechanism)
    return {
        "max-epsilon": cost.epsilon,
        "max-delta": cost.delta,
        "allow-inexact": True,
        "min-epsilon": 0.0,
        "max-width": 1 << 40,
        "features-public": True,
        "unit": "record" if by_record else "user",
        **({"num-records": NUM_RECORDS} if by_record else {}),
        "ledger-path": str(ledger),
    }


@dataclass(frozen=True)
class DeployedNode:
    """A node that answers as in a deployment, with the operator's settings; unseeded."""

    make_app: MakeApp
    load_users: Callable[[Context], Users]
    node_config: dict[str, str | int | float | bool]

    @property
    def ledger(self) -> SqliteLedger:
        """The operator's ledger."""
        return SqliteLedger(str(self.node_config["ledger-path"]))

    def ask(self, query: Query | None) -> tuple[Message, Seen]:
        """Ask for the census (None) or a report; return the reply, and its form.

        As a SuperNode does: every message meets a client that has just been started.
        """
        app = self.make_app(self.load_users, lambda _: None)
        kind = f"query.{CENSUS if query is None else QUERY}"
        content = RecordDict() if query is None else query.to_record_dict()
        asked = InProcessGrid(app, 1).create_message(content, kind, NODE_ID, "17", 3600.0)
        asked.metadata.__dict__["_message_id"] = "message"
        before = dict(asked.metadata.__dict__)
        context = Context(
            run_id=1,
            node_id=NODE_ID,
            node_config=dict(self.node_config),
            state=RecordDict(),
            run_config={},
        )
        try:
            reply = app(asked, context)
        except Exception as error:  # which Flower sends on
            reply = Message(Error(_CLIENT_RAISED, repr(error)), reply_to=asked)
        return reply, form(reply, before["_created_at"] + before["_ttl"])


def form(reply: Message, deadline: float) -> Seen:
    """Return all of a reply that a server sees but its time and the contents of its arrays.

    It lives until the deadline of the message that was asked, in seconds.
    """
    about = reply.metadata
    metadata = (
        (about.run_id, about.message_id, about.src_node_id, about.dst_node_id),
        (about.reply_to_message_id, about.group_id, about.message_type),
        (about.src_task_id, about.dst_task_id, about.delivered_at),
        abs(about.created_at + about.ttl - deadline) < 1e-3,
    )
    if reply.has_error():
        return (*metadata, reply.error.code, reply.error.reason)
    records = [
        (name, type(record).__name__, *((key, _described(record[key])) for key in record))
        for name, record in reply.content.items()
    ]
    return (*metadata, *records)


def _described(value: object) -> object:
    if isinstance(value, Array):
        return value.dtype, tuple(value.shape), value.stype, len(value.data)
    return type(value).__name__, value


def contents(reply: Message) -> bytes:
    """Return the bytes of all arrays in a reply."""
    if reply.has_error():
        return b""
    arrays = (record for record in reply.content.values() if isinstance(record, ArrayRecord))
    return b"".join(array.data for record in arrays for array in record.values())
