"""Populations that change from week to week: what their users hold, and what is true of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Categories, Numeric, Schema
from ldp_flower.strategies import (
    Counts,
    LdpStrategy,
    Means,
    PrivateEvaluation,
    Quantiles,
    TwoWay,
)

Floats = NDArray[np.float64]

NUMBER = Schema({"x": Numeric(0, 1)})
_KINDS = [f"kind {i}" for i in range(12)]
KIND = Schema({"x": Categories(_KINDS)})
ILL = Schema({"x": Categories(["well", "ill"])})
PAIR = Schema({"x": Categories([*"abc"]), "y": Categories([*"kl"])})
LINE = Schema({"x": Numeric(-1, 1)}, "y", Numeric(-1, 1))
_LEVELS = [0.1, 0.5, 0.9]
_CHANGING = 0.05  # of the users, a week


@dataclass(frozen=True)
class Population:
    """What users hold, how it is asked, and what is true of every week.

    ``held`` has shape (weeks, users); NaN: nothing any more. ``truth``: (weeks, estimates).
    """

    schema: Schema
    held: Floats
    strategy: Callable[[float], LdpStrategy]
    truth: Floats
    table: Callable[[int], dict[str, NDArray[np.generic]]]


def _asked_for_means(held: Floats) -> Population:
    """Return numbers of which the mean is asked."""
    return Population(
        NUMBER,
        held,
        lambda epsilon: Means(NUMBER, "x", epsilon=epsilon),
        np.nanmean(held, axis=1)[:, None],
        lambda week: {"x": held[week]},
    )


def _asked_for_shares(schema: Schema, held: Floats) -> Population:
    """Return categories, by their places, of which the shares are asked."""
    names = np.array(schema.kind("x").values)  # type: ignore[union-attr]
    return Population(
        schema,
        held,
        lambda epsilon: Counts(schema, "x", epsilon=epsilon),
        np.stack([(held == value).mean(axis=1) for value in range(len(names))], axis=1),
        lambda week: {"x": names[held[week].astype(int)]},
    )


def _moving(rng: np.random.Generator, weeks: int, users: int) -> Floats:
    """Return numbers of a beta law of which some change every week."""
    changes = rng.random((weeks, users)) < _CHANGING
    steps = np.where(changes, rng.normal(0, 0.1, (weeks, users)), 0.0)
    return np.asarray(rng.beta(2, 5, users) + np.cumsum(steps, axis=0))


def _drift(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return numbers whose mean drifts by .1 in 50 weeks."""
    trend = 0.002 * np.arange(weeks)[:, None]
    return _asked_for_means(np.clip(_moving(rng, weeks, users) + trend, 0, 1))


def _step(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return numbers whose mean steps up by .1 halfway."""
    step = 0.1 * (np.arange(weeks)[:, None] >= weeks // 2)
    return _asked_for_means(np.clip(_moving(rng, weeks, users) + step, 0, 1))


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

    return _asked_for_means(np.clip(_redrawn(rng, weeks, users, drawn), 0, 1))


def _kinds(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return twelve kinds of which two grow, from .02 to some .15 and .1."""

    def drawn(week: int) -> Floats:
        shares = 1.0 / np.arange(1, 13)
        shares /= shares.sum()
        shares[10:] = 0.02 + np.array([0.15, 0.1]) * week / weeks
        return rng.choice(12, users, p=shares / shares.sum()).astype(np.float64)

    return _asked_for_shares(KIND, _redrawn(rng, weeks, users, drawn))


def _epidemic(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return who is ill: two waves, the higher one of 20 % of the users, in ten weeks."""
    at = np.arange(weeks)
    wave = (
        0.01 + 0.1 * np.exp(-0.5 * ((at - 12) / 3) ** 2) + 0.2 * np.exp(-0.5 * ((at - 34) / 4) ** 2)
    )
    return _asked_for_shares(ILL, (rng.random((weeks, users)) < wave[:, None]).astype(np.float64))


def _leaving(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return numbers of users of whom half leave within a year, sooner where these are high."""
    held = np.clip(_moving(rng, weeks, users), 0, 1)
    gone = np.cumsum(rng.random((weeks, users)) < 0.04 * held, axis=0) > 0
    return _asked_for_means(np.where(gone, np.nan, held))


def _quantiles(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return the numbers of :func:`_step`, of which three quantiles are asked."""
    held = _step(rng, weeks, users).held
    return Population(
        NUMBER,
        held,
        lambda epsilon: Quantiles(NUMBER, "x", _LEVELS, epsilon=epsilon),
        np.quantile(held, _LEVELS, axis=1).T,
        lambda week: {"x": held[week]},
    )


def _pairs(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return two columns that are independent at first, and of which two cells grow."""

    def drawn(week: int) -> Floats:
        shares = np.outer([0.5, 0.3, 0.2], [0.6, 0.4]).ravel()
        shares += np.array([1, -1, 0, 0, -1, 1]) * 0.08 * week / weeks
        return rng.choice(6, users, p=shares).astype(np.float64)

    held = _redrawn(rng, weeks, users, drawn)

    def table(week: int) -> dict[str, NDArray[np.generic]]:
        row, column = np.divmod(held[week].astype(int), 2)
        return {"x": np.array([*"abc"])[row], "y": np.array([*"kl"])[column]}

    truth = np.stack([(held == cell).mean(axis=1) for cell in range(6)], axis=1)
    return Population(
        PAIR, held, lambda epsilon: TwoWay(PAIR, "x", "y", epsilon=epsilon), truth, table
    )


def _evaluated(rng: np.random.Generator, weeks: int, users: int) -> Population:
    """Return what a model predicts worse from halfway on, and its R2 every week."""
    x = rng.uniform(-1, 1, users)
    noise = np.where(np.arange(weeks) < weeks // 2, 0.15, 0.3)[:, None]
    held = np.clip(0.7 * x + noise * rng.normal(0, 1, (weeks, users)), -1, 1)
    people = LINE.users({"x": x, "y": held[0]})
    model = np.linalg.lstsq(people.features, people.targets, rcond=None)[0]
    values = np.array([LINE.users({"x": x, "y": each}).targets for each in held])
    residual = ((values - people.features @ model) ** 2).mean(axis=1)
    return Population(
        LINE,
        held,
        lambda epsilon: PrivateEvaluation(model, epsilon=epsilon),
        (1 - residual / (values**2).mean(axis=1))[:, None],
        lambda week: {"x": x, "y": held[week]},
    )


SHAPES: dict[str, Callable[[np.random.Generator, int, int], Population]] = {
    "drift": _drift,
    "step": _step,
    "skewed": _skewed,
    "kinds": _kinds,
    "epidemic": _epidemic,
    "leaving": _leaving,
    "quantiles": _quantiles,
    "evaluation": _evaluated,
    "pairs": _pairs,
}
