"""The census, asked without a server."""

from collections.abc import Mapping
from typing import cast

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity  # private: messages need it

from ..guarantee.messages import CENSUS


def census(app: ClientApp, node_config: Mapping[str, object]) -> Message:
    """Return what an app answers to the census on a node of this configuration."""
    if vars(TaskIdentity)["_run_id"] is None:  # not inside one of Flower's own processes
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    message = Message(RecordDict(), dst_node_id=1, message_type=f"query.{CENSUS}")
    message.metadata.__dict__["_message_id"] = "check"
    config = cast(dict[str, bool | float | int | str], dict(node_config))
    return app(message, Context(1, 1, config, RecordDict(), {}))
