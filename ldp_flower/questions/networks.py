"""The question about a network that is sent as data."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from ..models import Limits, Network, NetworkError
from ..models.parsing import parsed
from .base import Letters, Marks, MessageError, Question


@dataclass(frozen=True, eq=False)
class NetworkGradient(Question):
    """A user's mean gradient of a network's loss over its rows, clipped to the length ``radius``.

    The value, shape (users, trained parameters + 1), has the gradient with respect to the trained
    parameters, one after the other as the network has them. The last coordinate is an indicator of
    clipping, as in :class:`Shortened`. A user without rows has the gradient 0.

    Attributes
    ----------
    text : ndarray of uint8
        The network, as :meth:`ldp_flower.models.Graph.to_text` writes it.
    parameters : ndarray
        All of its parameters (:attr:`ldp_flower.models.Network.vector`).
    """

    stem: ClassVar[str] = "network_gradient"
    alone: ClassVar[bool] = False  # only apps that train networks have a statistic for it

    text: Letters
    parameters: Marks
    radius: float
    told: float

    @classmethod
    def of(cls, network: Network, radius: float, told: float) -> Self:
        """Return the question about a network."""
        text = np.frombuffer(network.graph.to_text().encode("ascii"), np.uint8)
        return cls(text, network.vector, radius, told)

    def network(self, limits: Limits) -> Network:
        """Return the network; raise NetworkError if it is not one within the limits."""
        if self.text.dtype != np.uint8 or self.text.ndim != 1:
            raise NetworkError("Expected the text of a network.")
        limits.require("text_bytes", len(self.text), "ASCII characters of text")
        graph = parsed(self.text.tobytes().decode("latin-1"), limits)
        return Network.of_vector(graph, self.parameters)

    def width(self, num_features: int) -> int:
        """Return the number of trained parameters plus one.

        Raise MessageError unless the network takes rows of ``num_features`` numbers.
        """
        network = self.network(Limits.none())
        if (size := network.graph.record.size) != num_features:
            raise MessageError(
                f"The network takes rows of {size} numbers, and users have {num_features}."
            )
        return network.num_trainable + 1
