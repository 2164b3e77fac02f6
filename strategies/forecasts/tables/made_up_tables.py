"""Made-up tables, as far as models of them depend on how columns lie: what plans assume.

What they assume was read off 25 real tables, and tried on 25 others, see
``simulations/studies/planning``: the k-th principal axis of a table's columns has a variance in
proportion to 1 / k, slopes are a little larger along wide axes, and columns of numbers have a
standard deviation of about a seventh of their bounds.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from ldp_flower.schema import Categories, Numeric, Schema

from .directions import Moments

Floats = NDArray[np.float64]

#: In units in which bounds are at -2 and 2: of columns of numbers and of targets the standard
#: deviation, that of its logarithm between tables, and how far from 0 the mean is at most.
NUMBERS, TARGETS = (0.55, 0.35, 1.3), (0.5, 0.35, 0.7)
INDICATORS = 0.75  # variance of indicators, in units of that of categories of equal size
OWN = 0.8  # largest share of a user's own in what columns vary by, and residuals
#: To which power of an axis's variance slopes are proportional, of numbers and of classes: the
#: least and the most. Rare indicators tell more of classes.
ALONG, ALONG_CLASSES = (-0.25, 0.75), (-1.0, 0.5)
SHARES = 0.05, 0.45  # of the rarer class
_MOST_NUMBERS, _TABLES = 6_000, (12, 128)  # in all tables together, and how many there are


@dataclass(frozen=True)
class Columns:
    """What a schema tells of a table's columns.

    Attributes
    ----------
    numbers : int
        How many columns of numbers declare bounds only.
    scaled : int
        How many declare a centre and a scale too.
    indicators : int
        How many categories there are.
    free : int
        How many indicators are free of each other.
    even : float
        Sum of the variances of all indicators, were all categories of equal size.
    """

    numbers: int
    scaled: int
    indicators: int
    free: int
    even: float

    @classmethod
    def of(cls, schema: Schema) -> "Columns":
        """Return those of a schema."""
        numbers = [kind for kind in schema.columns.values() if isinstance(kind, Numeric)]
        widths = [kind.width for kind in schema.columns.values() if isinstance(kind, Categories)]
        scaled = sum(kind.scale is not None for kind in numbers)
        even = sum(1 - 1 / width for width in widths)
        return cls(len(numbers) - scaled, scaled, sum(widths), sum(widths) - len(widths), even)

    @property
    def features(self) -> int:
        """How many features are free of each other, with the intercept."""
        return 1 + self.numbers + self.scaled + self.free

    @property
    def row_length(self) -> float:
        """The usual length of a row, as models of tables take it."""
        return math.sqrt(1 + self.numbers + self.scaled + self.even)


@dataclass(frozen=True)
class MadeUpTables:
    """Several tables.

    Attributes
    ----------
    moments : Moments
        Of the features, the intercept first.
    slopes : ndarray, shape (tables, features)
        Direction of the best model; scores have variance 1, and no intercept.
    narrow : ndarray, shape (tables,)
        What the variance of all columns is in units of what it is once they are standardised.
    uncentred : float
        What is left of the square of the mean row where columns of numbers are centred.
    own : ndarray, shape (tables, 1)
        Share of a user's own in what columns vary by, and in residuals.
    size, centre : ndarray, shape (tables,)
        Of targets: standard deviation and mean.
    """

    moments: Moments
    slopes: Floats
    narrow: Floats
    uncentred: float
    own: Floats
    size: Floats
    centre: Floats

    def centred(self) -> Moments:
        """Return the moments around columns' centres, where these are found."""
        mean = math.sqrt(self.uncentred) * self.moments.mean
        mean[:, 0] = 1.0
        return Moments(self.moments.spectrum, mean)


@lru_cache(maxsize=64)
def made_up_tables(columns: Columns, along: tuple[float, float] = ALONG) -> MadeUpTables:
    """Return tables of such columns, always the same ones."""
    axes = columns.features - 1
    tables = int(np.clip(_MOST_NUMBERS // (axes + 1), *_TABLES))
    rng = default_rng([axes, 1])
    size, between, farthest = NUMBERS
    wide = size**2 * np.exp(2 * between * rng.standard_normal(tables))
    indicators = INDICATORS * columns.even
    variance = columns.numbers * wide + columns.scaled + indicators
    shares = 1 / np.arange(1, axes + 1)
    spectrum = np.full((tables, axes + 1), 1e-12)
    spectrum[:, 1:] = variance[:, None] * shares / shares.sum()
    away = columns.numbers * farthest**2 / 3, (1 - INDICATORS) * columns.even
    mean = rng.standard_normal((tables, axes + 1))
    mean *= math.sqrt(sum(away) / max(axes, 1))
    mean[:, 0] = 1.0
    slopes = rng.standard_normal((tables, axes + 1))
    slopes *= spectrum ** rng.uniform(*along, (tables, 1))
    slopes[:, 0] = 0.0
    slopes /= np.sqrt(np.einsum("ij,ij,ij->i", spectrum, slopes, slopes))[:, None]
    return MadeUpTables(
        Moments(spectrum, mean),
        slopes,
        variance / (columns.numbers + columns.scaled + indicators),
        away[1] / max(sum(away), 1e-300),
        rng.uniform(0, OWN, (tables, 1)),
        TARGETS[0] * np.exp(TARGETS[1] * rng.standard_normal(tables)),
        rng.uniform(-TARGETS[2], TARGETS[2], tables),
    )


@lru_cache(maxsize=64)
def made_up_classes(columns: Columns) -> MadeUpTables:
    """Return tables whose targets are two classes: their ``centre`` is the rarer one's share."""
    tables = made_up_tables(columns, ALONG_CLASSES)
    low, high = SHARES
    return replace(tables, centre=low + (high - low) * (tables.centre / TARGETS[2] + 1) / 2)
