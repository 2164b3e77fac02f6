"""Mechanisms for silos that report the indices of the largest coordinates of a sum."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...randomness import RandomSource, Words
from ...validation import Floats, check_integer
from ..base import Reports
from .gaussian import zcdp_rho
from .records import RecordMechanism, with_noise

_MAX_COORDINATES = 1 << 23  # a four-byte float can number twice as many vertices


def noisy_top(scores: Floats, how_many: int, scale: float, rng: RandomSource) -> NDArray[np.int64]:
    """Return the indices, in ascending order, of the ``how_many`` largest scores with Gumbel noise.

    ``scores`` and the result have one row per silo. Let the scores change by at most D. With noise
    of the given ``scale``, the choice then consists of ``how_many`` exponential mechanisms of
    epsilon ``2 D / scale`` each, without replacement (Durfee & Rogers 2019). Each of these is
    (2 D / scale)**2 / 8-zCDP, since its log-ratios lie in a range of that epsilon (Dong, Durfee &
    Rogers 2020).
    """
    gumbel = -np.log(rng.exponentials(scores.shape))
    order = np.argsort(-(scores + scale * gumbel), axis=1, kind="stable")
    return np.sort(order[:, :how_many], axis=1)


@dataclass(frozen=True)
class Choosing(RecordMechanism):
    """Base class of mechanisms that report the indices of a few coordinates of a sum.

    Each of ``steps`` reports is (rho / steps)-zCDP. The parameters of zero-concentrated privacy
    add up, also over mechanisms that are chosen adaptively.

    Guarantee
    ---------
    1. Protected: every record of a silo, against any other record in its place, at
       (rho / steps)-zCDP a report, rho = ``zcdp_rho(epsilon, delta)``; hence at
       (``epsilon``, ``delta``) for the whole plan, in real arithmetic. Leaving a record
       out is covered.
    2. Every record is first brought into the domain, and a value that is not finite
       becomes 0, so the guarantee holds for every input.
    3. The second point of each class explains why a report costs no more.
    """

    @cached_property
    def rho(self) -> float:
        """Cost of one report in zero-concentrated differential privacy: rho."""
        return zcdp_rho(self.epsilon, self.delta) / self.steps

    def _clipped(self, values: Floats) -> Floats:
        return np.clip(values, -self.radius, self.radius)

    def _are_places(self, numbers: Reports, limit: int) -> bool:
        """Return True if each row of ``numbers`` has increasing indices from 0, below ``limit``."""
        places = numbers.astype(np.float64)
        return bool(
            (places == np.floor(places)).all()
            and (places >= 0).all()
            and (places < limit).all()
            and (np.diff(places, axis=1) > 0).all()
        )


@dataclass(frozen=True)
class RecordPeeling(Choosing):
    """Randomiser of silos that reports the largest coordinates of a sum, with their values.

    Report and noise have ``sparsity`` coordinates. For a long vector with few important
    coordinates, this is far less noise than :class:`RecordGaussian` adds. Silos may report
    different coordinates, so the reports of many silos do not average out.

    Parameters
    ----------
    epsilon, dim, radius, delta, steps
        See :class:`.RecordMechanism`; coordinates are clipped to ``[-radius, radius]``.
    sparsity : int (default: 1)
        Number of coordinates in a report.

    Notes
    -----
    Source: peeling as in Dwork, Su & Zhang (2021) and Cai, Wang & Zhang (2021), with
    Gumbel noise and the accounting of :func:`noisy_top`. Half of the budget goes into the
    choice, half into the values.

    Guarantee
    ---------
    1. Points 1 and 2 of :class:`.Choosing` hold.
    2. The sums of two silos that differ in one record differ by at most D = ``2 radius`` in
       every coordinate, and so do their magnitudes. A choice is rho / (2 steps)-zCDP:
       s mechanisms of epsilon_0**2 / 8 each, epsilon_0 = sqrt(4 rho / (steps s)). The s
       values differ by at most sqrt(s) D in length; with noise of variance s D**2 steps /
       rho they are rho / (2 steps)-zCDP, given the choice. Both compose adaptively.
    """

    sparsity: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("sparsity", self.sparsity, 1, self.dim)

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise on the magnitudes: 2 D / epsilon_0."""
        return 4 * self.radius / math.sqrt(4 * self.rho / self.sparsity)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in each published value."""
        return 2 * self.radius * math.sqrt(self.sparsity / self.rho)

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Shape of a report: indices, values and the number of records."""
        return (2 * self.sparsity + 1,)

    @property
    def variance(self) -> float:
        """Variance of the noise in a published value: ``sigma**2``."""
        return self.sigma**2

    def _noisy(self, totals: Floats, shift: Floats, rng: RandomSource) -> Floats:
        places = noisy_top(np.abs(totals + shift), self.sparsity, self.scale, rng)
        values, shifts = (
            np.take_along_axis(np.broadcast_to(rows, totals.shape), places, axis=1)
            for rows in (totals, shift)
        )
        noisy = with_noise(values, self.sigma, rng) + shifts
        return np.concatenate([places, noisy], axis=1)

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        """Return the published values at their indices and 0 elsewhere; this is not unbiased."""
        dense = np.zeros((len(reports), self.size))
        places, values = np.split(reports[:, :-1].astype(np.float64), 2, axis=1)
        np.put_along_axis(dense, places.astype(np.int64), values, axis=1)
        dense[:, -1] = reports[:, -1]
        return dense

    def contains(self, reports: Reports) -> bool:
        """Return True if indices are valid and increasing, and the number of records is valid."""
        places = reports[:, : self.sparsity]
        return super().contains(reports) and self._are_places(places, self.dim)


