"""The error of a protocol in repeated runs on synthetic users."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import default_rng

from ..expectation import Expectation, WouldRefuse
from ..randomizers.base import Randomizer
from ..validation import Floats
from .in_memory import run_in_memory

if TYPE_CHECKING:
    from ..strategies import LdpStrategy
    from ..strategies.forecasts.populations import Drawn, Population

_QUANTILES = 0.1, 0.5, 0.9  # of the range that a plan gives
# Entries that are drawn for a run at most, and users at least and at most, who stand in for all.
_MAX_ENTRIES, _MIN_USERS, _MAX_USERS = 300_000, 400, 2000
_APART = 4.0  # times as large an error at the end of the range: one worth a note
_UNSURE = (
    "Runs differ much, as they do where the noise just lets some of what is looked for be found: "
    "a few more users may find all of it, a few less none."
)
_USELESS = "At least one run of ten finds nothing of use: its error is that of asking nobody."


class Simulations:
    """Runs on synthetic users, who are drawn once: every number of users and epsilon has the same.

    Where fewer runs are made than before, they are of the draws whose errors were nearest to the
    median one: few of these show how errors change better than many at random. ``tell`` is called
    after every run.
    """

    def __init__(self, tell: Callable[[], object] = lambda: None) -> None:
        self._tell = tell
        self._drawn: dict[tuple[str, bool, int], Drawn] = {}
        self._typical: list[int] = []

    def expectation(
        self, strategy: "LdpStrategy[Any]", population: "Population", num_users: int, runs: int
    ) -> Expectation:
        """Return the median error of some runs, and between what eight of ten lie.

        Raises WouldRefuse if the protocol refuses so many users.
        """
        if why := strategy.refusal(num_users):
            raise WouldRefuse(why)
        number = min(num_users, population.max_users or num_users)
        errors, rounds, mechanisms = np.zeros(runs), 1, dict[Randomizer, None]()
        seeds = self._typical[:runs] if runs <= len(self._typical) else range(runs)
        for place, seed in enumerate(seeds):
            drawn = self._population(population, number, seed)
            found = run_in_memory(strategy, drawn.users[:number], seed, number)
            errors[place] = drawn.error(found.result)
            rounds = max(rounds, len(found.asks))
            mechanisms |= dict.fromkeys(found.randomizers)
            self._tell()
        errors *= math.sqrt(number / num_users)
        finite = errors[np.isfinite(errors)]
        low, value, high = np.quantile(finite if len(finite) else [population.useless], _QUANTILES)
        if runs > len(self._typical):
            self._typical = np.argsort(np.abs(errors - value), kind="stable").tolist()
        return Expectation(
            error=population.error,
            value=float(value),
            low=float(low),
            high=float(high),
            rounds=rounds,
            randomizers=tuple(mechanisms),
            assumes=population.assumes,
            notes=(*population.notes, *_doubts(errors, population.useless)),
        )

    def _population(self, population: "Population", num_users: int, seed: int) -> "Drawn":
        most = int(np.clip(_MAX_ENTRIES / population.size, _MIN_USERS, _MAX_USERS))
        key = repr(replace(population, notes=())), num_users > most, seed
        if key not in self._drawn:
            self._drawn[key] = population.draw(most, key[1], default_rng(seed))
        return self._drawn[key]


def _doubts(errors: Floats, useless: float) -> Iterator[str]:
    low, _, high = np.quantile(np.minimum(errors, useless), _QUANTILES)
    if high > _APART * low:
        yield _UNSURE
    if high >= useless:
        yield _USELESS
