"""Populations that change from week to week: what their users hold, and what is true of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Categories, Numeric, Schema
from ldp_flower.strategies import Counts, LdpStrategy, Means

Floats = NDArray[np.float64]

NUMBER = Schema({"x": Numeric(0, 1)})
_KINDS = [f"kind {i}" for i in range(12)]
KIND = Schema({"x": Categories(_KINDS)})
ILL = Schema({"x": Categories(["well", "ill"])})
_CHANGING = 0.05  # of the users, a week


@dataclass(frozen=True)
class Population:
    """What users hold, week by week: an array of shape (weeks, users); NaN: nothing any more."""

    schema: Schema
    held: Floats

    @property
    def truth(self) -> Floats:
        """Return the means or the shares of every week, shape (weeks, estimates)."""
        if self.schema is NUMBER:
            return np.nanmean(self.held, axis=1)[:, None]
        values = len(self.schema.kind("x").values)  # type: ignore[union-attr]
        return np.stack([(self.held == value).mean(axis=1) for value in range(values)], axis=1)

    def strategy(self, epsilon: float) -> LdpStrategy:
        """Return what is asked of it."""
        kind = Means if self.schema is NUMBER else Counts
        return kind(self.schema, "x", epsilon=epsilon)

    def table(self, week: int) -> dict[str, NDArray[np.generic]]:
        """Return the table of a week."""
        if self.schema is NUMBER:
            return {"x": self.held[week]}
        names = np.array(self.schema.kind("x").values)  # type: ignore[union-attr]
        return {"x": names[self.held[week].astype(int)]}


def _moving(rng: np.random.Generator, weeks: int, users: int) -> Floats:
    """Return numbers of a beta law of which some change every week."""
    changes = rng.random((weeks, users)) < _CHANGING
    steps = np.where(changes, rng.normal(0, 0.1, (weeks, users)), 0.0)
    return np.asarray(rng.beta(2, 5, users) + np.cumsum(steps, axis=0))


def _drift(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return numbers whose mean drifts by .1 in 50 weeks."""
    trend = 0.002 * np.arange(weeks)[:, None]
    return Population(NUMBER, np.clip(_moving(rng, weeks, users) + trend, 0, 1))


def _step(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return numbers whose mean steps up by .1 halfway."""
    step = 0.1 * (np.arange(weeks)[:, None] >= weeks // 2)
    return Population(NUMBER, np.clip(_moving(rng, weeks, users) + step, 0, 1))


def _redrawn(
    rng: np.random.Generator, weeks: int, users: int, drawn: Callable[[int], Floats]
) -> Floats:
    """Return what users hold of whom some draw anew every week, from the law of that week."""
    held = np.empty((weeks, users))
    held[0] = drawn(0)
    for week in range(1, weeks):
        changes = rng.random(users) < _CHANGING
        held[week] = np.where(changes, drawn(week), held[week - 1])
    return held


def _skewed(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return lognormal numbers that double within a year, most of them far below their bound."""

    def drawn(week: int) -> Floats:
        return np.exp(rng.normal(-3 + 0.7 * week / weeks, 1, users))

    return Population(NUMBER, np.clip(_redrawn(rng, weeks, users, drawn), 0, 1))


def _kinds(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return twelve kinds of which two grow, from .02 to some .15 and .1."""

    def drawn(week: int) -> Floats:
        shares = 1.0 / np.arange(1, 13)
        shares /= shares.sum()
        shares[10:] = 0.02 + np.array([0.15, 0.1]) * week / weeks
        return rng.choice(12, users, p=shares / shares.sum()).astype(np.float64)

    return Population(KIND, _redrawn(rng, weeks, users, drawn))


def _epidemic(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return who is ill: two waves, the higher one of 20 % of the users, in ten weeks."""
    at = np.arange(weeks)
    wave = (
        0.01 + 0.1 * np.exp(-0.5 * ((at - 12) / 3) ** 2) + 0.2 * np.exp(-0.5 * ((at - 34) / 4) ** 2)
    )
    return Population(ILL, (rng.random((weeks, users)) < wave[:, None]).astype(np.float64))


def _leaving(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return numbers of users of whom half leave within a year, sooner where these are high."""
    held = np.clip(_moving(rng, weeks, users), 0, 1)
    gone = np.cumsum(rng.random((weeks, users)) < 0.04 * held, axis=0) > 0
    return Population(NUMBER, np.where(gone, np.nan, held))


SHAPES: dict[str, Callable[[np.random.Generator, int, int], Population]] = {
    "drift": _drift,
    "step": _step,
    "skewed": _skewed,
    "kinds": _kinds,
    "epidemic": _epidemic,
    "leaving": _leaving,
}
