"""Runs of a protocol on users in memory, without messages: faster, with the same distribution.

A run uses the protocol's server code and the clients' statistics and mechanisms. It leaves out the
transport of questions and reports, and is several times as fast. Users in memory can represent
more users: a plan for a million users takes the mean of the answers of some thousands, with the
noise of a million answers. Repeated runs on synthetic users give the expected error.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.random import default_rng

from ..data.users import Users
from ..expectation import Expectation, Setting, WouldRefuse
from ..randomizers import (
    BallSum,
    CellSum,
    Estimate,
    FrequencyOracle,
    NodeSum,
    Randomizer,
    SampledCoordinate,
    SubsetHypercube,
)
from ..randomizers.base import OfNumber, OfVector
from ..validation import Floats

if TYPE_CHECKING:
    from ..strategies import LdpStrategy, Result
    from ..strategies.forecasts.populations import Drawn, SyntheticPopulation
    from ..strategies.runtime.ask import Answers, Ask

R = TypeVar("R", bound="Result")

logger = logging.getLogger("flwr")

# If users represent more users, all questions together take at least two and at most four answers
# of each. Between these limits, they take as many answers as are needed so that differences
# between users add at most a quarter to the noise. A question takes at least 50 answers.
_ANSWERS_EACH, _MAX_ANSWERS_EACH, _MIN_ANSWERS, _NOISE_OVER_SPREAD = 2, 4, 50, 4
_QUANTILES = 0.1, 0.5, 0.9  # low end, median and high end of the range in a plan
# A simulation has at least this many times the users with whom a run starts, if there are as many.
_ENOUGH = 4
_ALSO = "The largest {} is about {:.2g}."
_APART = 4.0  # ratio of the ends of the range from which on a plan has a note
_UNSURE = (
    "Runs differ much, as they do where the noise just lets some of what is looked for be found: "
    "a few more users may find all of it, a few less none."
)
_USELESS = "At least one run of ten finds nothing of use: its error is that of asking nobody."


class InMemory(NamedTuple, Generic[R]):
    """Result of a protocol, with the questions of its run."""

    result: R
    asks: "list[Ask]"


def run_in_memory(
    strategy: "LdpStrategy[R]",
    users: Users,
    seed: int,
    num_users: int | None = None,
    num_nodes: int = 1,
) -> InMemory[R]:
    """Run a protocol on users in memory, and return its result and its questions.

    The strategy is not changed. The seed determines all randomness: cohorts, coins, mechanisms.
    The users represent ``num_users`` users; the default is their own number. With noise at the
    node, they are on ``num_nodes`` nodes. It does not matter which user is on which node, since
    sums are exact. Raise WouldRefuse if the protocol refuses this number of users, and ValueError
    if it protects records instead of users.
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
        if isinstance(ask.randomizer, NodeSum):  # all users answer
            return _of_nodes(ask, users, number, num_nodes, rng)
        if number <= len(users):
            asked = order[ask.cohort.low : ask.cohort.high]
        elif ask.single:
            asked = rng.integers(len(users), size=size)
        else:
            each = np.array([_ANSWERS_EACH, _MAX_ANSWERS_EACH]) * len(users) / number
            share = float(np.clip(_share_answering(ask.randomizer), *each))
            wanted = max(math.ceil(share * size), _MIN_ANSWERS)
            asked = rng.choice(len(users), min(size, wanted, len(users)), replace=False)
        return _answered(ask, users.take(np.sort(asked)), rng)

    running = strategy.protocol(Run(strategy, SizeOnlyPopulation(number, num_nodes)))
    asks: list[Ask] = []
    reply: Estimate | Answers | None = None
    disabled, logger.disabled = logger.disabled, True
    try:
        while True:
            asked = running.send(reply)
            assert isinstance(asked, Ask)  # only protocols that query users are planned
            asks.append(asked)
            reply = answer(asked)
    except TooFewReports as refused:
        raise WouldRefuse(refused.refusal) from None
    except StopIteration as end:
        end.value.schema = getattr(strategy, "schema", None)
        return InMemory(end.value, asks)
    finally:
        logger.disabled = disabled


