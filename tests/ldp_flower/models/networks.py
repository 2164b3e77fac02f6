"""Networks of all kinds that the tests export, and what changes one record."""

import math
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from ldp_flower.clients.private_training.network_gradients import NetworkGradients, tensors_of
from ldp_flower.models import Network

WORDS = 30


class UNet(nn.Module):
    def __init__(self, width=4):
        super().__init__()

        def block(into, out):
            norm = nn.GroupNorm(4, out)
            return nn.Sequential(nn.Conv2d(into, out, 3, padding=1), norm, nn.ReLU())

        self.down, self.middle = block(1, width), block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last, self.out = block(2 * width, width), nn.Conv2d(width, 2, 1)

    def forward(self, x):
        first = self.down(x)
        below = self.up(self.middle(F.max_pool2d(first, 2)))
        return self.out(self.last(torch.cat([first, below], 1)))


class Sequences(nn.Module):
    def __init__(self, cells=nn.LSTM):
        super().__init__()
        self.table, self.cells = nn.Embedding(WORDS, 6), cells(6, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.cells(self.table(x))[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.place = nn.Embedding(WORDS, 8), nn.Parameter(torch.zeros(1, 5, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(self.table(x) + self.place).mean(1))


def lenet():
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 84), nn.ReLU(), nn.Linear(84, 3)),
    )


def groups():
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.GELU()),
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 3)),
    )


# Each with the shape of a record, and with whether it holds words.
KINDS = {
    "MLP": (lambda: nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 3)), (20,), False),
    "LeNet": (lenet, (1, 28, 28), False),
    "GroupNorm": (groups, (3, 9, 9), False),
    "U-Net": (UNet, (1, 16, 16), False),
    "LSTM": (Sequences, (5,), True),
    "Transformer": (Attention, (5,), True),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(WORDS, 4), nn.Flatten(), nn.Linear(20, 3)),
        (5,),
        True,
    ),
}


def rows_of(shape, words, count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    if words:
        return torch.randint(WORDS, (count, *shape), generator=generator)
    return torch.randn(count, *shape, generator=generator)


@cache
def module_of(kind):
    torch.manual_seed(0)
    return KINDS[kind][0]()


@cache
def network_of(kind):
    _, shape, words = KINDS[kind]
    return Network.export(module_of(kind), rows_of(shape, words, 1)[0], "cross_entropy")


def data_of(kind, count):
    """Return records and their targets."""
    _, shape, words = KINDS[kind]
    target = network_of(kind).target()
    classes = 2 if kind == "U-Net" else 3
    generator = torch.Generator().manual_seed(2)
    return (
        rows_of(shape, words, count),
        torch.randint(classes, (count, *target.shape), generator=generator),
    )


def gradients(network, rows, targets, drawn, block):
    """Return the trained parameters and the gradients of a block."""
    of = NetworkGradients(network, rows, targets, len(rows), block)
    return of.of(tensors_of(network, True), drawn)


def check_alone(module, network, rows, targets, loss=F.cross_entropy):
    """Compare outputs with the module's, and gradients with those of each record by itself."""
    np.testing.assert_allclose(network.run(rows), module(rows).detach(), rtol=1e-4, atol=1e-5)
    found, _ = gradients(network, rows, targets, np.arange(len(rows)), len(rows) + 1)
    names, parameters = zip(*module.named_parameters(), strict=True)
    for i in range(len(rows)):
        each = torch.autograd.grad(loss(module(rows[i : i + 1]), targets[i : i + 1]), parameters)
        for name, expected in zip(names, each, strict=True):
            torch.testing.assert_close(found[name][i], expected, rtol=1e-4, atol=1e-6)


def first(rows, value):
    """Return a row one of whose numbers is another."""
    odd = rows.clone()
    odd.view(-1)[0] = value
    return odd


def odd_ones(rows, targets):
    """Yield what a record may be changed to: anything of its type and shape."""
    if rows.is_floating_point():
        for name, value in {
            "zero": 0.0,
            "largest": 3e38,
            "1e30": 1e30,
            "subnormal": 1e-42,
            "NaN": math.nan,
            "infinite": math.inf,
            "minus infinity": -math.inf,
        }.items():
            yield name, torch.full_like(rows, value), targets
            yield f"one {name}", first(rows, value), targets
        yield "another", -3.3 * rows + 1, targets
    else:
        for name, word in {"word": 4711, "negative": -1, "far": 1 << 40, "first": 0}.items():
            yield name, torch.full_like(rows, word), targets
            yield f"one {name}", first(rows, word), targets
    if not targets.is_floating_point():
        for label in (4711, -1, -100, 1 << 40):
            yield f"label {label}", rows, torch.full_like(targets, label)
    else:
        for label in (math.nan, math.inf, 1e30, -1e30):
            yield f"target {label}", rows, torch.full_like(targets, label)
