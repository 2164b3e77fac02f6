"""Questions about the update that training made on a node."""

from dataclasses import dataclass
from typing import ClassVar

from .base import MessageError, Question


@dataclass(frozen=True, eq=False)
class UpdateQuestion(Question):
    """Base class: a question to :class:`ldp_flower.clients.LdpUpdateMod`."""

    def width(self, num_features: int) -> int:
        """Return the number of parameters."""
        return num_features

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
    """The update, shortened to the length ``radius``, shape (parameters,).

    Attributes
    ----------
    radius : float
        Its length, at most.
    """

    stem: ClassVar[str] = "clipped_update"

    radius: float
