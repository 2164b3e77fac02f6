"""The private half: a node's share of the generated users."""

from flwr.app import Context

from ldp_flower import GeneratedUsers
from ldp_flower.clients import LdpClientApp

from .configuration import setting_of
from .population import Population


def load_users(context: Context) -> GeneratedUsers:
    """Return the node's users; they have no ids, so a deployment refuses them."""
    node, run = context.node_config, context.run_config
    population = Population(setting_of(run), int(run["seed"]))
    return population.users().partition(int(node["partition-id"]), int(node["num-partitions"]))


app = LdpClientApp(load_users, seed="run")
