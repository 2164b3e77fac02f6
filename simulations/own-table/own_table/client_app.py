"""The private half: a node's people."""

from flwr.app import Context

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp

from .task import PERSON, SCHEMA, invented, seed_of

# The CSV or Parquet file that the operator names, as data-path.
of_file = SCHEMA.loader(user_column=PERSON)


def load_users(context: Context) -> Users:
    """Return the node's share of one table in simulation, the operator's file in a deployment."""
    node, run = context.node_config, context.run_config
    if "partition-id" not in node:
        return of_file(context)
    if table := str(run["table"]):
        return SCHEMA.loader(table, user_column=PERSON)(context)
    users = SCHEMA.users(invented(int(run["num-users"])), groups=PERSON)
    return users.partition(int(node["partition-id"]), int(node["num-partitions"]))


app = LdpClientApp(load_users, seed=lambda context: seed_of(context.run_config))
