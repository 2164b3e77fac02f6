"""The model, its data and how it is trained: nothing here knows of privacy."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from flwr.app import Context
from sklearn.datasets import load_digits
from torch import Tensor, nn

Rows = tuple[Tensor, Tensor]

_TEST = 359  # of 1,797 digits: no node has these


def make_net() -> nn.Module:
    """Return the model: is a written digit even? 65 parameters, all 0."""
    net = nn.Linear(64, 1)
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    return net


def as_rows(pixels: np.ndarray, even: np.ndarray) -> Rows:
    """Return rows of length 1, and labels."""
    lengths = np.maximum(np.linalg.norm(pixels, axis=1, keepdims=True), 1)
    return torch.tensor(pixels / lengths).float(), torch.tensor(even).float()


@lru_cache(maxsize=1)
def digits() -> Rows:
    """Return all digits, in an order of chance."""
    pixels, number = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(number))
    return as_rows(pixels[order], number[order] % 2 == 0)


def test_rows() -> Rows:
    """Return the digits that no node has."""
    rows, labels = digits()
    return rows[:_TEST], labels[:_TEST]


def node_rows(context: Context) -> Rows:
    """Return the node's share in simulation, its own CSV file in a deployment: label, 64 pixels."""
    node = context.node_config
    if "partition-id" in node:
        mine = slice(_TEST + int(node["partition-id"]), None, int(node["num-partitions"]))
        rows, labels = digits()
        return rows[mine], labels[mine]
    table = np.loadtxt(str(node["data-path"]), delimiter=",", ndmin=2)
    return as_rows(table[:, 1:], table[:, 0] % 2 == 0)


def train(net: nn.Module, rows: Tensor, labels: Tensor, epochs: int, rate: float) -> None:
    """Train the model on a node's rows."""
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for _ in range(epochs):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(net(rows)[:, 0], labels).backward()
        optimizer.step()


@torch.no_grad()
def accuracy(net: nn.Module, rows: Tensor, labels: Tensor) -> float:
    """Return the share of rows that the model tells right."""
    return float(((net(rows)[:, 0] > 0) == (labels > 0.5)).float().mean())


def seed_of(run: Mapping[str, object]) -> int | None:
    """Return the seed of a simulation; a deployment has none."""
    seed = int(str(run["seed"]))
    return None if seed < 0 else seed
