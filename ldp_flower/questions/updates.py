"""Questions about a model's update by the training on a node."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .base import Question, check_coordinates
from .fields import Coordinates, MessageError


@dataclass(frozen=True, eq=False)
class UpdateQuestion(Question):
    """Base class of questions to :class:`ldp_flower.clients.LdpUpdateMod`.

    ``trained`` selects those of the model's arrays of floats that the update covers. It lists their
    indices in the sorted names of these arrays; by default all. The other arrays stay as the server
    sent them.
    """

    trained: Coordinates | None = None

    def trains(self, names: Sequence[str]) -> list[str]:
        """Return the names that ``trained`` selects from the names of a model's arrays of floats.

        ``names`` are in order. Raise MessageError if ``trained`` is empty, or has an index that the
        model does not have.
        """
        if self.trained is None:
            return list(names)
        check_coordinates(self.trained, len(names), f"the model has {len(names)} arrays of floats")
        return [names[index] for index in sorted(self.trained)]

    def reads(self, num_features: int) -> None:
        """Return None, since the app's training decides which columns it reads."""

    def check(self, num_features: int, width: int) -> None:
        """Raise MessageError unless ``width`` equals ``num_features``, the number of parameters."""
        if width != num_features:
            raise MessageError(f"Expected a randomizer of {num_features} coordinates, got {width}.")


@dataclass(frozen=True, eq=False)
class NormalisedUpdate(UpdateQuestion):
    """The unit vector in the update's direction, shape (parameters,); zero for a zero update."""

    stem: ClassVar[str] = "normalised_update"


@dataclass(frozen=True, eq=False, kw_only=True)
class ClippedUpdate(UpdateQuestion):
    """The update, clipped to the length ``radius``, shape (parameters,)."""

    stem: ClassVar[str] = "clipped_update"

    radius: float
