"""Noise of DP-SGD: epsilon of several steps on sampled records, and the noise for an epsilon."""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Literal

from ...validation import (
    PlainFields,
    check_fraction,
    check_integer,
    check_positive,
    check_range,
    check_truth,
)
from .gaussian import gaussian_mu

_GRID, _FINEST_GRID = 1e-3, 1e-4  # grid of privacy losses: a share of epsilon, and its minimum
_SMALLEST_DELTA = 1e-10  # privacy loss distributions are cut off at 1e-15
_SMALLEST_RATE = 1e-6
_MAX_STEPS = 1_000_000
_MAX_RECORDS_PER_USER = 1 << 16  # limited since every user takes the time of this many records
# Outside this range, four-byte sums overflow or vanish, and both would distinguish records.
_SMALLEST_NORM, _LARGEST_NORM = 1e-30, 1e30
_ACCURACY, _STRIDE = 1e-4, 0.25  # in the search for the logarithm of the noise multiplier
_MIN_NOISE = 0.3  # with less noise, sampled records can be recognised


def dp_sgd_epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    neighbours: Literal["replace", "add or remove"] = "replace",
    grid: float = _GRID,
) -> float:
    """Return the epsilon of all steps of DP-SGD together, by privacy loss distributions.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise on a sum of gradients, divided by the length to which
        each gradient is clipped.
    sampling_rate : float
        Probability that a record is drawn, independently for each step (Poisson sampling).
    steps : int
        Number of steps.
    delta : float
        The delta for which epsilon is computed.
    neighbours : {"replace", "add or remove"} (default: "replace")
        The neighbouring relation. With "replace", two data sets differ in the value of one record,
        as everywhere in this library. With "add or remove", they differ in the presence of one
        record, as in Opacus; the loss is then about half as large.
    grid : float (default: 0.001)
        Losses are rounded up to multiples of this number, so the result is never too small.

    Raises
    ------
    ImportError
        If dp-accounting is not installed.

    Notes
    -----
    Source: Google's dp-accounting. It uses the pair P = (1 - q) N(0, s^2) + q N(1, s^2) and
    Q = (1 - q) N(0, s^2) + q N(-1, s^2). This pair dominates one step on a record v against v',
    both of length 1 at most, in any dimension, for the following reasons. The other records add
    a mixture of shifts, and the hockey-stick divergence is jointly convex over such mixtures. For
    normal (X, Y) = (<v, z>, <v', z>), the divergence is the mean of
    [q e^(X - |v|^2/2) - g q e^(Y - |v'|^2/2) - c]_+, whose mixed derivative in X and Y is
    negative. It therefore grows as their covariance falls (Plackett), for lengths 1 until
    v' = -v. Shorter opposite v and v' are projections of longer vectors with different orthogonal
    parts.
    """
    if find_spec("dp_accounting") is None:
        raise ImportError('DP-SGD needs dp-accounting: pip install "ldp-flower[accounting]"')
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    relation = {
        "replace": NeighboringRelation.REPLACE_ONE,
        "add or remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    }[neighbours]
    one = from_gaussian_mechanism(
        noise_multiplier,
        sampling_prob=sampling_rate,
        value_discretization_interval=grid,
        neighboring_relation=relation,
    )
    return float(one.self_compose(steps).get_epsilon_for_delta(delta))


def _grid(epsilon: float, steps: int) -> float:
    """Return the step of the grid of privacy losses, so fine that it hardly changes epsilon.

    More training ``steps`` need a finer grid.
    """
    return max(_GRID * epsilon, _FINEST_GRID) * min(1.0, math.sqrt(1000 / steps))


@cache
def dp_sgd_noise(epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """Return the smallest noise multiplier for (epsilon, delta) of all steps, rounded up.

    It is the inverse of :func:`dp_sgd_epsilon`; neighbours differ in the value of one record.
    """
    from scipy.optimize import brentq  # slow to import, so a node's process starts without it

    grid = _grid(epsilon, steps)

    def excess(log_noise: float) -> float:
        noise = math.exp(log_noise)
        spent = dp_sgd_epsilon(noise, sampling_rate, steps, delta, grid=grid)
        return min(spent, 1e6) - epsilon

    # Start of the search: with much noise, all steps are nearly one Gaussian release of means.
    least = 2 * sampling_rate * math.sqrt(steps) / gaussian_mu(epsilon, delta)
    low = high = math.log(max(least, _MIN_NOISE))
    while excess(high) > 0:
        low, high = high, high + _STRIDE
    if low == high:  # the starting value is enough
        return math.exp(low)
    found = float(brentq(excess, low, high, xtol=_ACCURACY))
    while excess(found) > 0:
        found += _ACCURACY
    return math.exp(found)


@dataclass(frozen=True)
class DpSgdPlan(PlainFields):
    """Plan of DP-SGD over all rounds of a run: its privacy cost for one unit, and its noise.

    The unit is a record or, with ``records_per_user``, a user with all records about this user. A
    unit has one gradient in a step. A user's gradient is the mean of its records' gradients.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of all rounds together, for any two values of one unit; delta is at
        least 1e-10 and below 1.
    num_rounds, steps : int
        Number of rounds, and number of steps in each round.
    sampling_rate : float
        Probability that a unit is drawn for a step, in [1e-6, 1].
    max_grad_norm : float
        Length to which a unit's gradient is clipped, in [1e-30, 1e30].
    records_per_user : int, optional
        Largest number of a user's records in one round, up to 65,536. By default, the unit is a
        record.
    stoppable : bool (default: False)
        True if the run may end after any round, because of the results so far. It then costs only
        what these rounds cost. Such a plan needs slightly more noise.

    Notes
    -----
    Let L be the privacy loss of the rounds so far, and e(k) the epsilon of k of K rounds. If a run
    ends as soon as L is above e(k) for some k, this event is several times as likely as for one
    fixed k. So epsilon is computed at a smaller delta for each end: half of delta for all K rounds,
    and equal parts of the other half for each k below K. The hockey-stick divergence at e(k) over
    the outputs with which a run ends after k rounds is at most that over all outputs. So these
    divergences add up to delta at most, whatever decides about the end. An e(k) above epsilon
    counts as epsilon. Such ends share the half of delta that is for all K rounds, since the first k
    rounds are a function of all.
    """

    epsilon: float
    delta: float
    num_rounds: int
    steps: int
    sampling_rate: float
    max_grad_norm: float
    records_per_user: int | None = None
    stoppable: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truth("stoppable", self.stoppable)
        check_positive("epsilon", self.epsilon)
        check_fraction("delta", self.delta)
        check_integer("num_rounds", self.num_rounds, 1)
        least = _SMALLEST_DELTA * self.delta / self._delta(1)
        if self.delta < least:
            raise ValueError(f"Expected delta >= {least:g}, got {self.delta}.")
        check_integer("steps", self.steps, 1)
        if (all_steps := self.num_rounds * self.steps) > _MAX_STEPS:
            raise ValueError(f"Expected num_rounds * steps <= {_MAX_STEPS}, got {all_steps}.")
        check_range("sampling_rate", self.sampling_rate, _SMALLEST_RATE, 1)
        check_range("max_grad_norm", self.max_grad_norm, _SMALLEST_NORM, _LARGEST_NORM)
        if self.records_per_user is not None:
            check_integer("records_per_user", self.records_per_user, 1, _MAX_RECORDS_PER_USER)

    @property
    def unit(self) -> str:
        """Unit that the plan protects: "record" or "user"."""
        return "record" if self.records_per_user is None else "user"

    @property
    def mechanism(self) -> str:
        """Name of the mechanism in the ledger; it begins with Record if records are protected."""
        return "RecordDpSgd" if self.records_per_user is None else "UserDpSgd"

    @property
    def name(self) -> str:
        """Text by which ledgers identify the plan within a run.

        It holds all numbers on which the noise depends.
        """
        numbers = (self.epsilon, self.delta, self.num_rounds, self.steps, self.sampling_rate)
        of_users = () if self.records_per_user is None else (self.records_per_user,)
        may_end = ("stoppable",) if self.stoppable else ()
        return " ".join([self.mechanism, *map(repr, (*numbers, *of_users)), *may_end])

    @cached_property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise on a sum of gradients, divided by ``max_grad_norm``."""
        all_steps, delta = self.num_rounds * self.steps, self._delta(self.num_rounds)
        return dp_sgd_noise(self.epsilon, delta, self.sampling_rate, all_steps)

    def _delta(self, num_rounds: int) -> float:
        """Return the delta at which the epsilon of the first ``num_rounds`` rounds is computed."""
        if not self.stoppable:
            return self.delta
        return self.delta / 2 / (1 if num_rounds == self.num_rounds else self.num_rounds - 1)

    def epsilon_after(self, num_rounds: int) -> float:
        """Return the epsilon of the first ``num_rounds`` rounds, at the plan's delta.

        It is at most the plan's epsilon. If the plan is ``stoppable``, it holds for a number of
        rounds that may depend on the results. Otherwise the number must be fixed in advance.
        """
        return min(self._spent(num_rounds, "replace"), self.epsilon)

    @property
    def epsilon_of_presence(self) -> float:
        """Epsilon for adding or removing a record, not replacing one, as Opacus states it."""
        return self._spent(self.num_rounds, "add or remove")

    def _spent(self, num_rounds: int, neighbours: Literal["replace", "add or remove"]) -> float:
        steps, noise = num_rounds * self.steps, self.noise_multiplier
        grid, delta = _grid(self.epsilon, steps), self._delta(num_rounds)
        return dp_sgd_epsilon(noise, self.sampling_rate, steps, delta, neighbours, grid)
