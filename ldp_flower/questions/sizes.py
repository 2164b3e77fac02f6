"""Questions about sizes: their octaves, squares, and what is left of reports that are shortened.

A residual is a row's target minus its mean, given ``u = offset + <x, theta>`` and a link.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from .base import (
    AboutFeatures,
    Coordinates,
    OneNumber,
    PerFeature,
    Question,
    Signed,
)
from .links import LINKS

OCTAVES: Final = 64  # of all sizes from 2**-32 to 2**32; what is beyond counts as the last
SMALLEST_OCTAVE: Final = -32


class Octave(OneNumber):
    """Base class: the binary logarithm of a size, plus 32, rounded at random.

    A number that is a fraction f of the way to the next integer is rounded up with probability f,
    by each user's own coin: so equal sizes of all users are known to a fraction of an octave. -1,
    no octave, where the size is 0 or NaN.
    """

    draws: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class ResidualOctave(Octave):
    """The octave of the root mean square of a user's residuals."""

    stem: ClassVar[str] = "residual_octave"
    links: ClassVar[tuple[str, ...]] = tuple(LINKS)

    theta: PerFeature
    offset: Signed
    link: str = "identity"


@dataclass(frozen=True, eq=False)
class ScoreOctave(AboutFeatures, Octave):
    """The octave of the root mean square of ``offset + <x, direction>`` over a user's rows."""

    stem: ClassVar[str] = "score_octave"

    direction: PerFeature
    offset: Signed


@dataclass(frozen=True, eq=False)
class DistanceOctave(AboutFeatures, Octave):
    """The octave of the length of a user's mean row minus ``centre``."""

    stem: ClassVar[str] = "distance_octave"

    centre: PerFeature


@dataclass(frozen=True, eq=False)
class Squares(AboutFeatures):
    """The mean over a user's rows of each feature's squared distance from ``centre``."""

    stem: ClassVar[str] = "squares"

    centre: PerFeature
    coordinates: Coordinates | None = None


@dataclass(frozen=True, eq=False)
class ResidualSquares(Question):
    """Mean squares of the residuals of a model, and of one constant, shape (users, 2).

    Each over the square of its bound, at most 1, minus 1/2: of the model's residuals over
    ``bound``, and of those at ``u = constant`` over ``constant_bound``. Users without rows have
    zeros.
    """

    stem: ClassVar[str] = "residual_squares"
    fixed_width: ClassVar[int] = 2
    links: ClassVar[tuple[str, ...]] = tuple(LINKS)

    theta: PerFeature
    offset: Signed
    constant: Signed
    bound: float
    constant_bound: float
    link: str = "identity"
