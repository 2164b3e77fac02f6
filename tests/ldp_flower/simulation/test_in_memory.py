"""Runs in memory: of the same law as by messages, and users who stand in for more."""

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.planning.in_memory import mean_without_noise, run_in_memory
from ldp_flower.randomizers import (
    KRandomizedResponse,
    RandomizedResponse,
    SampledCoordinate,
    SubsetHypercube,
    SubsetSelection,
    ball_codebook,
)
from ldp_flower.strategies import LabelLdpIht, PeelingDpIht, UserLevelMean
from ldp_flower.strategies.forecasts.populations import MeanUsers

MECHANISMS = {
    "box": (SubsetHypercube(4.0, 3, 0.7), "normal"),
    "ball": (ball_codebook(4.0, 3, 0.7), "normal"),
    "number": (RandomizedResponse(4.0, 0.7), "normal"),
    "sampled": (SampledCoordinate(RandomizedResponse(4.0, 0.7), 3), "normal"),
    "item": (KRandomizedResponse(4.0, 5), "items"),
    "set": (SubsetSelection(4.0, 8, set_size=2), "items"),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_mean_without_noise_is_that_of_many_reports(name):
    """Of 400,000 reports, each coordinate within 4.5 standard errors: probability 1e-4 in all.

    One user in ten has nothing: no number, or no item.
    """
    mechanism, values = MECHANISMS[name]
    rng = np.random.default_rng(0)
    shape = (400_000, mechanism.width)
    if values == "normal":
        drawn = 0.3 + 0.6 * rng.standard_normal(shape)
        drawn[:40_000] = np.nan
    else:
        drawn = np.argsort(rng.uniform(size=(len(drawn := np.zeros(shape)), 4)))[:, : shape[1]]
        drawn = drawn.astype(float)
        drawn[:40_000] = -1
    found = mechanism.estimate(mechanism.summarize(mechanism.randomize(drawn, rng)))
    off = (found.mean - mean_without_noise(mechanism, drawn)) / found.std_error
    assert np.abs(off).max() < 4.5


def test_a_mechanism_of_an_unknown_domain_is_an_error():
    with pytest.raises(TypeError, match="Expected a mechanism for numbers"):
        mean_without_noise(object(), np.zeros((1, 1)))


def users_of(seed, number=1200, dim=6):
    rng = np.random.default_rng(seed)
    off = rng.standard_normal((number, dim)) * 0.3
    return Users.from_rows(0.2 + off - off.mean(axis=0)), np.full(dim, 0.2)


def errors(run, seeds):
    found = []
    for seed in seeds:
        users, truth = users_of(seed)
        found.append(np.linalg.norm(run(users, seed).coef - truth))
    return np.array(found)


@pytest.mark.slow
def test_a_run_in_memory_has_the_law_of_one_by_messages():
    """Lengths of errors of 24 runs each, of six coordinates: the means differ by less than 4 of
    their standard errors, with probability 6e-5 of more."""
    strategy = UserLevelMean(6, epsilon=2.0, bound=2.5)
    memory = errors(lambda users, seed: run_in_memory(strategy, users, seed).result, range(24))
    wire = errors(lambda users, seed: simulate(strategy, users, seed=seed), range(24, 48))
    error = np.hypot(memory.std(), wire.std()) / np.sqrt(24)
    assert abs(memory.mean() - wire.mean()) < 4 * error


@pytest.mark.slow
def test_users_who_stand_in_for_more_have_the_noise_of_more():
    """As above, with 1,200 users who are all, or 300 of them who stand in for them."""
    strategy = UserLevelMean(6, epsilon=2.0, bound=2.5)

    population = MeanUsers(
        error="", dim=6, sparsity=6, length=0.2 * 6**0.5, spread=0.3 * 6**0.5, unit=1.0
    )
    drawn = [population.draw(300, True, np.random.default_rng(seed)) for seed in range(24)]
    few = np.array(
        [
            each.error(run_in_memory(strategy, each.users, seed, 1200).result)
            for seed, each in enumerate(drawn)
        ]
    )
    every = errors(lambda users, seed: run_in_memory(strategy, users, seed).result, range(24, 48))
    error = np.hypot(few.std(), every.std()) / np.sqrt(24)
    assert abs(few.mean() - every.mean()) < 4 * error
    # A hundred times the users: a tenth of the error.
    many = [
        each.error(run_in_memory(strategy, each.users, seed, 120_000).result)
        for seed, each in enumerate(drawn[:8])
    ]
    assert 0.05 < np.median(many) / every.mean() < 0.2


def test_single_reports_are_drawn_with_the_users_public_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 4))
    users = Users.from_rows(x, x @ [1.0, 0, 0, 0])
    run = run_in_memory(LabelLdpIht(4, epsilon=4.0, sparsity=1), users, 0, 3000)
    assert sum(ask.cohort.size for ask in run.asks) == 3000
    assert np.linalg.norm(run.result.coef - [1, 0, 0, 0]) < 0.2


def test_noise_of_records_is_not_drawn_in_memory():
    strategy = PeelingDpIht(3, sparsity=1, epsilon=4.0, delta=1e-6, target_scale=1.0)
    users = Users(np.ones((40, 3)), np.ones(40), np.array([0, 20, 40]))
    with pytest.raises(ValueError, match="Expected a strategy that protects users, got PeelingD"):
        run_in_memory(strategy, users, 0)
