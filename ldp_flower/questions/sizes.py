"""Questions about sizes: octaves, mean squares, and mean squared residuals of a model.

A residual is a row's target minus its mean under a link at ``u = offset + <x, theta>``.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from .base import AboutFeatures, OneNumber, Question
from .fields import Coordinates, PerFeature, Signed
from .links import LINKS

OCTAVES: Final = 64  # for sizes from 2**-32 to 2**32; other sizes count as the first or last octave
SMALLEST_OCTAVE: Final = -32


class Octave(OneNumber):
    """Base class of questions for an octave: the binary logarithm of a size, plus 32, as integer.

    A logarithm that is a fraction f of the way to the next integer is rounded up with probability
    f, by a random coin of each user. So a size that all users share can be estimated to a fraction
    of an octave. If the size is 0 or NaN, the value is -1.
    """

    draws: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class ResidualOctave(Octave):
    """The octave (rounded binary logarithm) of the root mean square of a user's residuals."""

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
    """The octave (rounded binary logarithm) of the length of a user's mean row minus ``centre``."""

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
    """Mean squared residuals of a model and of a constant predictor, shape (users, 2).

    The first column divides the model's residuals by ``bound``. The second column divides the
    residuals at ``u = constant`` by ``constant_bound``. Each square is clipped to at most 1, and
    the value is the mean of the squares minus 1/2. Users without rows have zeros.
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
