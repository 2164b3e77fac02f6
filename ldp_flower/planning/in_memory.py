"""A protocol on users in memory, without messages: several times as fast, and of the same law.

The server's code is the protocol's, and so are the clients' statistics and mechanisms. Left out
is the way of questions and reports. Users can stand in for more: a plan for a million users takes
the mean of the answers of some thousands, with the noise that a million answers have. Repeated
runs on synthetic users give the error to expect.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.random import default_rng

from ..data.users import Users
from ..expectation import Expectation, WouldRefuse
from ..randomizers import (
    Estimate,
    FrequencyOracle,
    Randomizer,
    SampledCoordinate,
    SubsetHypercube,
)
from ..randomizers.base import OfNumber, OfVector
from ..validation import Floats

if TYPE_CHECKING:
    from ..strategies import LdpStrategy, Result
    from ..strategies.forecasts.populations import Drawn, Population
    from ..strategies.runtime.ask import Answers, Ask

R = TypeVar("R", bound="Result")

logger = logging.getLogger("flwr")

# Of users who stand in for more, all questions together take two answers of each, or as many as
# differences between users take to add at most a quarter to the noise, but no more than four of
# each; and a question takes at least 50.
_ANSWERS_EACH, _MAX_ANSWERS_EACH, _MIN_ANSWERS, _NOISE_OVER_SPREAD = 2, 4, 50, 4
_QUANTILES = 0.1, 0.5, 0.9  # of the range that a plan gives
# Entries that are drawn for a run at most, and users at least and at most, who stand in for all.
_MAX_ENTRIES, _MIN_USERS, _MAX_USERS = 300_000, 400, 2000
_APART = 4.0  # times as large an error at the end of the range: one worth a note
_UNSURE = (
    "Runs differ much, as they do where the noise just lets some of what is looked for be found: "
    "a few more users may find all of it, a few less none."
)
_USELESS = "At least one run of ten finds nothing of use: its error is that of asking nobody."


class InMemory(NamedTuple, Generic[R]):
    """A protocol's result, and its questions."""

    result: R
    asks: "list[Ask]"


def run_in_memory(
    strategy: "LdpStrategy[R]", users: Users, seed: int, num_users: int | None = None
) -> InMemory[R]:
    """Return the result of a protocol about users, and its questions.

    The strategy is not changed. The seed is of all randomness: cohorts, coins, mechanisms. The
    users stand in for ``num_users``; by default they are all. Raises WouldRefuse if the protocol
    refuses so many, and ValueError if it protects records: their noise is not a user's.
    """
    if strategy.protects == "record":
        raise ValueError(f"Expected a strategy that protects users, got {type(strategy).__name__}.")
    from ..strategies.runtime import Ask, Run, TooFewReports
    from ..strategies.runtime.population import SizeOnlyPopulation

    number = len(users) if num_users is None else num_users
    rng = default_rng([seed, len(users), number])
    order = rng.permutation(len(users))

    def answer(ask: "Ask") -> "Estimate | Answers":
        size = ask.cohort.size
        if number <= len(users):
            asked = order[ask.cohort.low : ask.cohort.high]
        elif _single(ask):
            asked = rng.integers(len(users), size=size)
        else:
            each = np.array([_ANSWERS_EACH, _MAX_ANSWERS_EACH]) * len(users) / number
            share = float(np.clip(_share_answering(ask.randomizer), *each))
            wanted = max(math.ceil(share * size), _MIN_ANSWERS)
            asked = rng.choice(len(users), min(size, wanted, len(users)), replace=False)
        return _answered(ask, users.take(np.sort(asked)), rng)

    running = strategy.protocol(Run(strategy, SizeOnlyPopulation(number)))
    asks: list[Ask] = []
    reply: Estimate | Answers | None = None
    disabled, logger.disabled = logger.disabled, True
    try:
        while True:
            asked = running.send(reply)
            assert isinstance(asked, Ask)  # planned are protocols that ask users
            asks.append(asked)
            reply = answer(asked)
    except TooFewReports as refused:
        raise WouldRefuse(refused.refusal) from None
    except StopIteration as end:
        end.value.schema = getattr(strategy, "schema", None)
        return InMemory(end.value, asks)
    finally:
        logger.disabled = disabled


