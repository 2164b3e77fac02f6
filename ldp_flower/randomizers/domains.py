"""Domains that mechanisms share: a number in an interval, a vector in a ball."""

from dataclasses import dataclass
from typing import ClassVar

from ..validation import check_integer, check_positive
from .base import Randomizer


@dataclass(frozen=True)
class OfNumber(Randomizer):
    """Base class: a value is one number in an interval.

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    radius : float (default: 1.0)
        The domain is ``[-radius, radius]``; values are clipped to it.
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("radius", self.radius)

    @property
    def width(self) -> int:
        """A value is one number."""
        return 1


@dataclass(frozen=True)
class OfVector(Randomizer):
    """Base class: a value is a vector.

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    dim : int
        Number of coordinates.
    radius : float (default: 1.0)
        The domain is the ball of this radius, to which longer vectors are shortened; where a
        class says so it is the box ``[-radius, radius] ** dim``, to which coordinates are
        clipped.
    """

    dim: int
    radius: float = 1.0

    #: Largest number of coordinates, if there is one.
    most_coordinates: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, 1, self.most_coordinates)
        check_positive("radius", self.radius)

    @property
    def width(self) -> int:
        """Number of coordinates of a value."""
        return self.dim
