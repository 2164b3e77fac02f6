"""The private half: a silo's records. It trains any network that comes as data."""

from typing import Any

import numpy as np
from flwr.app import Context

from ldp_flower.clients import NetworkClientApp

from .task import invented, seed_of

IMAGES_EACH = 5  # invented images of a patient


def load_records(context: Context) -> tuple[Any, Any, Any]:
    """Return invented images in simulation, the operator's file in a deployment.

    The third array has each image's patient, or is None: for runs with ``unit="user"``.
    """
    node = context.node_config
    if "partition-id" in node:
        number = int(context.run_config["num-records"])
        images, labels = invented(number, 1 + int(node["partition-id"]))
        return images, labels, np.arange(number) // IMAGES_EACH
    with np.load(str(node["data-path"]), allow_pickle=False) as file:
        return file["records"], file["targets"], file.get("owners")


app = NetworkClientApp(load_records, seed=lambda context: seed_of(context.run_config))
