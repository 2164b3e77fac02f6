"""One column of numbers: what is publicly known about it, and how round its entries are."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_flower.guarantee.questions import Grain
from ldp_flower.randomizers import Estimate, FrequencyOracle, best_frequency_oracle
from ldp_flower.schema import Numeric, Schema

from ..numerics.round_numbers import coarsest_step, steps_from
from ..runtime.base import LdpStrategy
from ..runtime.exchange import Ask

Floats = NDArray[np.float64]

_STEPS = 11  # of which the coarsest is about a tenth of the bounds' distance, the last 1e-6 of it
_CLEAR = 0.1  # the standard error with which shares of round entries are told
_CLEARER, _MORE = 0.05, 0.01  # the one for which at most that share of the users is asked
_ROUND = 0.75  # the share of entries from which a column counts as rounded
_MOST = 0.05  # the share of the users that are asked for it


@dataclass(frozen=True)
class Entries:
    """What few users tell of all entries of a column.

    Attributes
    ----------
    step : float or None
        What nearly all of them are multiples of, None if there is none.
    hardly_any : bool
        Whether there may be none, so that nothing else is told of them.
    """

    step: float | None = None
    hardly_any: bool = False


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers.

    Attributes
    ----------
    name : str
        Its name.
    kind : Numeric
        What is known about it.
    place : int
        Its place among the features; the target comes after them.
    """

    name: str
    kind: Numeric
    place: int

    @classmethod
    def of(cls, schema: object, name: str) -> Self:
        """Return a column of a schema.

        Raises
        ------
        ValueError
            If there is no such column, or it is none of numbers.
        """
        if not isinstance(schema, Schema):
            raise ValueError(f"Expected schema to be a Schema, got {type(schema).__name__}.")
        kind = schema.kind(name)
        if not isinstance(kind, Numeric):
            raise ValueError(f"Expected a column of numbers, got {name!r}, which has categories.")
        return cls(name, kind, schema.places(name)[0])

    @property
    def coordinates(self) -> NDArray[np.int64]:
        """What a question calls it."""
        return np.array([self.place])

    @property
    def span(self) -> float:
        """Distance of the bounds."""
        return self.kind.high - self.kind.low

    def standardised(self, values: ArrayLike) -> Floats:
        """Return values within the bounds as users have them."""
        return self.kind.coded(np.asarray(values, np.float64))


def who_tell_the_step(
    strategy: LdpStrategy[Any], num_users: int
) -> tuple[FrequencyOracle, int] | None:
    """Return how many users tell how round their entries are, and by what; None if it is nobody."""
    oracle = best_frequency_oracle(strategy.epsilon, _STEPS + 2, num_users)
    enough, better = (math.ceil((oracle.variance + 0.25) / each**2) for each in (_CLEAR, _CLEARER))
    size = max(enough, min(better, int(_MORE * num_users)), strategy.min_reports)
    return (oracle, size) if size <= _MOST * num_users else None


def learn_step(
    strategy: LdpStrategy[Any], column: NumericColumn
) -> Generator[Ask, Estimate, Entries]:
    """Ask few users how round their entries are; return what they tell of all.

    Nobody is asked where it would take too many. Rounded entries have ties, and an answer
    beside one of them is wrong by all who share it.
    """
    asked = who_tell_the_step(strategy, strategy.num_users)
    if asked is None:
        return Entries()
    oracle, size = asked
    step = coarsest_step(column.span / 5)
    origin, one = (float(column.kind.restore(at)) for at in (0.0, 1.0))
    scale = one - origin
    question = Grain(column.coordinates, -origin / scale, step / scale, _STEPS)
    answer = yield Ask(strategy.cohorts([size])[0], question, oracle, min_reports=0)
    return _coarsest(answer, oracle, steps_from(step, _STEPS))


def _coarsest(answer: Estimate, oracle: FrequencyOracle, steps: Floats) -> Entries:
    """Return the coarsest step of which nearly all entries are multiples."""
    if not answer.count:
        return Entries()
    held = 1 - min(max(float(answer.mean[_STEPS + 1]), 0.0), 1.0)
    spread = math.sqrt((oracle.variance + 0.25) / answer.count)
    if held < 3 * spread:
        return Entries(hardly_any=True)
    rounded = np.cumsum(answer.mean[:_STEPS]) / held >= _ROUND
    return Entries(float(steps[np.argmax(rounded)]) if rounded.any() else None)
