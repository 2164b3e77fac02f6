"""The questions about a network that is sent as data."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..models import Limits, Network, NetworkError
from ..models.graph import LABEL_LOSSES
from ..models.parsing import parsed
from .base import Question
from .fields import Letters, Marks, MessageError
from .sums import SQUARE


@dataclass(frozen=True, eq=False)
class NetworkQuestion(Question):
    """Base class of questions about a network. Only apps that take networks can answer them.

    ``text`` is the network, as :meth:`ldp_flower.models.Graph.to_text` writes it, and
    ``parameters`` are all of its parameters (:attr:`ldp_flower.models.Network.vector`).
    """

    alone: ClassVar[bool] = False

    text: Letters
    parameters: Marks

    def network(self, limits: Limits) -> Network:
        """Return the network that ``text`` and ``parameters`` describe.

        Raise NetworkError if they describe no network, or a network that exceeds ``limits``.
        """
        if self.text.dtype != np.uint8 or self.text.ndim != 1:
            raise NetworkError("Expected the text of a network.")
        limits.require("text_bytes", len(self.text), "ASCII characters of text")
        graph = parsed(self.text.tobytes().decode("latin-1"), limits)
        return Network.of_vector(graph, self.parameters)

    def network_for(self, num_features: int) -> Network:
        """Return the network; raise MessageError unless it takes rows of ``num_features``."""
        network = self.network(Limits.none())
        if (size := network.graph.record.size) != num_features:
            raise MessageError(
                f"The network takes rows of {size} numbers, and users have {num_features}."
            )
        return network


def _text_of(network: Network) -> NDArray[np.uint8]:
    return np.frombuffer(network.graph.to_text().encode("ascii"), np.uint8)


@dataclass(frozen=True, eq=False)
class NetworkGradient(NetworkQuestion):
    """A user's mean gradient of a network's loss over its rows, clipped to the length ``radius``.

    The value, shape (users, trained parameters + 1), has the gradient with respect to the trained
    parameters, one after the other in the network's order. The last coordinate is an indicator of
    clipping, as in :class:`Shortened`. A user without rows has the gradient 0.

    Attributes
    ----------
    text : ndarray of uint8
        The network, as :meth:`ldp_flower.models.Graph.to_text` writes it.
    parameters : ndarray
        All of its parameters (:attr:`ldp_flower.models.Network.vector`).
    """

    stem: ClassVar[str] = "network_gradient"

    radius: float
    told: float

    @classmethod
    def of(cls, network: Network, radius: float, told: float) -> Self:
        """Return the question that sends this network, and asks for gradients of its loss."""
        return cls(_text_of(network), network.vector, radius, told)

    def width(self, num_features: int) -> int:
        """Return the number of trained parameters plus one, for the clipping indicator."""
        return self.network_for(num_features).num_trainable + 1


@dataclass(frozen=True, eq=False)
class NetworkScore(NetworkQuestion):
    """A network's mean loss or accuracy on a user's rows, shape (users, 1) or (users, 2).

    Let s be the mean divided by ``bound``, clipped to [0, 1]. The value is ``s - 1/2`` and, with
    ``squares``, ``s**2 - 1/2`` times :data:`~.sums.SQUARE`. Its length is at most :attr:`radius`.
    Rows with a number that is not finite, or with an invalid class, do not count. A user without
    any other rows has the value 0, as if s were 1/2.

    Attributes
    ----------
    bound : float
        Public bound on the mean. Larger means are clipped.
    accuracy : bool
        True for the accuracy, the share of right predictions, instead of the loss. A prediction is
        right if the largest output is that of the class or, for ``"binary_cross_entropy"``, if the
        output is above 0 exactly for class 1.
    """

    stem: ClassVar[str] = "network_score"

    bound: float
    accuracy: bool = False
    squares: bool = False

    @classmethod
    def of(cls, network: Network, bound: float, accuracy: bool, squares: bool) -> Self:
        """Return the question that sends this network, and asks for its loss or accuracy."""
        return cls(_text_of(network), network.vector, bound, accuracy, squares)

    @property
    def radius(self) -> float:
        """Largest Euclidean length of a user's value."""
        return math.hypot(0.5, SQUARE / 2) if self.squares else 0.5

    def width(self, num_features: int) -> int:
        """Return 2 with squares, otherwise 1; raise MessageError if there is no accuracy."""
        network = self.network_for(num_features)
        if self.accuracy and network.graph.loss not in LABEL_LOSSES:
            raise MessageError(f"Expected a loss in {list(LABEL_LOSSES)} for an accuracy.")
        return 1 + self.squares
