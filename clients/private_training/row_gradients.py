"""Gradients of a network's loss on the rows of one user, computed apart from all other users."""

from collections.abc import Callable, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

import numpy as np

from ldp_flower.models.graph import Limits
from ldp_flower.models.network import Network
from ldp_flower.questions import NetworkGradient
from ldp_flower.validation import Floats

from ..statistics.sizes import shortened
from .denormals import flushed
from .records import Form

if TYPE_CHECKING:
    from .gradients import Tensors

_AT_ONCE = 1 << 24  # number of intermediate numbers of a user's rows in memory at a time


class RowGradients:
    """Mean gradients of a network's loss on one user's rows, with respect to what is trained.

    Raise NetworkError if the network is refused.
    """

    def __init__(self, network: Network, limits: Limits) -> None:
        self.network, self._form = network, Form.of(network, limits)
        self._at_once = max(1, _AT_ONCE // max(1, network.check(limits).intermediates))

    @cached_property
    def parameters(self) -> "Tensors":
        """The network's trainable parameters, which are the same for all users."""
        return self._tensors(True)

    @cached_property
    def _constants(self) -> "Tensors":
        return self._tensors(False)

    def _tensors(self, trainable: bool) -> "Tensors":
        import torch

        arrays, ordered = self.network.arrays, self.network.graph.parameters.items()
        return {n: torch.tensor(arrays[n]) for n, of in ordered if of.trainable == trainable}

    def on(self, features: Floats, targets: Floats) -> Callable[["Tensors"], "Tensors"]:
        """Return the function from parameters to the mean gradient on these rows; 0 without rows.

        A row is one record, in C order.
        """
        import torch
        from torch.func import grad, vmap

        from ldp_flower.models.interpreter import RecordLoss

        graph = self.network.graph
        rows = features.reshape(-1, *graph.record.shape)
        goals = targets.reshape(-1, *[1] * len(self._form.target.shape))
        records, wanted, _ = self._form.fitted(rows, goals, len(rows))
        if not len(records):
            return lambda kept: {name: torch.zeros_like(value) for name, value in kept.items()}
        loss = RecordLoss.of(graph, self._constants)
        given = [torch.from_numpy(records), torch.from_numpy(wanted)]
        with torch.no_grad():
            given += vmap(loss.known, chunk_size=self._at_once)(given[0])
        in_dims = (None, *[0] * len(given))
        each = vmap(grad(loss), in_dims=in_dims, chunk_size=self._at_once)
        return lambda kept: {name: found.mean(0) for name, found in each(kept, *given).items()}


class GradientStatistic:
    """The statistic of :class:`NetworkGradient`, for networks within an app's limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # All users of a query share its network.
        self._checked: MutableMapping[NetworkGradient, RowGradients] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[type[Self], tuple[Limits]]:
        # Simulations send apps to other processes, and weak references cannot be sent.
        return type(self), (self._limits,)

    def checked(self, question: NetworkGradient) -> RowGradients:
        """Return the gradients of a question's network; raise NetworkError if it is refused."""
        if (found := self._checked.get(question)) is None:
            found = RowGradients(question.network(self._limits), self._limits)
            self._checked[question] = found
        return found

    @flushed()
    def __call__(self, features: Floats, targets: Floats, question: NetworkGradient) -> Floats:
        """Return one user's value."""
        gradients = self.checked(question)
        kept = gradients.parameters
        mean = gradients.on(features, targets)(kept)
        flat = [mean[name].numpy().ravel() for name in kept]
        value: Floats = shortened(np.concatenate(flat)[None].astype(np.float64), question)[0]
        return value