def _of_nodes(
    ask: "Ask", users: Users, num_users: int, num_nodes: int, rng: np.random.Generator
) -> Estimate:
    """Return the answer of simulated nodes: the mean over users, with the noise of their sums.

    The noise of integers is drawn as normal numbers, which it nearly is.
    """
    from ..clients.statistics import compute

    assert isinstance(ask.randomizer, NodeSum)
    words = rng.integers(1 << 64, size=len(users), dtype=np.uint64)
    mean = mean_without_noise(ask.randomizer, compute(users, ask.question, words))
    error = math.sqrt(num_nodes * ask.randomizer.variance) / num_users
    noise = error * rng.standard_normal(len(mean))
    return Estimate(mean + noise, np.full(len(mean), error), num_users)


def _share_answering(mechanism: Randomizer) -> float:
    """Return the share of a cohort's answers that a simulation has to compute.

    With this share, differences between users add at most a quarter to the error by noise.
    """
    if not isinstance(mechanism, OfNumber | OfVector):
        return 0.0
    in_ball = isinstance(mechanism, OfVector) and not isinstance(mechanism, SubsetHypercube)
    noise = mechanism.variance * (mechanism.width if in_ball else 1)
    return _NOISE_OVER_SPREAD * mechanism.radius**2 / noise


def _answered(ask: "Ask", asked: Users, rng: np.random.Generator) -> "Estimate | Answers":
    """Return the answer of some users in memory, for a cohort that may have more users."""
    from ..clients.arithmetic import chosen, with_places
    from ..clients.statistics import compute, public_block
    from ..strategies.runtime.ask import Answers

    # Draw new public coins for every question. With the same codebooks in all questions of a run,
    # the same errors would add up.
    mechanism = ask.randomizer.for_cohort(len(asked), int(rng.integers(1 << 63)))
    coins, words = rng.integers(1 << 64, size=(2, len(asked)), dtype=np.uint64)
    question = ask.question
    known = with_places(asked, question.classes_asked) if question.classes_asked else asked
    kept = chosen(known, question, words)
    values = compute(kept, question, words)
    reports = mechanism.randomize(values, rng, coins)
    if ask.single:
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
    """Return the expected mean of debiased reports, which is the mean of the clipped values.

    Raises TypeError if this function does not know the domain of the mechanism.
    """
    if isinstance(mechanism, SampledCoordinate):  # each user reports any one coordinate
        each = [mean_without_noise(mechanism.part, column) for column in values.T[:, :, None]]
        return np.concatenate(each)
    if isinstance(mechanism, FrequencyOracle):
        own = (values >= 0) & (values < mechanism.domain_size)
        shares = np.bincount(values[own].astype(np.int64), minlength=mechanism.domain_size)
        # Random items take the place of invalid items.
        return (shares + float((~own).sum()) / mechanism.domain_size) / len(values)
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, 0.0)
    if isinstance(mechanism, SubsetHypercube | OfNumber):
        return np.asarray(np.clip(values, -mechanism.radius, mechanism.radius).mean(axis=0))
    if isinstance(mechanism, CellSum):
        shares = np.maximum(values, 0.0)
        whole = np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
        return np.asarray((shares / whole).mean(axis=0))
    if isinstance(mechanism, OfVector | BallSum):
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        return np.asarray((values / np.maximum(lengths / mechanism.radius, 1.0)).mean(axis=0))
    raise TypeError(f"Expected a mechanism for numbers, vectors or items, got {mechanism}.")


class _Runs(NamedTuple):
    """Errors of simulated runs with some number of users, with the rounds and mechanisms."""

    errors: Floats
    others: dict[str, float]  # medians of further errors
    rounds: int
    randomizers: tuple[Randomizer, ...]


