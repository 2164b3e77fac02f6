"""MONAI's networks are exported and train a step, where MONAI is installed."""

import numpy as np
import pytest
import torch

from ldp_flower import InProcessGrid
from ldp_flower.clients import NetworkClientApp
from ldp_flower.models import Limits, Network
from ldp_flower.strategies import RecordDpSgd

nets = pytest.importorskip("monai.networks.nets")
pytestmark = pytest.mark.long

LIMITS = Limits(frozen=1 << 26)  # of which VNet needs 45 million
# With a record's shape, what is trained and the loss.
NETWORKS = {
    "UNet": (
        lambda: nets.UNet(3, 1, 2, (8, 16, 32), (2, 2), num_res_units=2),
        (1, 16, 16, 16),
        ("*", "dice"),
    ),
    "VNet": (lambda: nets.VNet(3, 1, 2), (1, 16, 16, 16), ("out_tr.*", "dice")),
    "DenseNet121": (lambda: nets.DenseNet121(2, 1, 2), (1, 64, 64), ("class_layers.*", "focal")),
    "SEResNet50": (
        lambda: nets.SEResNet50(spatial_dims=2, in_channels=1, num_classes=2),
        (1, 64, 64),
        ("last_linear.*", "cross_entropy"),
    ),
    "ResNet18": (
        lambda: nets.resnet18(spatial_dims=3, n_input_channels=1, num_classes=2),
        (1, 16, 16, 16),
        ("fc.*", "cross_entropy"),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_monai_trains_a_step(name):
    torch.manual_seed(0)
    made, shape, (trained, loss) = NETWORKS[name]
    module = made().eval()
    rows = np.random.default_rng(0).normal(size=(8, *shape)).astype(np.float32)
    network = Network.export(module, rows[0], loss, [trained], LIMITS)
    expected = module(torch.from_numpy(rows[:2])).detach()
    np.testing.assert_allclose(network.run(rows[:2]), expected, rtol=1e-3, atol=1e-4)
    labels = np.random.default_rng(1).integers(0, 2, (8, *network.target(LIMITS).shape))

    def load_records(context):
        silo = int(context.node_config["partition-id"])
        return rows[silo::2], labels[silo::2]

    plan = {"epsilon": 4.0, "delta": 1e-5, "num_rounds": 1, "steps": 1, "sampling_rate": 1.0}
    app = NetworkClientApp(load_records, limits=LIMITS)
    result = RecordDpSgd(network, **plan, force=True).start(InProcessGrid(app, 2))
    for key in network.graph.trainable:
        assert not np.array_equal(result.network.arrays[key], network.arrays[key]), key
