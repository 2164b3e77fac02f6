"""Questions about the update that training made on a node."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .base import Coordinates, MessageError, Question, check_coordinates


@dataclass(frozen=True, eq=False)
class UpdateQuestion(Question):
    """Base class: a question to :class:`ldp_flower.clients.LdpUpdateMod`.

    ``trained`` says which of the model's arrays of floats it is about, as indices into their names
    in order; by default all. The others stay as the server sent them.
    """

    trained: Coordinates | None = None

    def trains(self, names: Sequence[str]) -> list[str]:
        """Return which of a model's arrays of floats, given by their names in order, it is about.

        MessageError if it is about none, or one that the model does not have.
        """
        if self.trained is None:
            return list(names)
        check_coordinates(self.trained, len(names), f"the model has {len(names)} arrays of floats")
        return [names[index] for index in sorted(self.trained)]

    def check(self, num_features: int, width: int) -> None:
        """Raise MessageError unless reports of this width fit a model of so many parameters."""
        if width != num_features:
            raise MessageError(f"Expected a randomizer of {num_features} coordinates, got {width}.")


@dataclass(frozen=True, eq=False)
class NormalisedUpdate(UpdateQuestion):
    """The unit vector in the update's direction, shape (parameters,); zero without one."""

    stem: ClassVar[str] = "normalised_update"


@dataclass(frozen=True, eq=False, kw_only=True)
class ClippedUpdate(UpdateQuestion):
    """The update, shortened to the length ``radius``, shape (parameters,)."""

    stem: ClassVar[str] = "clipped_update"

    radius: float
