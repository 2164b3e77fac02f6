"""Linear models and a small net: how a user trains one, without any privacy.

A model is a list of arrays in the order of a PyTorch module's parameters, so that the
same model can be trained here and by Opacus.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

if TYPE_CHECKING:
    import torch

Arrays = list[NDArray[Any]]
Floats = NDArray[np.float64]


class Learner(Protocol):
    """A model and its training."""

    @property
    def rate(self) -> float:
        """Learning rate of a local step."""

    def initial(self) -> Arrays:
        """Return the model that all users start from."""

    def train(self, model: Arrays, x: Floats, y: NDArray[Any], steps: int) -> Arrays:
        """Return the model after some full-batch gradient steps on the mean loss."""

    def outputs(self, model: Arrays, x: Floats) -> Floats:
        """Return logits or predictions, shape (rows, classes), with one class for two."""

    def module(self, model: Arrays) -> "torch.nn.Module":
        """Return the model in PyTorch."""

    def loss(self) -> Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]:
        """Return the mean loss of outputs in PyTorch."""


@dataclass(frozen=True)
class Linear:
    """A linear model without a bias of its own, in NumPy: fast enough for 26,000 users.

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

    def train(self, model: Arrays, x: Floats, y: NDArray[Any], steps: int) -> Arrays:
        """Return the model after some gradient steps."""
        (weights,) = model
        wanted = np.eye(self.classes)[y] if self.kind == "softmax" else y[:, None]
        link = {"logistic": expit, "softmax": _softmax, "squares": _same}[self.kind]
        for _ in range(steps):
            residuals = wanted - link(x @ weights.T)
            weights = weights + self.rate * (residuals.T @ x) / max(1, len(x))
        return [weights]

    def outputs(self, model: Arrays, x: Floats) -> Floats:
        """Return logits or predictions."""
        return np.asarray(x @ model[0].T)

    def module(self, model: Arrays) -> "torch.nn.Module":
        """Return the model in PyTorch."""
        import torch

        module = torch.nn.Linear(self.dim, self.classes, bias=False)
        return _with_parameters(module, model)

    def loss(self) -> Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]:
        """Return the mean loss in PyTorch."""
        import torch

        if self.kind == "softmax":
            return torch.nn.functional.cross_entropy
        if self.kind == "squares":
            return lambda outputs, y: ((outputs[:, 0] - y) ** 2).mean() / 2
        logistic = torch.nn.functional.binary_cross_entropy_with_logits
        return lambda outputs, y: logistic(outputs[:, 0], y.float())


@dataclass(frozen=True)
class Net:
    """A net with one hidden layer, in PyTorch."""

    dim: int
    hidden: int
    classes: int
    rate: float

    def _fresh(self) -> "torch.nn.Module":
        import torch

        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(self.dim, self.hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(self.hidden, self.classes),
        )

    def initial(self) -> Arrays:
        """Return PyTorch's usual random start, the same for everybody."""
        return [parameter.detach().numpy() for parameter in self._fresh().parameters()]

    def train(self, model: Arrays, x: Floats, y: NDArray[Any], steps: int) -> Arrays:
        """Return the model after some gradient steps."""
        import torch

        module, loss = self.module(model), self.loss()
        optimizer = torch.optim.SGD(module.parameters(), lr=self.rate)
        inputs, labels = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
        for _ in range(steps):
            optimizer.zero_grad()
            loss(module(inputs), labels).backward()
            optimizer.step()
        return [parameter.detach().numpy() for parameter in module.parameters()]

    def outputs(self, model: Arrays, x: Floats) -> Floats:
        """Return logits."""
        import torch

        with torch.no_grad():
            return np.asarray(self.module(model)(torch.from_numpy(x.astype(np.float32))).numpy())

    def module(self, model: Arrays) -> "torch.nn.Module":
        """Return the model in PyTorch."""
        return _with_parameters(self._fresh(), model)

    def loss(self) -> Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]:
        """Return the mean cross-entropy."""
        import torch

        return torch.nn.functional.cross_entropy


def _with_parameters(module: "torch.nn.Module", model: Arrays) -> "torch.nn.Module":
    import torch

    with torch.no_grad():
        for parameter, array in zip(module.parameters(), model, strict=True):
            parameter.copy_(torch.from_numpy(np.asarray(array, np.float32)))
    return module


def _softmax(logits: Floats) -> Floats:
    return np.asarray(softmax(logits, axis=1))


def _same(predictions: Floats) -> Floats:
    return predictions
