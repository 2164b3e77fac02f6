"""Mechanism that reports one coordinate of a vector, chosen by the user's public coin."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..randomness import RandomSource, Words, derive
from ..validation import Floats, check_integer
from .base import Randomizer, Reports
from .estimates import Estimate, Summary
from .two_level import Law, enumerable

_WHICH, _PART = 0, 1  # purposes of the user's coin


@dataclass(frozen=True)
class SampledCoordinate(Randomizer):
    """Mechanism that applies a mechanism for one number to one coordinate of each user's vector.

    The user's public coin chooses the coordinate. Each coordinate is estimated from the
    reports of the users to whom it is assigned, about ``1 / dim`` of all users, at the whole
    epsilon. For vectors in a ball, :class:`.Codebook` has less variance. This mechanism is for
    estimates that are not vectors, such as a histogram of every coordinate.

    Parameters
    ----------
    part : Randomizer
        A summable mechanism for one number or item whose report is one number. Its epsilon is
        the epsilon of this mechanism.
    dim : int
        Number of coordinates.

    Notes
    -----
    An estimate consists of the part's estimates for each coordinate in turn,
    ``dim * part.size`` numbers. A summary holds the number of reports of every
    coordinate and then the parts' sums, so that an estimate divides by the actual number of
    users of a coordinate.

    Guarantee
    ---------
    1. Protected: any two values of one user, at the part's epsilon and delta, for every
       coin.
    2. The coordinate depends on the public coin alone. A report is the part's report of
       one number, and the part's guarantee holds for any two numbers.
    3. The other coordinates, finite or not, have no influence on the report. The part
       brings the chosen coordinate into its domain, so the guarantee holds for every input.
    """

    epsilon: float = field(init=False)
    part: Randomizer
    dim: int

    def __post_init__(self) -> None:
        part = self.part
        nested = isinstance(part, SampledCoordinate)
        if not isinstance(part, Randomizer) or nested or not part.summable:
            raise ValueError(f"Expected a summable part that does not sample itself, got {part}.")
        if part.width != 1 or part.report_shape != ():
            raise ValueError(f"Expected a part with one number as value and as report, got {part}.")
        check_integer("dim", self.dim, 1)
        object.__setattr__(self, "epsilon", part.epsilon)
        super().__post_init__()

    @property
    def exact(self) -> bool:
        """True if the part is exact."""
        return self.part.exact

    @property
    def delta(self) -> float:
        """Delta of the part."""
        return self.part.delta

    @property
    def width(self) -> int:
        """Number of coordinates of a value."""
        return self.dim

    @property
    def size(self) -> int:
        """Number of values in a debiased report: an indicator and the part's, per coordinate."""
        return self.dim * (1 + self.part.size)

    @property
    def report_dtype(self) -> np.dtype[np.generic]:
        """Type of the part's report."""
        return self.part.report_dtype

    @property
    def variance(self) -> float:
        """``dim`` times the part's variance, since a coordinate has ``1 / dim`` of the reports."""
        return self.dim * self.part.variance

    @property
    def bound(self) -> float:
        """The part's bound, but at least 1, the bound of an indicator."""
        return max(1.0, self.part.bound)

    def for_cohort(self, num_users: int, coin: int) -> Self:
        """Return the mechanism for a cohort.

        Its part is set up for ``num_users`` users and their public coin.
        """
        return replace(self, part=self.part.for_cohort(num_users, coin))

    def assigned(self, coins: Words) -> NDArray[np.int64]:
        """Return the index of the coordinate on which each user reports, chosen by its coin."""
        return (derive(coins, _WHICH) % np.uint64(self.dim)).astype(np.int64)

    def _centre(self, values: Floats) -> None:
        """Leave values unchanged: the part replaces those that are not finite by its centre."""

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        own = np.take_along_axis(values, self.assigned(coins)[:, None], axis=1)
        return self.part.randomize(own, rng, derive(coins, _PART))

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        users, assigned = np.arange(len(reports)), self.assigned(coins)
        indicators = np.zeros((len(reports), self.dim))
        indicators[users, assigned] = 1.0
        values = np.zeros((len(reports), self.dim, self.part.size))
        values[users, assigned] = self.part.debias(reports, derive(coins, _PART))
        return np.concatenate([indicators, values.reshape(len(reports), -1)], axis=1)

    def _summarize(self, reports: Reports, coins: Words) -> Summary:
        assigned, coins = self.assigned(coins), derive(coins, _PART)
        counts = np.bincount(assigned, minlength=self.dim).astype(np.float64)
        sums = np.zeros((2, self.dim, self.part.size))
        for coordinate in np.flatnonzero(counts):
            mine = assigned == coordinate
            own = self.part.summarize(reports[mine], coins[mine])
            sums[:, coordinate] = own.sum, own.sum_of_squares
        total, squares = (np.concatenate([counts, part.ravel()]) for part in sums)
        return Summary(len(reports), total, squares)

    def _each(self, summary: Summary) -> Iterator[Summary]:
        """Yield, for each coordinate, the summary of the reports on it."""
        counts = np.rint(summary.sum[: self.dim]).astype(np.int64).tolist()
        sums = summary.sum[self.dim :].reshape(self.dim, -1)
        squares = summary.sum_of_squares[self.dim :].reshape(self.dim, -1)
        for count, total, square in zip(counts, sums, squares, strict=True):
            yield Summary(count, total, square)

    def estimate(self, summary: Summary) -> Estimate:
        """Return the part's estimate of each coordinate.

        The standard error of a coordinate without reports is infinite.
        """
        return Estimate.side_by_side(map(self.part.estimate, self._each(summary)), summary.count)

    def accepts(self, summary: Summary, coins: Words) -> bool:
        """Return True if the part accepts the summary of the reports on each coordinate."""
        if not summary.sum.shape == summary.sum_of_squares.shape == (self.size,):
            return False
        counts = summary.sum[: self.dim]
        assigned = self.assigned(coins)
        users = np.bincount(assigned, minlength=self.dim)
        if not (
            np.array_equal(counts, summary.sum_of_squares[: self.dim])
            and ((counts >= 0) & (counts <= users) & (counts == np.floor(counts))).all()
            and counts.sum() == summary.count
        ):
            return False
        coins = derive(coins, _PART)
        return all(
            self.part.accepts(own, coins[assigned == coordinate])
            for coordinate, own in enumerate(self._each(summary))
        )

    def contains(self, reports: Reports) -> bool:
        """Return True if every report is a possible report of the part."""
        return self.part.contains(reports)

    def worst_ratio(self) -> Fraction:
        """Return the worst ratio of the part."""
        return enumerable(self.part).worst_ratio()

    def law(self, value: Floats, coin: Words) -> Law:
        """Return the probability of every report on the coordinate that the coin chooses."""
        own = value[self.assigned(coin)]
        return enumerable(self.part).law(own, derive(coin, _PART))

    def to_config(self) -> dict[str, int | float | str]:
        """Return ``dim`` and the part's configuration (``part/name`` etc.) as plain values."""
        own = {f"part/{name}": value for name, value in self.part.to_config().items()}
        return {"name": type(self).__name__, "dim": self.dim, **own}
