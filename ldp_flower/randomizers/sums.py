"""Noise at the node: a node reports the noisy sum over its users, each of whom is protected.

Values become integers, their sum is exact whatever its order, and discrete Gaussian noise is added
once a node (:mod:`.discrete_gaussian`). Nodes that share their noise each add less, and mask their
sums so that only the sum over all nodes can be seen.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..randomness import RandomSource, Words
from ..validation import Floats, check_fraction, check_integer, check_range
from .base import Randomizer, Reports
from .discrete_gaussian import SIGMA, Integers, discrete_gaussian
from .elementwise import directions, row_dots
from .estimates import Estimate, Summary
from .sum_budget import MOST_DRAWS, plan_epsilon, plan_rho

#: Number of parts into which a plan's budget is divided. Every report costs some of the parts.
PARTS = 10_000
_SMALLEST_DELTA = 1e-30
_COARSEST = 64  # smallest integer that may stand for the largest value, so that values stay apart
_FINEST = 1 << 31  # largest integer that may stand for it, so that squares add up in 63 bits
_MOST_HONEST = 256  # largest number of nodes of a sum
_SMALLEST_RADIUS, _LARGEST_RADIUS = 1e-30, 1e30


@dataclass(frozen=True)
class NodeSum(Randomizer):
    """Base class of mechanisms by which a node reports the sum over its users plus noise.

    A report is one step of a plan.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of all reports of the plan together; delta is by default 1e-6.
    dim : int
        Number of coordinates of a user's value.
    parts : int (default: 10,000)
        Number of the 10,000 parts of the plan's budget that this report costs.
    honest : int (default: 1)
        Number of nodes whose noise is relied on. With 1, each node relies on its own noise alone.
        With a larger number, nodes answer only in sets that have this number of nodes besides those
        that may collude with the server. All of them add noise to the sum before it is visible
        (docs/secure-sums.md).

    Notes
    -----
    Source: Canonne, Kamath & Steinke (2020), Theorem 4, that discrete Gaussian noise of variance
    s**2 on an integer vector of sensitivity D is (D**2 / 2 s**2)-zCDP, which adds up over reports
    that are chosen adaptively (Bun & Steinke 2016). For (epsilon, delta) see ``plan_rho``.

    Guarantee
    ---------
    1. Protected: everything of one user, against any other data of that user, at (``epsilon``,
       ``delta``) for all reports of the plan together. The number of a node's users is public.
    2. A report costs ``parts / 10,000`` of rho = ``plan_rho(epsilon, delta)``: two values of one
       user differ by at most the diameter of the domain in integers, which is checked in integers,
       and the noise has the standard deviation 2**26. With ``honest`` h, this holds for the sum of
       h such noises. If all other nodes collude, only the noise of the user's node is unknown, and
       the report costs h times as much (``alone``).
    3. The draws are exact: no floating-point number has a part in them. Sums are 64-bit integers.
    4. A value that is not finite becomes 0, so the guarantee holds for every input.
    """

    delta: float = 1e-6
    dim: int = 1
    parts: int = PARTS
    honest: int = 1

    exact: ClassVar[bool] = True
    bound: ClassVar[float] = math.inf  # the noise is not bounded
    report_dtype: ClassVar[np.dtype[np.generic]] = np.dtype(np.int64)
    #: Diameter of the domain, where the largest value is 1.
    diameter: ClassVar[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, 1)
        check_fraction("delta", self.delta)
        if self.delta < _SMALLEST_DELTA:
            raise ValueError(f"Expected delta >= {_SMALLEST_DELTA:g}, got {self.delta}.")
        check_integer("parts", self.parts, 1, PARTS)
        check_integer("honest", self.honest, 1, _MOST_HONEST)
        if self.dim > (most := MOST_DRAWS * self.parts // PARTS):
            raise ValueError(
                f"Expected dim <= {most:,} with {self.parts} of {PARTS:,} parts, got {self.dim:,}: "
                "ask for fewer coordinates, or in fewer reports."
            )
        if self.one < _COARSEST:
            raise ValueError(
                f"Expected a larger epsilon or more parts: at epsilon {self.epsilon:g}, "
                f"{self.parts} of {PARTS:,} parts leave {self.one} steps of a value, and "
                f"{_COARSEST} are needed."
            )

    @property
    def plan(self) -> str:
        """Text by which ledgers identify, within a run, the plan to which the report belongs."""
        shared = f" {self.honest}" if self.shared else ""
        return f"NodeSum {self.epsilon!r} {self.delta!r}{shared}"

    @property
    def shared(self) -> bool:
        """True if the node relies on the noise of other nodes, and therefore adds less."""
        return self.honest > 1

    @cached_property
    def alone(self) -> float:
        """Epsilon of the whole plan, at the same delta, if all nodes but the user's collude."""
        if not self.shared:
            return self.epsilon
        return plan_epsilon(self.honest * plan_rho(self.epsilon, self.delta), self.delta)

    @property
    def rho(self) -> float:
        """Cost of this report: squared diameter of the values over twice the noise variance."""
        return plan_rho(self.epsilon, self.delta) * self.parts / PARTS

    @cached_property
    def one(self) -> int:
        """Integer into which the largest value is converted: the resolution of values.

        The noise is the same at any scale, so ``one`` decides how large it is relative to a value.
        It is rounded down, so that no report costs more than planned.
        """
        return min(_FINEST, int(SIGMA * math.sqrt(2 * self.rho * self.honest) / self.diameter))

    @property
    def unit(self) -> float:
        """Length of the value that the integer 1 stands for."""
        return 1 / self.one

    @property
    def width(self) -> int:
        """Number of coordinates of a value."""
        return self.dim

    @property
    def report_shape(self) -> tuple[int, ...]:
        """Shape of a report, which is the sum."""
        return (self.dim,)

    @property
    def variance(self) -> float:
        """Variance of the noise in each coordinate of a node's sum."""
        return (SIGMA * self.unit) ** 2

    def farthest(self, num_users: int, num_nodes: int = 1) -> int:
        """Return a bound that a noisy sum over ``num_users`` users practically never exceeds.

        Servers reject sums beyond it.
        """
        return num_users * self.one + 64 * num_nodes * SIGMA

    @abstractmethod
    def integers(self, values: Floats) -> Integers:
        """Return users' values as integers within the domain, for any values.

        Parameters
        ----------
        values : ndarray of float64, shape (users, dim)
            One value per user.

        Returns
        -------
        ndarray of int64, shape (users, dim)
            Any two rows differ by at most ``diameter * one`` in Euclidean length.
        """

    def total(self, values: Floats) -> Integers:
        """Return the exact sum of the users' values, as integers, without noise, shape (dim,)."""
        with np.errstate(all="ignore"):
            return np.asarray(self.integers(self._own(values)).sum(axis=0, dtype=np.int64))

    def report(self, total: Integers, rng: RandomSource) -> Integers:
        """Return the sum ``total`` with the node's noise, drawn from ``rng`` as one stream."""
        return total + discrete_gaussian(self.dim, rng)

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        """Return one report per user, as if each user were the only user of a node."""
        reports = self.integers(values)
        for run, source in rng.blocks(len(values), 1):
            reports[run] += discrete_gaussian(self.dim, source)
        return reports

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        return reports.astype(np.float64) * self.unit

    def of_sums(self, sums: Integers, num_users: int, num_nodes: int) -> Estimate:
        """Return the mean over the users of all nodes, from the added sums of the nodes.

        Its standard error is that of the known noise alone, since the users are not a sample.
        """
        if num_users == 0:
            return Estimate(np.zeros(self.dim), np.full(self.dim, np.inf), 0)
        error = math.sqrt(num_nodes * self.variance) / num_users
        return Estimate(sums * self.unit / num_users, np.full(self.dim, error), num_users)

    def estimate(self, summary: Summary) -> Estimate:
        """Return the mean over nodes, from a summary of nodes with a single user each."""
        if summary.count == 0:
            return Estimate(np.zeros(self.dim), np.full(self.dim, np.inf), 0)
        error = np.full(self.dim, math.sqrt(self.variance / summary.count))
        return Estimate(summary.sum / summary.count, error, summary.count)

    def contains(self, reports: Reports) -> bool:
        """Return True: every integer is a possible sum."""
        return True