@dataclass(frozen=True)
class RecordVertices(Choosing):
    """Randomiser of silos that reports one signed coordinate of a sum, without its value.

    The report is a vertex of the cross-polytope, plus or minus one coordinate. Without noise, it
    would be the vertex for which the sum is largest.

    Parameters
    ----------
    epsilon, dim, radius, delta, steps
        See :class:`.RecordMechanism`; coordinates are clipped to ``[-radius, radius]``,
        and there are at most 2**23 of them.

    Notes
    -----
    Source: the noisy maximum of Talwar, Thakurta & Zhang (2015), with Gumbel noise and the
    accounting of :func:`noisy_top`. The sign is chosen along with the coordinate: the
    sign of the true sum at a noisy place would not be private.

    Guarantee
    ---------
    1. Points 1 and 2 of :class:`.Choosing` hold.
    2. The sums of two silos that differ in one record differ by at most D = ``2 radius`` in
       every coordinate, and so does the score of every vertex. A report is an exponential
       mechanism of epsilon_0**2 / 8, epsilon_0 = sqrt(8 rho / steps).
    """

    most_coordinates: ClassVar[int | None] = _MAX_COORDINATES

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise on the scores: 2 D / epsilon_0."""
        return 4 * self.radius / math.sqrt(8 * self.rho)

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Shape of a report: the vertex, from 0 to ``2 dim - 1``, and the number of records."""
        return (2,)

    @property
    def variance(self) -> float:
        """Mean square of a coordinate of a report's vertex if the report is pure noise."""
        return 1 / self.dim

    def _noisy(self, totals: Floats, shift: Floats, rng: RandomSource) -> Floats:
        moved = totals + shift
        scores = np.concatenate([moved, -moved], axis=1)
        return noisy_top(scores, 1, self.scale, rng).astype(np.float64)

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        """Return the vertex times the number of records; this is not unbiased."""
        vertices, counts = reports[:, 0].astype(np.int64), reports[:, 1].astype(np.float64)
        dense = np.zeros((len(reports), self.size))
        signs = np.where(vertices < self.dim, 1.0, -1.0)
        dense[np.arange(len(reports)), vertices % self.dim] = signs * counts
        dense[:, -1] = counts
        return dense

    def contains(self, reports: Reports) -> bool:
        """Return True if the vertex is in range, and the number of records is valid."""
        return super().contains(reports) and self._are_places(reports[:, :1], 2 * self.dim)
