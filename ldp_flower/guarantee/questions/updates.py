"""Questions about the update that training made on a node."""

from dataclasses import dataclass
from typing import ClassVar

from ...values.rotation import padded
from .base import MessageError, Question


@dataclass(frozen=True, eq=False)
class UpdateQuestion(Question):
    """Base class: a question to :class:`ldp_flower.clients.LdpUpdateMod`."""

    rotated: bool = False

    def width(self, num_features: int) -> int:
        """Return the number of (rotated) parameters, of which there are ``num_features``."""
        return padded(num_features) if self.rotated else num_features

    def check(self, num_features: int, width: int) -> None:
        """Raise MessageError unless reports of this width fit a model of so many parameters."""
        expected = self.width(num_features)
        if width != expected:
            raise MessageError(f"Expected a randomizer of {expected} coordinates, got {width}.")


@dataclass(frozen=True, eq=False)
class NormalisedUpdate(UpdateQuestion):
    """The unit vector in the update's direction, shape (parameters,); zero without one.

    Attributes
    ----------
    rotated : bool (default: False)
        It is rotated by :func:`ldp_flower.values.rotation.rotate_twice`, and its length padded.
    """

    stem: ClassVar[str] = "normalised_update"


@dataclass(frozen=True, eq=False, kw_only=True)
class ClippedUpdate(UpdateQuestion):
    """The update, shortened to the length ``radius``, shape (parameters,).

    Attributes
    ----------
    radius : float
        Its length, at most.
    rotated : bool (default: False)
        As of :class:`NormalisedUpdate`.
    """

    stem: ClassVar[str] = "clipped_update"

    radius: float
