"""The private half: a node's share of the generated users."""

from flwr.app import Context

from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.environment import in_simulation
from ldp_flower.simulation.generated import GeneratedUsers

from .configuration import setting_of
from .population import Population


def load_users(context: Context) -> GeneratedUsers:
    """Return the node's users; they have no ids, so a deployment refuses them."""
    node, run = context.node_config, context.run_config
    population = Population(setting_of(run), int(run["seed"]))
    return population.users().partition(int(node["partition-id"]), int(node["num-partitions"]))


def seed(context: Context) -> int | None:
    """Return the run's seed in simulation; anywhere else a client refuses to be seeded."""
    return int(context.run_config["seed"]) if in_simulation() else None


app = LdpClientApp(load_users, seed=seed)
