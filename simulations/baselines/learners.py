"""Linear models and a small net, trained for many users at once, without privacy or by DP-SGD.

A model is a list of arrays in the order of a PyTorch module's parameters; tests compare
the training with PyTorch's, and DP-SGD with Opacus's. For many users every array has
one more axis, the first.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Arrays = list[NDArray[Any]]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Layer:
    """What a layer's gradient is made of, for every user's every record.

    Attributes
    ----------
    inputs : ndarray, shape (users, rows, inputs)
        What goes in.
    deltas : ndarray, shape (users, rows, outputs)
        Derivatives of the loss by what comes out.
    bias : bool
        Whether the layer has one.
    """

    inputs: Floats
    deltas: Floats
    bias: bool

    def gradients(self, factors: Floats) -> Arrays:
        """Return the sum over records of their gradients, each times its factor."""
        deltas = (self.deltas * factors[..., None]).swapaxes(1, 2)
        weights = deltas @ self.inputs
        return [weights, deltas.sum(axis=2)] if self.bias else [weights]

    def squared_lengths(self) -> Floats:
        """Return the squared length of each record's gradient, shape (users, rows)."""
        lengths = (self.inputs**2).sum(axis=2) + self.bias
        return np.asarray((self.deltas**2).sum(axis=2) * lengths)


class Learner(Protocol):
    """A model and its loss."""

    @property
    def rate(self) -> float:
        """Learning rate of a local step."""

    def initial(self) -> Arrays:
        """Return the model that all users start from."""

    def outputs(self, model: Arrays, x: Floats) -> Floats:
        """Return logits or predictions, shape (rows, classes), with one class for two."""

    def layers(self, model: Arrays, x: Floats, y: NDArray[Any]) -> list[Layer]:
        """Return what the gradients are made of; ``x`` has shape (users, rows, dim)."""


@dataclass(frozen=True)
class DpSgd:
    """The privacy of DP-SGD (Abadi et al. 2016): gradients of records are clipped and noised.

    Every step uses all of a user's records, so there is no sampling to be charged less for.

    Attributes
    ----------
    clip : float
        Longest gradient of a record.
    noise : float
        Noise over the clip, of each step's sum.
    rate : float
        Learning rate of a local step.
    rng : Generator
        Where the noise comes from.
    """

    clip: float
    noise: float
    rate: float
    rng: np.random.Generator


def descend(
    learner: Learner,
    model: Arrays,
    x: Floats,
    y: NDArray[Any],
    steps: int,
    private: DpSgd | None = None,
) -> Arrays:
    """Return every user's model after some full-batch gradient steps on its mean loss.

    Parameters
    ----------
    learner : Learner
        Model and loss.
    model : list of ndarray
        Where all start.
    x : ndarray, shape (users, rows, dim)
        Records.
    y : ndarray, shape (users, rows)
        Labels.
    steps : int
        Number of steps.
    private : DpSgd, optional
        Clip and noise.
    """
    own = [array[None] for array in model]
    rate = learner.rate if private is None else private.rate
    factors = np.ones(x.shape[:2], x.dtype)
    for _ in range(steps):
        layers = learner.layers(own, x, y)
        if private is not None:
            lengths = np.sqrt(sum(layer.squared_lengths() for layer in layers))
            factors = np.minimum(1, private.clip / np.maximum(lengths, 1e-300))
        sums = [array for layer in layers for array in layer.gradients(factors)]
        if private is not None:
            spread = private.noise * private.clip
            sums = [array + private.rng.normal(0, spread, array.shape) for array in sums]
        size = rate / max(1, x.shape[1])
        own = [array - size * total for array, total in zip(own, sums, strict=True)]
    return own


@dataclass(frozen=True)
class Linear:
    """A linear model without a bias of its own.

    Parameters
    ----------
    dim, classes : int
        Numbers of features and of outputs.
    kind : {"logistic", "softmax", "squares"}
        The loss; labels are 0 or 1, classes, or numbers.
    rate : float
        Learning rate of a local step.
    """

    dim: int
    classes: int
    kind: Literal["logistic", "softmax", "squares"]
    rate: float

    def initial(self) -> Arrays:
        """Return zeros."""
        return [np.zeros((self.classes, self.dim))]

    def outputs(self, model: Arrays, x: Floats) -> Floats:
        """Return logits or predictions."""
        return np.asarray(x @ model[0].swapaxes(-1, -2))

    def layers(self, model: Arrays, x: Floats, y: NDArray[Any]) -> list[Layer]:
        """Return the one layer."""
        outputs = self.outputs(model, x)
        if self.kind == "softmax":
            deltas = softmax(outputs, axis=-1) - np.eye(self.classes)[y]
        else:
            deltas = (expit(outputs) if self.kind == "logistic" else outputs) - y[..., None]
        return [Layer(x, deltas, bias=False)]


@dataclass(frozen=True)
class Net:
    """A net with one hidden layer of rectifiers, for classes."""

    dim: int
    hidden: int
    classes: int
    rate: float

    def initial(self) -> Arrays:
        """Return a random start, the same for everybody, with PyTorch's usual bounds."""
        rng = np.random.default_rng(0)
        sizes = ((self.hidden, self.dim), (self.classes, self.hidden))
        found = []
        for outputs, inputs in sizes:
            bound = 1 / math.sqrt(inputs)
            found += [rng.uniform(-bound, bound, shape) for shape in ((outputs, inputs), outputs)]
        return [array.astype(np.float32) for array in found]

    def _hidden(self, model: Arrays, x: Floats) -> Floats:
        return np.maximum(0, x @ model[0].swapaxes(-1, -2) + model[1][..., None, :])

    def outputs(self, model: Arrays, x: Floats) -> Floats:
        """Return logits."""
        hidden = self._hidden(model, x)
        return np.asarray(hidden @ model[2].swapaxes(-1, -2) + model[3][..., None, :])

    def layers(self, model: Arrays, x: Floats, y: NDArray[Any]) -> list[Layer]:
        """Return both layers."""
        x = np.asarray(x, model[0].dtype)
        hidden = self._hidden(model, x)
        logits = hidden @ model[2].swapaxes(-1, -2) + model[3][..., None, :]
        deltas = softmax(logits, axis=-1) - _one_hot(self.classes)[y]
        first = (deltas @ model[2]) * (hidden > 0)
        return [Layer(x, first, bias=True), Layer(hidden, deltas, bias=True)]


@cache
def _one_hot(classes: int) -> Floats:
    return np.eye(classes, dtype=np.float32)
