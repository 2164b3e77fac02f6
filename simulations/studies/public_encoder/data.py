"""Digits 0 to 4 are public, and train an encoder; digits 5 to 9 are held by users and silos."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

from ldp_flower.models import Network

PUBLIC, CLASSES = 5, 5  # digits of either kind
PIXELS, WIDTH = 64, 32
_SIDE, _STEPS, _BATCH = 8, 1500, 64
_LOUDEST = 16.0  # of a pixel
_RIDGE = 0.1  # of the mean variance within a class

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


class Encoder(nn.Module):
    """An image becomes 32 numbers, of length 1 together."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(256, WIDTH)),
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return outputs of length 1."""
        return nn.functional.normalize(self.layers(pixels.reshape(-1, 1, _SIDE, _SIDE)), dim=1)


class Headed(nn.Module):
    """An encoder and a head, which begins at 0."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(WIDTH, CLASSES)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the classes' logits."""
        return self.head(self.encoder(pixels))


@dataclass(frozen=True)
class Split:
    """The private digits of one seed, and the network to train on them.

    Attributes
    ----------
    images, labels : ndarray
        Those that holders draw theirs from.
    unseen, answers : ndarray
        Those that nobody holds.
    network : Network
        The encoder, which stays as it is, and a head of zeros.
    whole : Network
        The same network, all of which is trained, from an encoder that has seen nothing.
    """

    images: Floats
    labels: Labels
    unseen: Floats
    answers: Labels
    network: Network
    whole: Network

    def held(self, holders: int, each: int, seed: int) -> tuple[Floats, Labels]:
        """Return what holders have, drawn with replacement, shape (holders, each, ...)."""
        chosen = np.random.default_rng([seed, 1]).integers(len(self.images), size=(holders, each))
        return self.images[chosen], self.labels[chosen]

    def accuracy(self, network: Network) -> float:
        """Return the share of unseen digits that a network recognises."""
        return float((network.run(self.unseen).argmax(1) == self.answers).mean())

    def embedded(self, images: Floats) -> Floats:
        """Return the encoder's outputs for images, shape (images, 32)."""
        encoder = self.network.to_torch(Headed(Encoder())).encoder
        with torch.no_grad():
            found: Any = encoder(torch.from_numpy(images))
        return np.asarray(found.numpy())


@cache
def split_of(seed: int) -> Split:
    """Return the private digits in two halves, and networks, of one seed."""
    pixels, digits = load_digits(return_X_y=True)
    pixels = (pixels / _LOUDEST).astype(np.float32)
    public = digits < PUBLIC
    torch.manual_seed(seed)
    example = pixels[0]
    whole = Network.export(Headed(Encoder()), example, "cross_entropy")
    encoder = _trained(torch.from_numpy(pixels[public]), torch.from_numpy(digits[public]))
    network = Network.export(Headed(encoder), example, "cross_entropy", ["head.*"])
    order = np.random.default_rng(seed).permutation(np.flatnonzero(~public))
    ours, others = np.array_split(order, 2)
    labels = digits - PUBLIC
    return Split(pixels[ours], labels[ours], pixels[others], labels[others], network, whole)


def _trained(images: torch.Tensor, labels: torch.Tensor) -> Encoder:
    """Return an encoder that tells the public digits apart."""
    encoder, head = Encoder(), nn.Linear(WIDTH, PUBLIC)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(_STEPS):
        batch = torch.randint(len(images), (_BATCH,))
        optimizer.zero_grad()
        logits = head(encoder.layers(images[batch].reshape(-1, 1, _SIDE, _SIDE)))
        nn.functional.cross_entropy(logits, labels[batch]).backward()
        optimizer.step()
    _whiten(encoder, images, labels)
    return encoder


def _whiten(encoder: Encoder, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Change the last layer: of public digits outputs have mean 0, and within classes no scale."""
    last = encoder.layers[-1]
    with torch.no_grad():
        found = encoder.layers(images.reshape(-1, 1, _SIDE, _SIDE))
        means = torch.stack([found[labels == digit].mean(0) for digit in range(PUBLIC)])
        within = (found - means[labels]).T.cov()
        ridge = _RIDGE * within.trace() / WIDTH
        scales, directions = torch.linalg.eigh(within + ridge * torch.eye(WIDTH))
        change = (directions / scales.sqrt()).T
        last.bias.copy_(change @ (last.bias - found.mean(0)))
        last.weight.copy_(change @ last.weight)
