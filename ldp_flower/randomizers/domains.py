"""Domains that mechanisms share: a number in an interval, a vector in a ball."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..validation import Floats, check_integer, check_positive
from .base import Randomizer
from .elementwise import row_norms


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


def directions(rows: Floats) -> tuple[Floats, Floats]:
    """Return unit vectors and lengths of finite rows.

    Each row is divided by its largest entry first: squares neither overflow nor
    vanish, so a direction has length 1 whatever the row is, as guarantees need. The
    zero row gets the first axis.
    """
    largest = np.abs(rows).max(axis=1)
    unit = rows / np.where(largest > 0, largest, 1.0)[:, None]
    unit[largest == 0, 0] = 1.0
    length = row_norms(unit)
    unit /= length[:, None]
    with np.errstate(over="ignore"):
        return unit, largest * length


def lift(values: Floats, radius: float) -> Floats:
    """Shorten rows to the ball and lift them to the unit sphere of one dimension more.

    One rule then serves all lengths: the added coordinate is what the length lacks.
    """
    unit, length = directions(values)
    fraction = np.minimum(length / radius, 1.0)
    height = np.sqrt((1 - fraction) * (1 + fraction))
    return np.concatenate([fraction[:, None] * unit, height[:, None]], axis=1)
