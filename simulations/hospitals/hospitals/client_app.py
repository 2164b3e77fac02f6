"""The private half: a hospital's patients."""

from flwr.app import Context

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp

from .task import PATIENT, SCHEMA, invented, seed_of

# The CSV or Parquet file that the operator names, as data-path.
of_file = SCHEMA.loader(user_column=PATIENT)


def load_users(context: Context) -> Users:
    """Return an invented hospital in simulation, the operator's file in a deployment."""
    node, run = context.node_config, context.run_config
    if "partition-id" not in node:
        return of_file(context)
    hospital, hospitals = int(node["partition-id"]), int(node["num-partitions"])
    return SCHEMA.users(invented(int(run["num-users"]), hospital, hospitals), groups=PATIENT)


app = LdpClientApp(load_users, seed=lambda context: seed_of(context.run_config))