class Simulations:
    """Simulated runs of one strategy, for all numbers of users and all epsilons that a plan tries.

    Synthetic users are drawn once, and the errors of runs are kept.

    If fewer runs are made than before, they use the draws whose errors were nearest to the median.
    A few of these draws show changes of the error better than many random draws.
    """

    def __init__(self) -> None:
        self._drawn: dict[tuple[str, int, bool, int], Drawn] = {}
        self._known: dict[tuple[str, float, int, int, int], _Runs] = {}
        self._typical: list[int] = []

    def expectation(
        self,
        strategy: "LdpStrategy[Any]",
        population: "SyntheticPopulation",
        setting: Setting,
        runs: int,
    ) -> Expectation:
        """Return the median error of some runs, and the range of eight runs out of ten.

        Raises WouldRefuse if the protocol refuses this number of users.
        """
        num_users, num_nodes = setting.num_users, setting.num_nodes or 1
        if why := strategy.refusal(num_users, num_nodes=num_nodes):
            raise WouldRefuse(why)
        number = min(num_users, population.max_users or num_users)
        if number < num_users and (few := strategy.refusal(number, num_nodes=num_nodes)):
            number = min(num_users, _ENOUGH * (few.needed or num_users))
        key = repr(replace(population, notes=())), strategy.epsilon, number, num_nodes, runs
        if key not in self._known:
            self._known[key] = self._runs(strategy, population, number, num_nodes, runs)
        known = self._known[key]
        beyond = (number / num_users) ** population.power
        errors = beyond * known.errors
        finite = errors[np.isfinite(errors)]
        low, value, high = np.quantile(finite if len(finite) else [population.useless], _QUANTILES)
        if runs > len(self._typical):
            self._typical = np.argsort(np.abs(errors - value), kind="stable").tolist()
        return Expectation(
            error=population.error,
            value=float(value),
            low=float(low),
            high=float(high),
            rounds=known.rounds,
            randomizers=known.randomizers,
            assumes=population.assumes,
            notes=(
                *population.notes,
                *_doubts(errors, population.useless),
                *(_ALSO.format(name, beyond * error) for name, error in known.others.items()),
            ),
        )

    def _runs(
        self,
        strategy: "LdpStrategy[Any]",
        population: "SyntheticPopulation",
        num_users: int,
        num_nodes: int,
        runs: int,
    ) -> "_Runs":
        others: dict[str, list[float]] = {}
        errors, rounds, mechanisms = np.zeros(runs), 1, dict[Randomizer, None]()
        seeds = self._typical[:runs] if runs <= len(self._typical) else range(runs)
        for place, seed in enumerate(seeds):
            drawn = self._population(population, num_users, seed)
            found = run_in_memory(strategy, drawn.users[:num_users], seed, num_users, num_nodes)
            errors[place] = drawn.error(found.result)
            for name, error in drawn.others.items():
                others.setdefault(name, []).append(error(found.result))
            rounds = max(rounds, len(found.asks))
            mechanisms |= dict.fromkeys(ask.randomizer for ask in found.asks)
        medians = {name: float(np.median(found)) for name, found in others.items()}
        return _Runs(errors, medians, rounds, tuple(mechanisms))

    def _population(self, population: "SyntheticPopulation", num_users: int, seed: int) -> "Drawn":
        most, stand_in = population.most, num_users > population.most
        most = num_users if population.redrawn else most
        key = repr(replace(population, notes=())), most, stand_in, seed
        if key not in self._drawn:
            self._drawn[key] = population.draw(most, stand_in, default_rng(seed))
        return self._drawn[key]


def _doubts(errors: Floats, useless: float) -> Iterator[str]:
    """Yield notes if errors of runs differ much, or are as large as the error of asking nobody."""
    low, _, high = np.quantile(np.minimum(errors, useless), _QUANTILES)
    if high > _APART * low:
        yield _UNSURE
    if high >= useless:
        yield _USELESS
