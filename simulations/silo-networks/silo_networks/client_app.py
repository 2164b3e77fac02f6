"""The private half: a silo's records. It trains any network that comes as data."""

from typing import Any

import numpy as np
from flwr.app import Context

from ldp_flower.clients import NetworkClientApp

from .task import invented, seed_of


def load_records(context: Context) -> tuple[Any, Any]:
    """Return invented images in simulation, the operator's file in a deployment."""
    node = context.node_config
    if "partition-id" in node:
        return invented(int(context.run_config["num-records"]), 1 + int(node["partition-id"]))
    with np.load(str(node["data-path"]), allow_pickle=False) as file:
        return file["records"], file["targets"]


app = NetworkClientApp(load_records, seed=lambda context: seed_of(context.run_config))