def _single(ask: "Ask") -> bool:
    """Return True if the answer to a question are single reports, which nothing stands in for."""
    return ask.public is not None or not ask.randomizer.summable


def _share_answering(mechanism: Randomizer) -> float:
    """Return which share of a cohort estimates its mean as well as is needed beside the noise."""
    if not isinstance(mechanism, OfNumber | OfVector):
        return 0.0
    in_ball = isinstance(mechanism, OfVector) and not isinstance(mechanism, SubsetHypercube)
    noise = mechanism.variance * (mechanism.width if in_ball else 1)
    return _NOISE_OVER_SPREAD * mechanism.radius**2 / noise


def _answered(ask: "Ask", asked: Users, rng: np.random.Generator) -> "Estimate | Answers":
    from ..clients.arithmetic import chosen, with_places
    from ..clients.statistics import compute, public_block
    from ..strategies.runtime.ask import Answers

    # Public coins of their own for every question: a run that asks all with the same codebooks
    # adds up the same errors.
    mechanism = ask.randomizer.for_cohort(len(asked), int(rng.integers(1 << 63)))
    coins, words = rng.integers(1 << 64, size=(2, len(asked)), dtype=np.uint64)
    question = ask.question
    known = with_places(asked, question.classes_asked) if question.classes_asked else asked
    kept = chosen(known, question, words)
    values = compute(kept, question, words)
    reports = mechanism.randomize(values, rng, coins)
    if _single(ask):
        public = np.zeros((len(asked), 0), np.float32)
        if ask.public is not None:
            public = public_block(kept, question).reshape(len(asked), *ask.public)
        return Answers(reports, coins, public, mechanism)
    found = mechanism.estimate(mechanism.summarize(reports, coins))
    if (size := ask.cohort.size) == len(asked):
        return found
    errors = found.std_error * math.sqrt(len(asked) / size)
    mean = mean_without_noise(mechanism, values) + errors * rng.standard_normal(len(errors))
    return Estimate(mean, errors, size)


def mean_without_noise(mechanism: Randomizer, values: Floats) -> Floats:
    """Return the expected mean of debiased reports: that of the values within their domain.

    Raises TypeError if the domain of the mechanism is not known here.
    """
    if isinstance(mechanism, SampledCoordinate):  # of each user one coordinate, any of them
        each = [mean_without_noise(mechanism.part, column) for column in values.T[:, :, None]]
        return np.concatenate(each)
    if isinstance(mechanism, FrequencyOracle):
        own = (values >= 0) & (values < mechanism.domain_size)
        shares = np.bincount(values[own].astype(np.int64), minlength=mechanism.domain_size)
        # Random items take the place of missing ones.
        return (shares + float((~own).sum()) / mechanism.domain_size) / len(values)
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, 0.0)
    if isinstance(mechanism, SubsetHypercube | OfNumber):
        return np.asarray(np.clip(values, -mechanism.radius, mechanism.radius).mean(axis=0))
    if isinstance(mechanism, OfVector):
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        return np.asarray((values / np.maximum(lengths / mechanism.radius, 1.0)).mean(axis=0))
    raise TypeError(f"Expected a mechanism for numbers, vectors or items, got {mechanism}.")


class Simulations:
    """Runs on synthetic users, who are drawn once: every number of users and epsilon has the same.

    Where fewer runs are made than before, they are of the draws whose errors were nearest to the
    median one: few of these show how errors change better than many at random.
    """

    def __init__(self) -> None:
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
            mechanisms |= dict.fromkeys(ask.randomizer for ask in found.asks)
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
