"""Networks of the architectures that Flower's example apps train, each with its records."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from opacus.layers import DPLSTM
from torch import nn

from . import data
from .data import Array, Records


@dataclass(frozen=True)
class App:
    """What an app trains.

    Attributes
    ----------
    made : callable
        Returns the network.
    theirs : callable
        Returns it of layers that Opacus knows.
    loss : str
        The loss.
    records : callable
        From the folder of Adult and a seed to records.
    score : callable
        From outputs and answers to how good they are, 1 at most.
    """

    made: Callable[[], nn.Module]
    theirs: Callable[[], nn.Module]
    loss: str
    records: Callable[[Path | None, int], Records]
    score: Callable[[Array, Array], float]


def _first_example() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU()),
        *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def _advanced() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def _tabular() -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(123, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)),
    )


def _autoencoder() -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 3)),
        *(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 784)),
    )


class _Characters(nn.Module):
    """Two recurrent layers, and the character that comes next."""

    def __init__(self, cells: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.table = nn.Embedding(len(data.ALPHABET), 8)
        self.cells = cells(8, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, len(data.ALPHABET))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(self.table(text))[0][:, -1])


def _right(outputs: Array, answers: Array) -> float:
    return float((outputs.argmax(1) == answers).mean())


def _right_sign(outputs: Array, answers: Array) -> float:
    return float(((outputs[:, 0] > 0) == answers).mean())


def _explained(outputs: Array, answers: Array) -> float:
    return 1 - float(np.square(outputs - answers).mean() / answers.var(axis=0).mean())


def _images(side: int, channels: int, _: Path | None, seed: int) -> Records:
    return data.images(side, channels, seed)


def _themselves(_: Path | None, seed: int) -> Records:
    return data.themselves(28, seed)


def _text(_: Path | None, seed: int) -> Records:
    return data.characters(seed)


_LSTM, _OF_OPACUS = partial(_Characters, nn.LSTM), partial(_Characters, DPLSTM)
_32, _28 = partial(_images, 32, 3), partial(_images, 28, 1)
APPS = {
    "quickstart-pytorch": App(_first_example, _first_example, "cross_entropy", _32, _right),
    "advanced-pytorch": App(_advanced, _advanced, "cross_entropy", _28, _right),
    "fl-tabular": App(_tabular, _tabular, "binary_cross_entropy", data.adults, _right_sign),
    "quickstart-pytorch-lightning": App(_autoencoder, _autoencoder, "mse", _themselves, _explained),
    "fedmeta": App(_LSTM, _OF_OPACUS, "cross_entropy", _text, _right),
}