@dataclass(frozen=True)
class BallSum(NodeSum):
    """A noisy sum of vectors in a ball; longer vectors are shortened.

    Parameters
    ----------
    epsilon, delta, dim, parts, honest
        As in :class:`NodeSum`.
    radius : float (default: 1.0)
        Radius of the ball.

    Guarantee
    ---------
    1. The guarantee is that of :class:`NodeSum`.
    2. A vector v of length at most 1 becomes the vector of the integers nearest to ``one * v``. If
       this is longer than ``one``, the integers are rounded towards zero instead. Any two such
       vectors differ by at most twice ``one``.
    """

    radius: float = 1.0

    diameter: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("radius", self.radius, _SMALLEST_RADIUS, _LARGEST_RADIUS)

    @property
    def unit(self) -> float:
        """Value that the integer 1 stands for."""
        return self.radius / self.one

    def integers(self, values: Floats) -> Integers:
        """Return each user's vector as integers, of Euclidean length ``one`` at most."""
        unit, length = directions(values)
        scaled = unit * (np.minimum(length / self.radius, 1.0) * self.one)[:, None]
        found = np.rint(scaled).astype(np.int64)
        most = self.one * self.one
        long = np.flatnonzero((found * found).sum(axis=1) > most)
        found[long] = np.trunc(scaled[long]).astype(np.int64)
        for row in long:
            while int((found[row] * found[row]).sum()) > most:  # by rounding of the length
                largest = np.abs(found[row]).argmax()
                found[row, largest] -= np.sign(found[row, largest])
        return np.asarray(found)


@dataclass(frozen=True)
class CellSum(NodeSum):
    """A noisy sum of distributions over cells: a histogram over users.

    A user's value has numbers of at least 0 that add up to 1 at most: the shares of its rows in
    each cell. Numbers below 0 count as 0; a value that adds up to more is divided by its sum.

    Guarantee
    ---------
    1. The guarantee is that of :class:`NodeSum`.
    2. A value of sum s becomes integers of at least 0 that add up to ``one * s``, rounded, and to
       at most ``one``. Any two such vectors differ by at most sqrt(2) times ``one``, in Euclidean
       length.
    """

    diameter: ClassVar[float] = math.sqrt(2)

    def integers(self, values: Floats) -> Integers:
        """Return each user's distribution over cells as integers from 0, of sum ``one`` at most."""
        shares = np.maximum(values, 0.0)
        sums = row_dots(shares, np.ones(self.dim))[:, None]
        scaled = shares * (self.one / np.maximum(sums, 1.0))
        found = np.floor(scaled).astype(np.int64)
        wanted = np.minimum(np.floor(sums[:, 0] * self.one + 0.5), self.one).astype(np.int64)
        short = wanted - found.sum(axis=1)
        # The numbers with the largest remainders are rounded up.
        order = np.argsort(found - scaled, axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(self.dim)[None, :], axis=1)
        found += ranks < short[:, None]
        for row in np.flatnonzero(found.sum(axis=1) > self.one):  # by rounding of the sum
            found[row, found[row].argmax()] -= found[row].sum() - self.one
        return np.asarray(found)
