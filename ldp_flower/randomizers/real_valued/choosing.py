"""The largest coordinates of a sum over records, with their values or as signed vertices."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...randomness import RandomSource, Words
from ...validation import Floats, check_integer
from ..base import Reports
from .records import Concentrated, with_noise


def noisy_top(scores: Floats, how_many: int, scale: float, rng: RandomSource) -> NDArray[np.int64]:
    """Return the places of the ``how_many`` largest scores after adding Gumbel noise, in order.

    ``scores`` and the result have one row a silo. For scores that change by at most D the noise's
    ``scale`` makes the choice ``how_many`` exponential mechanisms of epsilon ``2 D / scale`` each,
    without replacement (Durfee & Rogers 2019), and each of these (2 D / scale)**2 / 8-zCDP, since
    its log-ratios lie in a range of that epsilon (Dong, Durfee & Rogers 2020).
    """
    gumbel = -np.log(rng.exponentials(scores.shape))
    order = np.argsort(-(scores + scale * gumbel), axis=1, kind="stable")
    return np.sort(order[:, :how_many], axis=1)


class Choosing(Concentrated):
    """Base class: few coordinates of a sum are reported, by their places."""

    def _clipped(self, values: Floats) -> Floats:
        return np.clip(values, -self.radius, self.radius)

    def _are_places(self, numbers: Reports, limit: int) -> bool:
        """Whether these numbers of every report are increasing places below ``limit``."""
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

    What is published has ``sparsity`` coordinates, and so has the noise: for a long vector
    of which few coordinates matter it is far less than :class:`RecordGaussian` adds. Which
    coordinates they are depends on the silo, so the reports of many silos do not average out.

    Parameters
    ----------
    epsilon, dim, radius, delta, steps
        As of :class:`.RecordMechanism`; coordinates are clipped to ``[-radius, radius]``.
    sparsity : int (default: 1)
        Number of coordinates in a report.

    Notes
    -----
    Source: peeling as in Dwork, Su & Zhang (2021) and Cai, Wang & Zhang (2021), with
    Gumbel noise and the accounting of :func:`noisy_top`. Half of the budget goes into the
    choice, half into the values.

    Guarantee
    ---------
    1. As the first two of :class:`.Concentrated`.
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
        """Scale of the Gumbel noise on the magnitudes: twice D over epsilon_0."""
        return 4 * self.radius / math.sqrt(4 * self.rho / self.sparsity)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in each published value."""
        return 2 * self.radius * math.sqrt(self.sparsity / self.rho)

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Places, values and the number of records."""
        return (2 * self.sparsity + 1,)

    @property
    def variance(self) -> float:
        """``sigma**2``, of a published value."""
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
        """Return the published values at their places, zero elsewhere: not unbiased."""
        dense = np.zeros((len(reports), self.size))
        places, values = np.split(reports[:, :-1].astype(np.float64), 2, axis=1)
        np.put_along_axis(dense, places.astype(np.int64), values, axis=1)
        dense[:, -1] = reports[:, -1]
        return dense

    def contains(self, reports: Reports) -> bool:
        """Whether places increase within the vector, and the rest is as in all silo reports."""
        places = reports[:, : self.sparsity]
        return super().contains(reports) and self._are_places(places, self.dim)


_MAX_COORDINATES = 1 << 23  # a four-byte float distinguishes twice as many vertices


@dataclass(frozen=True)
class RecordVertices(Choosing):
    """Randomiser of silos that reports signed coordinates of a sum, without values.

    The vertices are those of the cross-polytope, plus and minus each coordinate; reported are
    ``num_vertices`` of those on which the sum is largest.

    Parameters
    ----------
    epsilon, dim, radius, delta, steps
        As of :class:`.RecordMechanism`; coordinates are clipped to ``[-radius, radius]``,
        at most 2**23 of them.
    num_vertices : int (default: 1)
        Number of vertices in a report.

    Notes
    -----
    Source: the noisy maximum of Talwar, Thakurta & Zhang (2015), with Gumbel noise and the
    accounting of :func:`noisy_top`. The sign is chosen along with the coordinate: the
    sign of the true sum at a noisy place would not be private.

    Guarantee
    ---------
    1. As the first two of :class:`.Concentrated`.
    2. The sums of two silos that differ in one record differ by at most D = ``2 radius`` in
       every coordinate, and so does the score of every vertex. A report is made of k =
       ``num_vertices`` exponential mechanisms of epsilon_0**2 / 8 each, epsilon_0 =
       sqrt(8 rho / (steps k)).
    """

    num_vertices: int = 1

    most_coordinates: ClassVar[int | None] = _MAX_COORDINATES

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_vertices", self.num_vertices, 1, 2 * self.dim)

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise on the scores: twice D over epsilon_0."""
        return 4 * self.radius / math.sqrt(8 * self.rho / self.num_vertices)

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Vertices, from 0 to ``2 dim - 1``, and the number of records."""
        return (self.num_vertices + 1,)

    @property
    def variance(self) -> float:
        """Mean square of a coordinate of a report's vertices, when all noise."""
        return self.num_vertices / self.dim

    def _noisy(self, totals: Floats, shift: Floats, rng: RandomSource) -> Floats:
        moved = totals + shift
        scores = np.concatenate([moved, -moved], axis=1)
        return noisy_top(scores, self.num_vertices, self.scale, rng).astype(np.float64)

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        """Return the sum of the vertices, times the number of records: not unbiased."""
        vertices, counts = reports[:, :-1].astype(np.int64), reports[:, -1].astype(np.float64)
        dense = np.zeros((len(reports), self.size))
        silos = np.arange(len(reports))[:, None]
        signs = np.where(vertices < self.dim, 1.0, -1.0)
        np.add.at(dense, (silos, vertices % self.dim), signs * counts[:, None])
        dense[:, -1] = counts
        return dense

    def contains(self, reports: Reports) -> bool:
        """Whether vertices increase within the range, and the rest is as in all silo reports."""
        return super().contains(reports) and self._are_places(reports[:, :-1], 2 * self.dim)
