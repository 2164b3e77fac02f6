"""Composition: one report of several independently randomised pieces of one user's value.

And how to divide an epsilon over the parts of one report.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise, product
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar

from ..randomness import RandomSource, Words, derive, public_coin
from ..validation import Floats, check_positive
from .base import Estimate, Randomizer, Reports, Summary
from .real_valued.records import RecordMechanism
from .sampled import SampledCoordinate
from .two_level import Law, check_terms, enumerable

_MAX_PARTS = 16
_SEPARATOR = "/"
_SWEEPS = 20
_GAIN = 1e-4  # relative, of a sweep that is worth another one
_MIN_SHARE = 1e-2  # of what two parts have together


def sum_rounded_up(numbers: Iterable[float]) -> float:
    """Return the smallest float that is not below the exact sum of finite numbers."""
    numbers = list(numbers)
    total = math.fsum(numbers)
    short = Fraction(total) < sum(map(Fraction, numbers))
    return math.nextafter(total, math.inf) if short else total


@dataclass(frozen=True)
class Composed(Randomizer):
    """Several mechanisms for one report: each randomises its own piece of the value.

    A value is the pieces side by side, a report the parts' reports, one after the other
    as bytes, and an estimate the parts' estimates side by side. For users who must answer
    several questions at once; where the questions can go to different users, ask
    disjoint cohorts instead, each at the whole epsilon, which has less variance.

    Parameters
    ----------
    parts : tuple of Randomizer
        1 to 16 summable mechanisms, none of them composed itself or for records of silos. Their
        epsilons add up, rounded up, to ``epsilon``.

    Notes
    -----
    Basic composition (Dwork & Roth 2014, Theorem 3.16). :func:`split_epsilon` divides an
    epsilon over parts.

    Guarantee
    ---------
    1. Protected: any two values of one user, at the sums of the parts' epsilons and
       deltas, both rounded up, pure if all parts are; for every coin.
    2. Given the value the parts' reports are independent: each part draws its own
       private words and brings its own piece into its domain. So the probability of a
       report is the product of the parts' probabilities, and for any two values each
       factor changes by at most exp(epsilon of the part), outside an event of the
       part's delta.
    3. A piece that is not finite becomes its part's centre and leaves the other pieces
       alone, so the guarantee holds for every input.
    4. The parts' public coins are derived from the user's coin and the part's number.
       They never need to be secret, and no guarantee rests on them.
    """

    epsilon: float = field(init=False)
    parts: tuple[Randomizer, ...]

    report_dtype: ClassVar[np.dtype[np.generic]] = np.dtype(np.uint8)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not 1 <= len(self.parts) <= _MAX_PARTS:
            raise ValueError(f"Expected 1 to {_MAX_PARTS} parts, got {len(self.parts)}.")
        for part in self.parts:
            unfit = isinstance(part, Composed | SampledCoordinate | RecordMechanism)
            if not isinstance(part, Randomizer) or unfit or not part.summable:
                raise ValueError(
                    f"Expected summable parts, not composed and not for records, got {part}."
                )
        object.__setattr__(self, "epsilon", sum_rounded_up(part.epsilon for part in self.parts))
        super().__post_init__()
        if not self.delta < 1:
            raise ValueError(f"Expected a sum of deltas below 1, got {self.delta}.")

    @property
    def exact(self) -> bool:
        """Whether all parts are exact."""
        return all(part.exact for part in self.parts)

    @property
    def delta(self) -> float:
        """Sum of the parts' deltas, rounded up."""
        return sum_rounded_up(part.delta for part in self.parts)

    @property
    def width(self) -> int:
        """Sum of the parts' widths."""
        return sum(part.width for part in self.parts)

    @property
    def size(self) -> int:
        """Sum of the parts' sizes."""
        return sum(part.size for part in self.parts)

    @property
    def report_shape(self) -> tuple[int, ...]:
        """The parts' reports one after the other, as bytes of little-endian numbers."""
        return (sum(part.report_bytes for part in self.parts),)

    @property
    def variance(self) -> float:
        """Mean over all coordinates of the parts' variances."""
        return sum(part.size * part.variance for part in self.parts) / self.size

    @property
    def bound(self) -> float:
        """Largest of the parts' bounds."""
        return max(part.bound for part in self.parts)

    @property
    def length(self) -> float:
        """Root of the sum of the squares of the parts' lengths."""
        return math.hypot(*(part.length for part in self.parts))

    def for_cohort(self, num_users: int, coin: int) -> Self:
        """Return the composition of the parts for this cohort, each with a coin of its own."""
        return replace(
            self,
            parts=tuple(
                part.for_cohort(num_users, public_coin(coin, number))
                for number, part in enumerate(self.parts)
            ),
        )

    def _each(self, length: Callable[[Randomizer], int]) -> Iterator[tuple[int, Randomizer, slice]]:
        """Return the parts with their numbers and their places, given a part's length."""
        start = 0
        for number, part in enumerate(self.parts):
            yield number, part, slice(start, start + length(part))
            start += length(part)

    def _opened(
        self, reports: Reports, coins: Words
    ) -> Iterator[tuple[Randomizer, Reports, Words]]:
        """Return the parts with their own reports and coins."""
        for number, part, place in self._each(lambda part: part.report_bytes):
            packed = np.ascontiguousarray(reports[:, place])
            numbers = packed.view(part.report_dtype.newbyteorder("<"))
            opened = numbers.reshape(len(reports), *part.report_shape).astype(part.report_dtype)
            yield part, opened, derive(coins, number)

    def _closed(self, summary: Summary) -> Iterator[tuple[int, Randomizer, Summary]]:
        """Return the parts with their numbers and their own sums."""
        for number, part, place in self._each(lambda part: part.size):
            sums = summary.sum[place], summary.sum_of_squares[place]
            yield number, part, Summary(summary.count, *sums)

    def _centre(self, values: Floats) -> None:
        """Leave values as they are: every part has a centre of its own."""

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        reports = np.empty((len(values), *self.report_shape), np.uint8)
        column = 0
        for number, part, place in self._each(lambda part: part.width):
            drawn = part.randomize(values[:, place], rng, derive(coins, number))
            drawn = drawn.astype(part.report_dtype.newbyteorder("<"))
            end = column + part.report_bytes
            packed = drawn.reshape(len(values), math.prod(part.report_shape)).view(np.uint8)
            reports[:, column:end], column = packed, end
        return reports

    def _debias(self, reports: Reports, coins: Words) -> Floats:
        opened = self._opened(reports, coins)
        return np.concatenate([part.debias(own, coin) for part, own, coin in opened], axis=1)

    def _summarize(self, reports: Reports, coins: Words) -> Summary:
        sums = [part.summarize(own, coin) for part, own, coin in self._opened(reports, coins)]
        return Summary(
            len(reports),
            np.concatenate([part.sum for part in sums]),
            np.concatenate([part.sum_of_squares for part in sums]),
        )

    def estimate(self, summary: Summary) -> Estimate:
        """Return the parts' estimates side by side, each made in the part's own way."""
        estimates = (part.estimate(own) for _, part, own in self._closed(summary))
        return Estimate.side_by_side(estimates, summary.count)

    def accepts(self, summary: Summary, coins: Words) -> bool:
        """Whether every part accepts its share of the sums."""
        if not summary.sum.shape == summary.sum_of_squares.shape == (self.size,):
            return False
        shares = self._closed(summary)
        return all(part.accepts(own, derive(coins, number)) for number, part, own in shares)

    def contains(self, reports: Reports) -> bool:
        """Whether every part's share of the bytes is a possible report of the part."""
        coins = np.zeros(len(reports), np.uint64)
        return all(
            part.well_formed(own, len(reports)) for part, own, _ in self._opened(reports, coins)
        )

    def worst_ratio(self) -> Fraction:
        """Return the product of the parts' ratios: pieces of a value differ independently."""
        ratios = (enumerable(part).worst_ratio() for part in self.parts)
        return math.prod(ratios, start=Fraction(1))

    def law(self, value: Floats, coin: Words) -> Law:
        """Return the probability of every report: the product of the parts' laws."""
        law = {b"": Fraction(1)}
        for number, part, place in self._each(lambda part: part.width):
            own = enumerable(part).law(value[place], derive(coin, number))
            check_terms(len(law) * len(own))
            pairs = product(law.items(), own.items())
            law = {first + second: p * q for (first, p), (second, q) in pairs}
        return law

    def to_config(self) -> dict[str, int | float | str]:
        """Return the parts' configurations, ``0/name``, ``0/epsilon`` and so on, in one."""
        config: dict[str, int | float | str] = {"name": type(self).__name__}
        for number, part in enumerate(self.parts):
            own = part.to_config().items()
            config |= {f"{number}{_SEPARATOR}{name}": value for name, value in own}
        return config


