"""Base classes of randomizers: frozen descriptions of one mechanism, with both its halves.

The module also has base classes for two common domains: a number in an interval, and a vector.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..randomness import RandomSource, Words, as_source, derive
from ..validation import Floats, PlainFields, check_integer, check_positive, check_range
from .estimates import Estimate, Summary

Reports = NDArray[np.generic]

_BLOCK_ENTRIES = 1 << 18  # elements of reports drawn at a time, so that they stay in the cache
_DEBIASED_ENTRIES = 1 << 22  # elements of debiased reports in memory at a time
_SUMMED_STEP = 2.0**-31  # relative to the power of two above the bound: four million add exactly


def _coins(num_users: int, coins: Words | None) -> Words:
    """Return the public coins; by default derive one 64-bit state per row from its index."""
    if coins is None:
        return derive(np.arange(num_users, dtype=np.uint64))
    if len(coins) != num_users:
        raise ValueError(f"Expected {num_users} coins, one per user, got {len(coins)}.")
    return coins


@dataclass(frozen=True)
class Randomizer(PlainFields, ABC):
    """Local mechanism: it turns values into reports and estimates values from reports.

    Subclasses are frozen dataclasses of public parameters. ``coins`` are public randomness: one
    64-bit integer per user, which user and server both know. Coins never need to be secret, and
    no guarantee depends on them.
    """

    epsilon: float

    #: Value that replaces rows that are not finite.
    centre: ClassVar[float] = 0.0
    #: The neighbouring relation.
    protects: ClassVar[str] = "any two values of one user"
    #: True if a sum of debiased reports can take the place of the reports.
    summable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("epsilon", self.epsilon, 1e-6, 100)

    @property
    @abstractmethod
    def exact(self) -> bool:
        """True if there are finitely many outputs, drawn by integer thresholds.

        The guarantee then has no floating-point caveats. Clients refuse other mechanisms unless
        their operator allows these.
        """

    @property
    def shared(self) -> bool:
        """True if a report has only a part of the noise, so that nothing but a sum may be seen.

        The nodes then mask their reports, and the server sees the sum of all of them.
        """
        return False

    @property
    def permanent(self) -> bool:
        """True if a user can answer at many times for one epsilon, with the same private words.

        A report is then one bit that follows from the value, and that the user's private random
        words alone keep or flip. With the same words, all bits of a user are flipped or none. Given
        the times at which the bits change, which the server sees, all answers together cost
        epsilon.
        """
        return False

    @property
    def debiasable(self) -> bool:
        """True if :meth:`debias` can turn a single report into an estimate of its user's value."""
        return self.summable

    @property
    def delta(self) -> float:
        """Delta of the guarantee; 0 for a pure guarantee."""
        return 0.0

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of coordinates of a user's value, before it is randomised."""

    @property
    def size(self) -> int:
        """Number of coordinates of a debiased report, and so of an estimate."""
        return self.width

    @property
    @abstractmethod
    def report_dtype(self) -> np.dtype[np.generic]:
        """Type of a report's elements in messages."""

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Shape of one user's report; () for a single number."""
        return ()

    @property
    def report_bytes(self) -> int:
        """Size of one user's report, in bytes."""
        return int(math.prod(self.report_shape)) * self.report_dtype.itemsize

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of one debiased report, averaged over the coordinates, at the worst input.

        The noise variance of a mean of n reports is this variance divided by n.
        """

    @property
    @abstractmethod
    def bound(self) -> float:
        """Largest absolute value of a coordinate of one debiased report.

        With it, a server recognises sums that no users can have (:meth:`accepts`).
        """

    @property
    def length(self) -> float:
        """Largest Euclidean length of one debiased report, a second bound for :meth:`accepts`."""
        return self.bound * math.sqrt(self.size)

    @abstractmethod
    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        """Return reports of values, shape (users, width), that :meth:`_own` has prepared."""

    @abstractmethod
    def _debias(self, reports: Reports, coins: Words) -> Floats:
        """Return unbiased estimates of the users' values, see :meth:`debias`."""

    @abstractmethod
    def contains(self, reports: Reports) -> bool:
        """Return True if all reports of an array of finite numbers are possible.

        Shape and type of the array have been checked by :meth:`well_formed`, which calls this.
        """

    @final
    def randomize(
        self,
        values: ArrayLike,
        rng: RandomSource | np.random.Generator,
        coins: Words | None = None,
    ) -> Reports:
        """Return one report per user: the user's value, randomised.

        Parameters
        ----------
        values : array_like, shape (users, width)
            Any numbers. They are brought into the mechanism's domain: finite values are clipped,
            and a row with a NaN or an infinity in a coordinate that the mechanism reads is replaced
            by the domain's centre.
        rng : RandomSource or numpy.random.Generator
            Private randomness.
        coins : ndarray of uint64, shape (users,), optional
            Public randomness; by default it is derived from the row's index.

        Returns
        -------
        ndarray, shape (users, *report_shape)
            One report per user, of fixed size and type.

        Raises
        ------
        ValueError
            If the shape of ``values`` is wrong.
        """
        values = np.asarray(values)
        if values.ndim != 2 or values.shape[1] != self.width:
            raise ValueError(f"Expected values of shape (users, {self.width}), got {values.shape}.")
        users = len(values)
        coins = _coins(users, coins)
        reports = np.empty((users, *self.report_shape), self.report_dtype)
        size = max(1, _BLOCK_ENTRIES // math.prod(self.report_shape))
        # Overflow is harmless, since overflowing values are clipped. If NumPy raised an error
        # for it, the error would reveal that it happened.
        with np.errstate(all="ignore"):
            for run, source in as_source(rng).blocks(users, size):
                reports[run] = self._randomize(self._own(values[run]), source, coins[run])
        return reports

    @final
    def _own(self, values: ArrayLike) -> Floats:
        """Return a copy of values with contiguous rows and without rows that are not finite.

        A copy is always made: the order in which a row's numbers are added depends on the memory
        layout of the rows, and must not depend on other rows.
        """
        own = np.array(values, np.float64, order="C")
        self._centre(own)
        return own

    def _centre(self, values: Floats) -> None:
        """Replace rows that are not finite by the centre, in place."""
        values[~np.isfinite(values).all(axis=1)] = self.centre

    def debias(self, reports: Reports, coins: Words | None = None) -> Floats:
        """Return unbiased estimates of the users' values from reports, shape (users, size)."""
        return self._debias(reports, _coins(len(reports), coins))

    def for_cohort(self, num_users: int, coin: int) -> Self:
        """Return the mechanism for a cohort of ``num_users`` users, with the cohort's public coin.

        The guarantee and the distribution of a report stay the same. Mechanisms whose users share
        public randomness derive it from this coin, in the amount that the cohort needs.
        """
        return self

    def public_order(self, coins: Words) -> NDArray[np.intp]:
        """Return the users' indices, so ordered that users of equal public randomness are together.

        The work that such users share, as the generation of a codebook, is then done once.
        """
        return np.arange(len(coins))

    def summarize(self, reports: Reports, coins: Words | None = None) -> Summary:
        """Return the sums of the reports after debiasing.

        A client sends them in place of its reports if they are shorter. Otherwise the server
        computes them.
        """
        coins = _coins(len(reports), coins)
        order = self.public_order(coins)
        step = max(1, _DEBIASED_ENTRIES // self.size)
        summary = Summary.empty(self.size)
        for start in range(0, len(reports), step):
            run = order[start : start + step]
            summary += self._summarize(reports[run], coins[run])
        return summary

    def _summarize(self, reports: Reports, coins: Words) -> Summary:
        values = self._addable(self._debias(reports, coins))
        return Summary(len(values), values.sum(axis=0), np.einsum("ij,ij->j", values, values))

    def _addable(self, values: Floats) -> Floats:
        """Return debiased reports, rounded far below their noise so that their sums are exact.

        The mean is then the same to the last bit in whatever order, and on however many nodes,
        the reports are added.
        """
        step = math.ldexp(_SUMMED_STEP, math.frexp(self.bound)[1])
        return np.asarray(np.rint(values / step) * step)

    def estimate(self, summary: Summary) -> Estimate:
        """Return the mean of the users' values from a summary of their reports."""
        count = summary.count
        if count == 0:
            return Estimate(np.zeros(self.size), np.full(self.size, np.inf), 0)
        mean = summary.sum / count
        spread = np.maximum(summary.sum_of_squares / count - mean**2, 0.0)
        std_error = np.sqrt(spread / (count - 1)) if count > 1 else np.full(self.size, np.inf)
        return Estimate(mean, std_error, count)

    def mean(self, reports: Reports, coins: Words | None = None) -> Floats:
        """Return the unbiased estimate of the mean of the users' values, from their reports."""
        return self.estimate(self.summarize(reports, coins)).mean

    def accepts(self, summary: Summary, coins: Words) -> bool:
        """Return True if the users with these coins, or some of them, can have this summary.

        A server uses it to reject malformed reports.
        """
        count, total, squares = summary.count, summary.sum, summary.sum_of_squares
        slack = 1 + (1e-9 if self.exact else 1e-6)  # inexact reports are rounded to four bytes
        return bool(
            0 <= count <= len(coins)
            and total.dtype == squares.dtype == np.float64
            and total.shape == squares.shape == (self.size,)
            and np.isfinite(total).all()
            and np.isfinite(squares).all()
            and (squares >= 0).all()
            and (np.abs(total) <= count * self.bound * slack).all()
            and (squares <= count * self.bound**2 * slack).all()
            and (total**2 <= count * squares * slack).all()
            and np.linalg.norm(total) <= count * self.length * slack
            and squares.sum() <= count * self.length**2 * slack
        )

    def well_formed(self, reports: Reports, num_users: int) -> bool:
        """Return True if ``reports`` can be the reports of ``num_users`` users.

        A server rejects messages for which it is False.
        """
        return (
            reports.shape == (num_users, *self.report_shape)
            and reports.dtype == self.report_dtype
            and bool(np.isfinite(reports).all())
            and self.contains(reports)
        )

    def to_config(self) -> dict[str, int | float | str]:
        """Return name and parameters as plain values, as a query to clients holds them.

        :func:`~ldp_flower.randomizers.randomizer_from_config` is the inverse.
        """
        return {"name": type(self).__name__} | {
            field.name: getattr(self, field.name) for field in fields(self)
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, object]) -> Self:
        """Return the mechanism with parameters from an untrusted message.

        Raise ValueError if a parameter is missing, unknown or invalid.
        """
        known = {field.name: field.type for field in fields(cls)}
        if set(parameters) != set(known):
            raise ValueError(
                f"Expected {cls.__name__} parameters {sorted(known)}, got {sorted(parameters)}."
            )
        for name, value in parameters.items():
            number = isinstance(value, int) or (known[name] is float and isinstance(value, float))
            if isinstance(value, bool) or not number:
                raise ValueError(f"Expected a number for {cls.__name__} {name}, got {value!r}.")
        return cls(**{name: known[name](value) for name, value in parameters.items()})  # type: ignore[operator]


@dataclass(frozen=True)
class OfNumber(Randomizer):
    """Base class of mechanisms for one number, which is clipped to ``[-radius, radius]``.

    ``epsilon`` is the privacy parameter. The radius is 1 by default.
    """

    radius: float = 1.0

    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("radius", self.radius)


@dataclass(frozen=True)
class OfVector(Randomizer):
    """Base class of mechanisms for one vector.

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    dim : int
        Number of coordinates.
    radius : float (default: 1.0)
        Radius of the domain, which is a ball. Longer vectors are shortened to this length. If a
        class says so, the domain is the box ``[-radius, radius] ** dim`` instead, to which
        coordinates are clipped.
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
