"""Scales for values within bounds, and round numbers."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_flower.validation import Floats

_FINEST = (1e-6, 1e-4, 1e-2, 1.0)  # candidates for ``finest``; the last scale is even
_EVEN_WEIGHT = 0.6  # weight of the even part of a scale; the rest is logarithmic
_POINTS = 4001  # number of points of a scale, which is linear between them
_RELATIVE_PRECISION = 1e-15  # relative precision of a float


@dataclass(frozen=True)
class ValueScale:
    """An increasing map of values within bounds to [0, 1], partly even and partly logarithmic.

    Logarithms are of distances from 0 if it lies within the bounds, and otherwise of distances from
    both bounds. So even if values fill only a small part of the bounds, they fill much of the
    scale.
    """

    low: float
    high: float
    # Share of the bounds' distance below which distances from 0 or the bounds count evenly
    finest: float = _FINEST[0]

    @cached_property
    def _map(self) -> tuple[Floats, Floats]:
        """Two increasing arrays: values, and their positions on the scale."""
        span = self.high - self.low
        finest = self.finest * span
        logs = math.log1p(1 / self.finest)
        near = finest * np.expm1(np.linspace(0, logs, _POINTS))
        values = [self.low + span * np.linspace(0, 1, _POINTS), self.low + near, self.high - near]
        if self.low < 0 < self.high:
            values += [near, -near]
        points = np.unique(
            np.clip(np.concatenate([*values, [self.low, self.high]]), self.low, self.high)
        )
        if self.low < 0 < self.high:
            log = np.arcsinh(points / finest)
            log = (log - log[0]) / (log[-1] - log[0])
        else:
            log = np.log1p((points - self.low) / finest) - np.log1p((self.high - points) / finest)
            log = (log / logs + 1) / 2
        places = _EVEN_WEIGHT * (points - self.low) / span + (1 - _EVEN_WEIGHT) * log
        return points, places

    def places(self, values: ArrayLike) -> Floats:
        """Return the positions of values on the scale, numbers from 0 to 1."""
        return np.asarray(np.interp(np.asarray(values, np.float64), *self._map))

    def values(self, places: ArrayLike) -> Floats:
        """Return the values at these positions on the scale."""
        return np.asarray(np.interp(np.asarray(places, np.float64), *self._map[::-1]))


def scales_within(low: float, high: float) -> list[ValueScale]:
    """Return candidate scales; on one of them values within bounds likely form a single group.

    If 0 is within the bounds, values on both sides of it form two groups on a scale that is too
    fine.
    """
    finest = _FINEST if low < 0 < high else _FINEST[:1]
    return [ValueScale(low, high, each) for each in finest]


def roundest(low: float, high: float, near: float) -> float:
    """Return the roundest number from ``low`` to ``high``.

    It is the number nearest to ``near`` among the multiples of the coarsest possible step. Steps
    are 10, 5 and 2 times a power of 10. If ``high`` is not above ``low``, return ``near``.
    """
    size = max(abs(low), abs(high))
    if not high > low or not math.isfinite(size):
        return near
    power = math.ceil(math.log10(size)) + 1
    while 10.0**power > _RELATIVE_PRECISION * size:
        for factor in (10, 5, 2):
            step = factor * 10.0 ** (power - 1)
            first, last = math.ceil(low / step), math.floor(high / step)
            if first <= last:
                multiple = min(max(round(near / step), first), last)
                # Divide if the step is a fraction: 7 / 10 is 0.7, but 7 * 0.1 is not.
                return multiple * step if step >= 1 else multiple / (round(1 / step))
        power -= 1
    return near


def coarsest_step(span: float) -> float:
    """Return the largest power of 10 that is at most half of ``span``.

    Candidates for the step between a column's values begin about there.
    """
    return 10.0 ** math.floor(math.log10(span / 2))


def steps_from(step: float, number: int) -> NDArray[np.float64]:
    """Return ``number`` candidate steps between values, from coarse to fine: 10, 5, 1, 0.5, ...

    The first one is ``step``. Each is a multiple of the next.
    """
    places = np.arange(number)
    return np.asarray(step / (10.0 ** (places // 2) * (1 + places % 2)), np.float64)


def multiples_within(lower: float, upper: float, step: float) -> tuple[float, float]:
    """Return the first and last multiple of ``step`` between the ends of an interval.

    The interval of a quantile is narrowed to them if all values are multiples of ``step``. If there
    is none between them, return the nearest multiples on both sides.
    """
    first, last = math.ceil(lower / step - 1e-9), math.floor(upper / step + 1e-9)
    if first > last:
        first, last = last, first
    return first * step, last * step
