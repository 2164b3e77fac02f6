"""The private half: a node's people, and what they say."""

from pathlib import Path

from flwr.app import Context

from ldp_flower import Users, read_table
from ldp_flower.clients import LdpClientApp

from .task import PERSON, WORD, invented, seed_of


def load_users(context: Context) -> Users:
    """Return the node's share in simulation, the operator's CSV file in a deployment.

    The file that ``ids-path`` names has all people, one a line: without it the server can tell
    how many have said something.
    """
    node, run = context.node_config, context.run_config
    if "partition-id" in node:
        said = invented(int(run["num-users"]))
        users = Users.from_items(said[WORD], groups=said[PERSON])
        return users.partition(int(node["partition-id"]), int(node["num-partitions"]))
    said = read_table(str(node["data-path"]), [PERSON, WORD])
    people = node.get("ids-path")
    everyone = None if people is None else Path(str(people)).read_text("utf-8").splitlines()
    return Users.from_items(said[WORD], groups=said[PERSON], ids=everyone)


app = LdpClientApp(load_users, seed=lambda context: seed_of(context.run_config))
