"""Apps whose protection is Flower's own, and less than it seems."""

from strangers import LEGACY_CLIENT, App

EVALUATED = """
    def evaluate(self, parameters, config):
        return loss(*parameters, self.x, self.y), len(self.x), {}
"""
SECURE_SERVER = """
import numpy as np
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    start = ndarrays_to_parameters([np.zeros(5), np.zeros(1)])
    strategy = FedAvg(initial_parameters=start, min_available_clients=4)
    config = ServerConfig(num_rounds=1)
    context = LegacyContext(context=context, config=config, strategy=strategy)
    aggregated = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2)
    DefaultWorkflow(fit_workflow=aggregated)(grid, context)
"""


def secure(evaluated=""):
    """Return an app whose updates are masked, and whatever it says when it is evaluated."""
    client = LEGACY_CLIENT.replace("UPDATE", "update").replace(
        "from flwr.client import NumPyClient",
        "from flwr.client import NumPyClient\nfrom flwr.client.mod import secaggplus_mod",
    )
    client = client.replace("client_fn=client_fn)", "client_fn=client_fn, mods=[secaggplus_mod])")
    client = client.replace("\n\ndef client_fn", f"{evaluated}\n\ndef client_fn")
    return App(client=client, server=SECURE_SERVER)


FLOWER_FAULTY = {
    "losses_beside_secure_aggregation": secure(EVALUATED),
    "adaptive_clipping_only": App(
        top="from flwr.clientapp.mod import adaptiveclipping_mod",
        mods="adaptiveclipping_mod",
        wrapped="DifferentialPrivacyClientSideAdaptiveClipping(strategy, 0.1, 4)",
        imported="DifferentialPrivacyClientSideAdaptiveClipping",
    ),
}
