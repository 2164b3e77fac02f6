"""Domains that mechanisms share: an item, a number in an interval, a vector in a ball."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ..randomness import RandomSource
from ..validation import Floats, Integers, check_integer, check_positive
from .base import Randomizer
from .elementwise import row_norms
from .two_level import residue_shares


@dataclass(frozen=True)
class OfItem(Randomizer):
    """Base class: a value is an item, an integer from 0 to ``domain_size - 1``.

    What is no such integer (a missing value, a fraction, a number outside the domain) counts as
    no item: a uniformly random item from the private randomness takes its place. The random
    words for this are drawn for every value.

    ``epsilon`` is the privacy parameter; there are 2 to 1,048,576 items unless a class says
    otherwise.
    """

    domain_size: int

    centre: ClassVar[float] = -1.0
    largest_domain: ClassVar[int] = 1 << 20  # counts of all items are held at once

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("domain_size", self.domain_size, 2, self.largest_domain)

    @property
    def width(self) -> int:
        """A value is one item number."""
        return 1

    def _numbered(self, values: Floats) -> Integers:
        """Return item numbers, ``domain_size`` for what is none."""
        valid = (values >= 0) & (values < self.domain_size) & (values == np.floor(values))
        return np.where(valid, values, self.domain_size).astype(np.int64)

    def _items(self, values: Floats, rng: RandomSource) -> Integers:
        """Return one item per user, a random one for what is none."""
        fallback = rng.words((len(values), 1))[:, 0] % np.uint64(self.domain_size)
        items = self._numbered(values)[:, 0]
        return np.where(items < self.domain_size, items, fallback.astype(np.int64))

    def _roundings(self, value: Floats) -> list[tuple[Fraction, int]]:
        """Return the items that :meth:`_items` may take one value for, with their chances."""
        (item,) = self._numbered(value).tolist()
        if item < self.domain_size:
            return [(Fraction(1), item)]
        return [(share, item) for item, share in enumerate(residue_shares(self.domain_size))]


@dataclass(frozen=True)
class OfNumber(Randomizer):
    """Base class: a value is one number in ``[-radius, radius]``, to which it is clipped.

    ``epsilon`` is the privacy parameter; the radius is 1 by default.
    """

    radius: float = 1.0

    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("radius", self.radius)


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
        The domain is the ball of this radius, to which longer vectors are shortened; where a class
        says so it is the box ``[-radius, radius] ** dim``, to which coordinates are clipped.
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
    """Return unit vectors and lengths of finite rows; the zero row gets the first axis.

    Each row is divided by its largest entry first: squares neither overflow nor vanish, so a
    direction has length 1 whatever the row is, as guarantees need.
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
