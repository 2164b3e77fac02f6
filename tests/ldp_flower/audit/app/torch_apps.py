"""Clients with PyTorch, of the form that Flower's own examples have."""

from strangers import App

CLIENT = '''
"""A client with PyTorch."""

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
TOP
from {name}.task import load_data

app = ClientApp(mods=[MODS])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(5, 1)

    def forward(self, x):
        return self.fc(x)[:, 0]


def loader_of(context):
    x, y = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    rows = torch.utils.data.TensorDataset(
        torch.tensor(x, dtype=torch.float32), torch.tensor(y == 1, dtype=torch.float32)
    )
    return torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True)


@app.train()
def train(message, context):
    net = Net()
    before = message.content["arrays"].to_torch_state_dict()
    before = {"fc.weight": before["weight"].float()[None], "fc.bias": before["bias"].float()}
    net.load_state_dict(before)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    total = 0.0
    rows = loader_of(context)
PRIVATE
    for x, y in rows:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    state = getattr(net, "_module", net).state_dict()
    metrics = {"num-examples": 1}
TRAIN
    arrays = ArrayRecord({
        "weight": state["fc.weight"][0].double(), "bias": state["fc.bias"].double()
    })
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord(metrics)})
    return Message(content, reply_to=message)
'''

#: This library's mod, whose claim and unit are its own.
OWN_CLIENT = """
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from ldp_flower.clients import RecordDpSgdMod, dp_sgd

from {name}.task import load_data

app = ClientApp(mods=[RecordDpSgdMod(epsilon=1.0, delta=1e-5, num_rounds=3)])


@app.train()
def train(message, context):
    where = context.node_config["partition-id"], context.node_config["num-partitions"]
    x, y = (torch.tensor(array, dtype=torch.float32) for array in load_data(*where))
    model = torch.nn.Module()
    sent = message.content["arrays"].to_torch_state_dict()
    for name, array in sent.items():
        model.register_parameter(name, torch.nn.Parameter(array.float()))

    def loss(model, batch):
        rows, labels = batch
        return ((rows @ model.weight + model.bias[0] - labels) ** 2).mean()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dp_sgd(model, optimizer, torch.utils.data.TensorDataset(x, y), loss)
    arrays = ArrayRecord(model.state_dict())
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)
"""

NOISE = """
    change = {k: state[k] - before[k] for k in state}
    norm = torch.sqrt(sum((c ** 2).sum() for c in change.values()))
    factor = 1.0 / max(1.0, norm.item()) if torch.isfinite(norm) else 0.0
    change = {k: torch.nan_to_num(factor * c) for k, c in change.items()}
    sigma = SIGMA
    state = {k: before[k] + c + sigma * torch.randn(c.shape) for k, c in change.items()}
"""

_HANDED = {"claim": 3.0, "delta": 3e-5}


#: Records are protected: each one's gradient is clipped, and every step gets noise.
OPACUS = """
    trained, optimizer, rows = opacus.PrivacyEngine(accountant="rdp").make_private(
        module=net,
        optimizer=optimizer,
        data_loader=rows,
        noise_multiplier=NOISE,
        max_grad_norm=1.0,
    )
    net = trained
"""


def torch_app(train="", top="", mods="", private="", runs=200, **more):
    client = CLIENT.replace("TOP", top).replace("MODS", mods)
    client = client.replace("TRAIN", train).replace("PRIVATE", private)
    return App(client=client, runs=runs, **more)


TORCH_FAULTY = {
    "torch_fedavg": torch_app(
        '    metrics = {"num-examples": len(rows.dataset), "train_loss": total}'
    ),
    "torch_without_metrics": torch_app(),
    "torch_localdp_tiny_sensitivity": torch_app(
        top="from flwr.clientapp.mod import LocalDpMod", mods="LocalDpMod(1.0, 1e-4, 10.0, 1e-5)"
    ),
    "torch_noise_of_a_seed": torch_app(
        "    torch.manual_seed(5)\n" + NOISE.replace("SIGMA", "9.7"), **_HANDED
    ),
    "private_records_of_too_little_noise": torch_app(
        top="import opacus", private=OPACUS.replace("NOISE", "0.05"), claim=3.0, delta=1e-5
    ),
    "private_records_of_people_with_thirty": torch_app(
        top="import opacus",
        private=OPACUS.replace("NOISE", "2.0"),
        claim=5.0,
        delta=1e-5,
        unit="node",
    ),
    "torch_too_little_noise": torch_app(NOISE.replace("SIGMA", "0.5"), runs=1500, **_HANDED),
}
TORCH_HONEST = {
    "torch_localdp": torch_app(
        top="from flwr.clientapp.mod import LocalDpMod",
        mods="LocalDpMod(1.0, 2.0, 0.3, 1e-5)",
        claim=0.9,
        delta=3e-5,
    ),
    "private_records": torch_app(
        # Six steps of 16 of 30 records: epsilon 3.6 by its accountant.
        top="import opacus",
        private=OPACUS.replace("NOISE", "2.0"),
        claim=5.0,
        delta=1e-5,
    ),
    "private_records_of_this_library": App(client=OWN_CLIENT),
    "torch_gaussian": torch_app(NOISE.replace("SIGMA", "9.7"), **_HANDED),
}
