"""What comes of a protocol that is run several times on answers that are made up."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from ldp_flower.planning import Expectation
from ldp_flower.randomizers import Estimate, Randomizer

from ..runtime.base import LdpStrategy
from ..runtime.exchange import Ask
from ..runtime.result import Result
from .dry_run import DryRun, dry_run

Floats = NDArray[np.float64]
R = TypeVar("R", bound=Result)
U = TypeVar("U", bound=Callable[[Ask], Estimate])

TRIALS = 33
_LOW, _HIGH = 0.1, 0.9  # quantiles of the range that a plan gives
_APART = 4.0  # times as large an error at the end of the range
_JUST = (
    "Runs differ much, as they do where the noise just lets some of what is looked for be found: "
    "a few more users may find all of it, a few less none."
)


@dataclass(frozen=True)
class Trials:
    """What came of all trials, the same ones each time.

    Attributes
    ----------
    errors : ndarray of float64, shape (trials,)
        As judged.
    rounds : int
        Of the longest.
    randomizers : tuple of Randomizer
        The mechanisms of all, each once.
    """

    errors: Floats
    rounds: int
    randomizers: tuple[Randomizer, ...]

    def expectation(self, error: str, **facts: Any) -> Expectation:
        """Return the plan: the median error, and between what eight of ten lie."""
        low, value, high = np.quantile(self.errors, [_LOW, 0.5, _HIGH]).tolist()
        if high > _APART * low:
            facts["notes"] = (*facts.get("notes", ()), _JUST)
        return Expectation(
            error=error,
            value=value,
            low=low,
            high=high,
            rounds=self.rounds,
            randomizers=self.randomizers,
            **facts,
        )


def trials(
    strategy: LdpStrategy[R],
    num_users: int,
    users: Callable[[np.random.Generator], U],
    judge: Callable[[R, U], float],
    number: int = TRIALS,
) -> Trials:
    """Run a protocol on users that are made up, each time with other noise.

    Parameters
    ----------
    strategy : LdpStrategy
        It is not changed.
    num_users : int
        How many there are to ask.
    users : callable
        Makes users, who answer, from a source of noise.
    judge : callable
        Returns the error of a result about such users.
    number : int (default: 33)
        How often.

    Raises
    ------
    WouldRefuse
        If the protocol refuses so many users.
    """
    asked = [users(default_rng([seed, 0])) for seed in range(number)]
    runs: list[DryRun[R]] = [dry_run(strategy, num_users, each) for each in asked]
    mechanisms = dict.fromkeys(each for run in runs for each in run.randomizers)
    errors = np.array([judge(run.result, each) for run, each in zip(runs, asked, strict=True)])
    return Trials(errors, max(len(run.asks) for run in runs), tuple(mechanisms))


def noise_length(variance: float, dim: int) -> tuple[float, float, float]:
    """Return quantiles .1, .5 and .9 of the length of normal noise.

    Its square over ``variance``, that of each of the ``dim`` coordinates, is chi-squared.
    """
    from scipy.special import chdtri

    low, median, high = (
        math.sqrt(variance * float(chdtri(dim, 1 - share))) for share in (_LOW, 0.5, _HIGH)
    )
    return low, median, high
