"""Vertices: in which coordinates, and with which sign, a sum over records is largest."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...randomness import RandomSource, Words
from ...validation import Floats, check_integer
from ..base import Reports
from .peeling import Choosing, noisy_top

_MOST_COORDINATES = 1 << 23  # a four-byte float tells twice as many vertices apart


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
    accounting of :func:`.peeling.noisy_top`. The sign is chosen along with the coordinate: the
    sign of the true sum at a noisy place would not be private.

    Guarantee
    ---------
    1. As the first of :class:`.Concentrated`.
    2. As the second of :class:`.Concentrated`.
    3. The sums of two silos that differ in one record differ by at most D = ``2 radius`` in
       every coordinate, and so does the score of every vertex. A report is made of k =
       ``num_vertices`` exponential mechanisms of epsilon_0**2 / 8 each, epsilon_0 =
       sqrt(8 rho / (steps k)).
    """

    num_vertices: int = 1

    most_coordinates: ClassVar[int | None] = _MOST_COORDINATES

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
