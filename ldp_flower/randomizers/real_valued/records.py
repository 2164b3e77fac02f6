"""Mechanisms for silos, which report on a sum over many records and protect every record.

Here a report is the whole sum. In :mod:`.record_places` it is the sum's largest coordinates with
their values, or its largest coordinate as a signed vertex.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...randomness import RandomSource, Words
from ...validation import Floats, check_fraction, check_integer, check_range
from ..base import Reports
from ..elementwise import directions
from ..estimates import Estimate, Summary
from . import RealVector, on_grid
from .gaussian import gaussian_mu

_MAX_RECORDS = 1 << 24  # largest number up to which a four-byte float counts exactly
# Outside this range, sums overflow, or they are rounded by as much as a record can change them,
# or the noise's scale is rounded, in the end to 0. All of these would distinguish records.
_SMALLEST_RADIUS, _LARGEST_RADIUS = 1e-30, 1e30
_NOISE_ENDS = 37.0  # standard deviations at which drawn normals end
# A noisy sum that is possible under one record and impossible under another has a probability
# of at most 1e-111 in any coordinate of any report.
_SMALLEST_DELTA = 1e-90
_MAX_CENTRE = 1024.0  # largest coordinate of a centre, in radii


def with_noise(sums: Floats, sigma: float, rng: RandomSource) -> Floats:
    """Return sums with normal noise of standard deviation ``sigma``, rounded to a grid."""
    return on_grid(sums + sigma * rng.normals(sums.shape), _NOISE_ENDS * sigma)


@dataclass(frozen=True)
class RecordMechanism(RealVector):
    """Base class of mechanisms by which a silo reports a noisy sum over its records, repeatedly.

    The noise does not depend on the number of records, so the guarantee does not depend on a
    declared number. The number of records is public and is part of the report, for the mean
    and for the weight of the silo. As a :class:`Randomizer` of single values, the mechanism
    treats every value as a silo with one record.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of all ``steps`` reports of a silo together; delta is at least 1e-90 and
        below 1, by default 1e-6.
    dim : int
        Number of coordinates of a record's value.
    radius : float (default: 1.0)
        Euclidean length to which a record's value is shortened. If a class says so, its
        coordinates are clipped to ``[-radius, radius]`` instead.
    steps : int (default: 1)
        Number of reports that ``epsilon`` and ``delta`` cover.
    """

    delta: float = field(default=1e-6)
    steps: int = 1

    most_coordinates: ClassVar[int | None] = _MAX_RECORDS
    protects: ClassVar[str] = "any two values of one record of a silo"
    smallest_radius: ClassVar[float] = 0.0  # __post_init__ checks both limits of the radius
    bound: ClassVar[float] = np.inf  # the noise is not bounded

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("radius", self.radius, _SMALLEST_RADIUS, _LARGEST_RADIUS)
        check_fraction("delta", self.delta)
        if self.delta < _SMALLEST_DELTA:
            raise ValueError(f"Expected delta >= {_SMALLEST_DELTA:g}, got {self.delta}.")
        check_integer("steps", self.steps, 1)

    @property
    def plan(self) -> str:
        """Text that identifies the plan within a run: mechanism, parameters, number of reports.

        It does not contain the domain, which may change from report to report: the noise is
        proportional to it.
        """
        return f"{type(self).__name__} {self.epsilon!r} {self.delta!r} {self.steps}"

    @property
    def size(self) -> int:
        """Number of coordinates of a debiased report: those of the sum, and the records' number."""
        return self.dim + 1

    def total(self, values: Floats) -> Floats:
        """Return the sum of the records' values, each first brought into the domain."""
        with np.errstate(all="ignore"):
            return np.asarray(self._clipped(self._own(values)).sum(axis=0))

    def report(
        self,
        totals: Floats,
        num_records: Floats,
        rng: RandomSource,
        centre: Floats | float = 0.0,
    ) -> Reports:
        """Return reports of sums, shape ``(silos, *report_shape)``.

        Parameters
        ----------
        totals : ndarray of float64, shape (silos, dim)
            Sums by :meth:`total`.
        num_records : ndarray of float64, shape (silos,)
            Public numbers of records, at most 2**24.
        rng : RandomSource
            Private randomness.
        centre : ndarray of float64, shape (dim,) (default: 0)
            Public vector, clipped to 1,024 radii, that is added to every record's value.
            Mechanisms that choose coordinates compare the sums after this addition.
        """
        limit = _MAX_CENTRE * self.radius
        counts = np.minimum(num_records, _MAX_RECORDS)[:, None]
        with np.errstate(all="ignore"):
            noisy = self._noisy(totals, counts * np.clip(centre, -limit, limit), rng)
            return np.concatenate([noisy, counts], axis=1).astype(np.float32)

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        return self.report(self._clipped(values), np.ones(len(values)), rng)

    @abstractmethod
    def _clipped(self, values: Floats) -> Floats:
        """Return finite values, each clipped to the mechanism's domain."""

    @abstractmethod
    def _noisy(self, totals: Floats, shift: Floats, rng: RandomSource) -> Floats:
        """Return the reported numbers for sums to which a public ``shift`` is added.

        Noise is added before the shift, since a large shift could round off a sum's last digits.
        """

    def estimate(self, summary: Summary) -> Estimate:
        """Return the mean over all records of all silos.

        The standard error is that of the known noise alone, since the records are not a sample.
        """
        if summary.count == 0:
            return Estimate(np.zeros(self.dim), np.full(self.dim, np.inf), 0)
        records = summary.sum[-1]
        error = np.sqrt(summary.count * self.variance) / records
        return Estimate(summary.sum[:-1] / records, np.full(self.dim, error), summary.count)

    def contains(self, reports: Reports) -> bool:
        """Return True if the numbers of records are integers above 0."""
        counts = reports[:, -1].astype(np.float64)
        return bool((counts >= 1).all() and (counts == np.floor(counts)).all())


@dataclass(frozen=True)
class RecordGaussian(RecordMechanism):
    """Randomiser of silos that adds Gaussian noise to the sum over their records.

    Notes
    -----
    Source: the analytic Gaussian mechanism of Balle & Wang (2018), composed exactly: steps
    with mu_j = sensitivity / noise are together one step with mu = sqrt(sum of mu_j**2),
    also if they are chosen adaptively (Dong, Roth & Su 2022). The noise replaces the
    unspecified constant of Wang & Xu (2019), Algorithm 3.

    Guarantee
    ---------
    1. Protected: every record of a silo, against any other record in its place, at
       (``epsilon``, ``delta``) for ``steps`` reports together, in real arithmetic.
       Leaving a record out changes a sum half as much and is covered.
    2. The sums of two silos that differ in one record differ by at most the diameter
       ``2 radius``. Each report's noise is sqrt(steps) times the diameter, divided by
       ``gaussian_mu(epsilon, delta)``.
    3. Every record is shortened first, and a value that is not finite becomes 0, so
       the guarantee holds for every input.
    """

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise in each coordinate of a sum."""
        mu = gaussian_mu(self.epsilon, self.delta)
        return float(np.sqrt(self.steps)) * 2 * self.radius / mu

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Shape of a report: the sum and the number of records."""
        return (self.dim + 1,)

    @property
    def variance(self) -> float:
        """Variance of the noise in a coordinate of a sum: ``sigma**2``."""
        return self.sigma**2

    def _clipped(self, values: Floats) -> Floats:
        unit, length = directions(values)
        return unit * np.minimum(length, self.radius)[:, None]

    def _noisy(self, totals: Floats, shift: Floats, rng: RandomSource) -> Floats:
        return with_noise(totals, self.sigma, rng) + shift