def configs_of_parts(config: Mapping[str, object]) -> list[dict[str, object]]:
    """Undo :meth:`Composed.to_config`, from an untrusted configuration without its name.

    Raises ValueError if the parts are not numbered from 0 or too many, or a key is of no part.
    """
    parts: list[dict[str, object]] = [{} for _ in range(_MAX_PARTS)]
    by_number = {str(number): part for number, part in enumerate(parts)}
    for key, value in config.items():
        number, _, name = key.partition(_SEPARATOR)
        if not name or number not in by_number:
            raise ValueError(f"Expected parameters of parts 0 to {_MAX_PARTS - 1}, got {key!r}.")
        by_number[number][name] = value
    num_parts = sum(map(bool, parts))
    if not all(parts[:num_parts]):
        raise ValueError("Expected parts that are numbered from 0.")
    return parts[:num_parts]


def split_epsilon(
    epsilon: float,
    mechanisms: Sequence[Callable[[float], Randomizer]],
    weights: Sequence[float] | None = None,
) -> tuple[float, ...]:
    """Divide an epsilon over parts so that the weighted sum of their variances is small.

    Parameters
    ----------
    epsilon : float
        What the parts may cost together.
    mechanisms : sequence of callable
        For each part, a function from its epsilon to its mechanism.
    weights : sequence of float, optional
        What a part's ``variance`` (of a coordinate) counts; by default its ``size``,
        which makes the sum that of all coordinates' variances.

    Returns
    -------
    tuple of float
        The parts' epsilons. Their exact sum, and the epsilon that :class:`Composed`
        claims for it, are at most ``epsilon``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or epsilon is too small for the parts.

    Notes
    -----
    Minimises ``sum_i w_i v_i(epsilon_i)`` subject to ``sum_i epsilon_i = epsilon``. For little
    privacy loss ``v_i = c_i / epsilon_i**2`` and ``epsilon_i`` is proportional to
    ``(w_i c_i)**(1/3)``. From there neighbouring parts exchange epsilon as long as the exact
    variances fall. The sum is separable and, but for small jumps where a mechanism changes its
    design, convex, so this ends close to the minimum.
    """
    check_positive("epsilon", epsilon)
    if not mechanisms:
        raise ValueError("Expected at least one part.")
    equal = [mechanism(epsilon / len(mechanisms)) for mechanism in mechanisms]
    if weights is None:
        weights = [part.size for part in equal]
    if len(weights) != len(mechanisms):
        raise ValueError(f"Expected {len(mechanisms)} weights, got {len(weights)}.")
    for weight in weights:
        check_positive("weights", weight)

    def cost(part: int, share: float) -> float:
        return weights[part] * mechanisms[part](share).variance

    scale = [math.cbrt(weight * part.variance) for weight, part in zip(weights, equal, strict=True)]
    shares = [epsilon * part / sum(scale) for part in scale]
    costs = [cost(part, share) for part, share in enumerate(shares)]
    for _ in range(_SWEEPS if len(shares) > 1 else 0):
        before = sum(costs)
        for i, j in pairwise([*range(len(shares)), 0]):
            _exchange(i, j, shares, costs, cost)
        if sum(costs) > (1 - _GAIN) * before:
            break
    while sum_rounded_up(shares) > epsilon:
        shares = [share * (1 - np.finfo(float).eps) for share in shares]
    return tuple(map(float, shares))


def _exchange(
    i: int,
    j: int,
    shares: list[float],
    costs: list[float],
    cost: Callable[[int, float], float],
) -> None:
    """Divide what two parts have together anew, if that makes their costs smaller."""
    both = shares[i] + shares[j]
    found = minimize_scalar(
        lambda share: cost(i, share) + cost(j, both - share),
        bounds=(_MIN_SHARE * both, (1 - _MIN_SHARE) * both),
        method="bounded",
        options={"xatol": 1e-4 * both},
    )
    if found.fun < costs[i] + costs[j]:
        shares[i], shares[j] = float(found.x), both - float(found.x)
        costs[i], costs[j] = cost(i, shares[i]), cost(j, shares[j])
