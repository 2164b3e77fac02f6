"""A network on the rows of one user, computed apart from all other users: gradients and scores."""

from collections.abc import Callable, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from ldp_flower.models.graph import Limits
from ldp_flower.models.network import Network
from ldp_flower.questions import NetworkGradient, NetworkQuestion, NetworkScore
from ldp_flower.questions.sums import SQUARE
from ldp_flower.validation import Floats

from ..statistics.sizes import shortened
from .denormals import flushed
from .records import Form, Rows

if TYPE_CHECKING:
    from ldp_flower.models.interpreter import RecordLoss

    from .gradients import Tensors

_AT_ONCE = 1 << 24  # number of intermediate numbers of a user's rows in memory at a time


class OnRows:
    """A network on one user's rows, each of which is one record, in C order.

    Raise NetworkError if the network is refused.
    """

    def __init__(self, network: Network, limits: Limits) -> None:
        self.network, self._form = network, Form.of(network, limits)
        self._at_once = max(1, _AT_ONCE // max(1, network.check(limits).intermediates))

    @cached_property
    def parameters(self) -> "Tensors":
        """The network's trainable parameters, which are the same for all users."""
        from .network_gradients import tensors_of

        return tensors_of(self.network, True)

    @cached_property
    def _loss(self) -> "RecordLoss":
        from ldp_flower.models.interpreter import RecordLoss

        from .network_gradients import tensors_of

        return RecordLoss.of(self.network.graph, tensors_of(self.network, False))

    def _fitted(self, features: Floats, targets: Floats) -> tuple[Rows, Rows]:
        """Return two arrays in the network's types and shapes: the rows as records, the targets."""
        rows = features.reshape(-1, *self.network.graph.record.shape)
        goals = targets.reshape(-1, *[1] * len(self._form.target.shape))
        records, wanted, _ = self._form.fitted(rows, goals, len(rows))
        return records, wanted

    def gradients(self, features: Floats, targets: Floats) -> Callable[["Tensors"], "Tensors"]:
        """Return a function that maps parameters to the mean gradient on these rows.

        Without rows the gradient is 0.
        """
        import torch
        from torch.func import grad, vmap

        records, wanted = self._fitted(features, targets)
        if not len(records):
            return lambda kept: {name: torch.zeros_like(value) for name, value in kept.items()}
        given = [torch.from_numpy(records), torch.from_numpy(wanted)]
        with torch.no_grad():
            given += vmap(self._loss.known, chunk_size=self._at_once)(given[0])
        in_dims = (None, *[0] * len(given))
        each = vmap(grad(self._loss), in_dims=in_dims, chunk_size=self._at_once)
        return lambda kept: {name: found.mean(0) for name, found in each(kept, *given).items()}

    def score(self, features: Floats, targets: Floats, accuracy: bool) -> float:
        """Return the mean loss or accuracy on rows with a valid target; NaN without such rows."""
        import torch
        from torch.func import vmap

        from ldp_flower.models import losses

        records, wanted = self._fitted(features, targets)
        valid = self._form.valid(wanted)
        if not valid.any():
            return np.nan

        def of_record(record: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            if not accuracy:
                return self._loss(self.parameters, record, target)
            output = self._loss.output(self.parameters, record)
            return losses.accuracy(self.network.graph.loss, output, target)

        given = torch.from_numpy(records[valid]), torch.from_numpy(wanted[valid])
        with torch.no_grad():
            each = vmap(of_record, chunk_size=self._at_once)(*given)
        # A loss that overflows on the way is a large one.
        return float(each.double().nan_to_num(nan=np.inf, posinf=np.inf).mean())


class NetworkStatistic:
    """Statistic of a class of questions about networks, for :class:`LdpClientApp`.

    Parameters
    ----------
    limits : Limits
        Limits of the networks that the app accepts.
    value : callable
        Function from a question's network, one user's features, its targets and the question to
        the user's value.
    """

    def __init__(self, limits: Limits, value: Callable[[OnRows, Floats, Floats, Any], Floats]):
        self._limits, self._value = limits, value
        # All users of a query share its network.
        self._checked: MutableMapping[NetworkQuestion, OnRows] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # Simulations send apps to other processes, and weak references cannot be sent.
        return type(self), (self._limits, self._value)

    def checked(self, question: NetworkQuestion) -> OnRows:
        """Return the question's network, ready for rows; raise NetworkError if it is refused."""
        if (found := self._checked.get(question)) is None:
            found = OnRows(question.network(self._limits), self._limits)
            self._checked[question] = found
        return found

    @flushed()
    def __call__(self, features: Floats, targets: Floats, question: NetworkQuestion) -> Floats:
        """Return one user's value for a question, from its rows and their targets."""
        return self._value(self.checked(question), features, targets, question)


def clipped_gradient(
    rows: OnRows, features: Floats, targets: Floats, question: NetworkGradient
) -> Floats:
    """Return one user's mean gradient, clipped to the question's radius, for a sum at the node."""
    kept = rows.parameters
    mean = rows.gradients(features, targets)(kept)
    flat = [mean[name].numpy().ravel() for name in kept]
    value: Floats = shortened(np.concatenate(flat)[None].astype(np.float64), question)[0]
    return value


def shifted_score(
    rows: OnRows, features: Floats, targets: Floats, question: NetworkScore
) -> Floats:
    """Return one user's mean loss or accuracy, scaled by its bound, and its square, if asked."""
    mean = rows.score(features, targets, question.accuracy)
    score = np.clip(mean / question.bound, 0, 1)
    return np.array([score - 0.5, SQUARE * (score**2 - 0.5)][: 1 + question.squares])
