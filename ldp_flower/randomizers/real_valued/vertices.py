"""Vertices: in which coordinates, and with which sign, a sum over records is largest."""

import math
from dataclasses import dataclass

import numpy as np

from ...randomness import RandomSource, Words
from ...validation import check_integer
from ..base import Floats, Reports
from .concentrated import Concentrated
from .peeling import noisy_top

_MOST_COORDINATES = 1 << 23  # a four-byte float tells twice as many vertices apart


@dataclass(frozen=True)
class RecordVertices(Concentrated):
    """Randomiser of silos that reports signed coordinates of a sum, without values.

    The vertices are those of the cross-polytope, plus and minus each coordinate; reported are
    ``num_vertices`` of those on which the sum is largest.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of all ``steps`` reports of a silo together.
    dim : int
        Number of coordinates, at most 2**23.
    radius : float (default: 1.0)
        Coordinates of a record's value are clipped to ``[-radius, radius]``.
    delta : float (default: 1e-6)
        Privacy parameter of all ``steps`` reports together, at least 1e-90 and below 1.
    steps : int (default: 1)
        Number of reports, of any :class:`Concentrated` kind, that the two are for.
    num_vertices : int (default: 1)
        Number of vertices in a report.

    Notes
    -----
    Source: the noisy maximum of Talwar, Thakurta & Zhang (2015), with Gumbel noise and the
    accounting of :func:`.peeling.noisy_top`. The sign is chosen along with the coordinate: the
    sign of the true sum at a noisy place would not be private.

    Guarantee
    ---------
    1. Protected: every record of a silo, against any other record in its place, at
       (rho / steps)-zCDP a report, rho = ``zcdp_rho(epsilon, delta)``; hence at
       (``epsilon``, ``delta``) for the whole plan, in real arithmetic. Leaving a record
       out is covered.
    2. The sums of two silos that differ in one record differ by at most D = ``2 radius`` in
       every coordinate, and so does the score of every vertex. A report is made of k =
       ``num_vertices`` exponential mechanisms of epsilon_0**2 / 8 each, epsilon_0 =
       sqrt(8 rho / (steps k)).
    3. Clipping happens per record, first, and a value that is not finite becomes 0, so the
       guarantee holds for every input.
    """

    num_vertices: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, 1, _MOST_COORDINATES)
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

    def _clipped(self, values: Floats) -> Floats:
        return np.clip(values, -self.radius, self.radius)

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
        vertices = reports[:, :-1].astype(np.float64)
        return bool(
            super().contains(reports)
            and (vertices == np.floor(vertices)).all()
            and (vertices >= 0).all()
            and (vertices < 2 * self.dim).all()
            and (np.diff(vertices, axis=1) > 0).all()
        )
