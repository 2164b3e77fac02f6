"""One coordinate per user: the part's guarantee, and what the server makes of it."""

from dataclasses import replace

import numpy as np
import pytest

from ldp_flower.audit import exact_epsilon, extreme_inputs, worst_epsilon
from ldp_flower.guarantee.messages import HASH_END, MessageError, Query
from ldp_flower.questions import Mean, Rotated
from ldp_flower.randomizers import (
    Codebook,
    HadamardResponse,
    HybridMechanism,
    PrefixExtending,
    RandomizedResponse,
    SampledCoordinate,
    SubsetSelection,
    Summary,
    randomizer_from_config,
)
from ldp_flower.randomness import KeyedRandom, derive

NUMBERS = SampledCoordinate(RandomizedResponse(1.5, 2.0), 5)
ITEMS = SampledCoordinate(HadamardResponse(1.0, 4), 3)
FLOATS = SampledCoordinate(HybridMechanism(2.0, 0.5), 4)
each = pytest.mark.parametrize("mechanism", [NUMBERS, ITEMS, FLOATS], ids=repr)


def public_coins(users, seed=0):
    return derive(seed, np.arange(users, dtype=np.uint64))


@pytest.mark.parametrize("mechanism", [NUMBERS, ITEMS], ids=repr)
def test_its_privacy_loss_is_the_parts(mechanism):
    inputs, coins = extreme_inputs(mechanism), public_coins(4)
    assert mechanism.epsilon == mechanism.part.epsilon
    assert exact_epsilon(mechanism, inputs, coins) <= mechanism.epsilon
    assert worst_epsilon(mechanism) == pytest.approx(worst_epsilon(mechanism.part), rel=1e-12)
    assert worst_epsilon(FLOATS) is None
    with pytest.raises(TypeError, match="whose law can be enumerated"):
        FLOATS.worst_ratio()


@pytest.mark.parametrize("mechanism", [NUMBERS, ITEMS], ids=repr)
def test_the_sampler_has_the_enumerated_law(mechanism):
    """Every output of 20,000 draws within 6 standard errors of its probability."""
    value, coin, draws = np.arange(mechanism.dim) % 3 - 0.5, derive(5), 20_000
    law = mechanism.law(value, coin)
    assert sum(law.values()) == 1
    reports = mechanism.randomize(
        np.tile(value, (draws, 1)), np.random.default_rng(7), np.repeat(coin, draws)
    )
    for report, chance in law.items():
        share = np.mean([own.tobytes() == report for own in reports])
        assert abs(share - float(chance)) <= 6 * np.sqrt(float(chance * (1 - chance)) / draws)


@each
def test_only_the_assigned_coordinate_matters(mechanism):
    coins = public_coins(200)
    assigned = mechanism.assigned(coins)
    assert set(assigned) == set(range(mechanism.dim))
    values = np.zeros((200, mechanism.dim))
    other = np.full_like(values, np.nan)
    other[np.arange(200), assigned] = 0.0
    first, second = (mechanism.randomize(v, KeyedRandom(coins), coins) for v in (values, other))
    np.testing.assert_array_equal(first, second)


def test_estimates_are_unbiased_and_know_their_error():
    """Of 20 coordinates' z-scores none is beyond 4: by chance once in 800 runs."""
    users, scores = 40_000, []
    values = np.tile(np.linspace(-0.5, 0.5, 4), (users, 1))
    for seed in range(5):
        coins = public_coins(users, seed)
        reports = FLOATS.randomize(values, np.random.default_rng(seed), coins)
        found = FLOATS.estimate(FLOATS.summarize(reports, coins))
        assert found.mean.shape == found.std_error.shape == (4,)
        scores.append((found.mean - values[0]) / found.std_error)
        # A quarter of the users for each coordinate.
        predicted = np.sqrt(FLOATS.variance / users)
        np.testing.assert_allclose(found.std_error, predicted, rtol=0.2)
    assert np.abs(scores).max() < 4


def test_a_histogram_of_every_coordinate():
    users = 30_000
    bins = np.random.default_rng(0).integers(0, 4, (users, 3)) * np.array([1, 0, 1])
    coins = public_coins(users)
    found = ITEMS.estimate(ITEMS.summarize(ITEMS.randomize(bins, KeyedRandom(coins), coins), coins))
    shares = np.stack([np.bincount(column, minlength=4) for column in bins.T]) / users
    np.testing.assert_allclose(found.mean.reshape(3, 4), shares, atol=5 * found.std_error.max())


@each
def test_sums_of_debiased_reports_are_the_summary(mechanism):
    coins = public_coins(300)
    values = np.random.default_rng(1).integers(0, 4, (300, mechanism.dim)) / 2
    reports = mechanism.randomize(values, KeyedRandom(coins), coins)
    debiased, summary = mechanism.debias(reports, coins), mechanism.summarize(reports, coins)
    assert debiased.shape == (300, mechanism.size)
    np.testing.assert_allclose(summary.sum, debiased.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(summary.sum_of_squares, (debiased**2).sum(axis=0), atol=1e-9)
    halves = [
        mechanism.summarize(reports[half], coins[half]) for half in (slice(90), slice(90, None))
    ]
    np.testing.assert_allclose((halves[0] + halves[1]).sum, summary.sum, atol=1e-9)


def test_a_coordinate_without_reports_has_no_estimate():
    found = NUMBERS.estimate(NUMBERS.summarize(np.ones(1, np.uint8), public_coins(1)))
    assert np.isinf(found.std_error).all() and (found.mean != 0).sum() == 1


@each
def test_forged_summaries_are_not_accepted(mechanism):
    coins = public_coins(60)
    values = np.zeros((60, mechanism.dim))
    honest = mechanism.summarize(mechanism.randomize(values, KeyedRandom(coins), coins), coins)
    assert mechanism.accepts(honest, coins)
    # A report moved from one coordinate to another, half a report, a sum beyond the bound.
    moved = np.zeros(mechanism.size)
    moved[:2] = 1, -1
    for change in (moved, moved / 2, np.eye(mechanism.size)[-1] * 1e3):
        forged = Summary(60, honest.sum + change, honest.sum_of_squares + change)
        assert not mechanism.accepts(forged, coins)
    assert not mechanism.accepts(Summary(59, honest.sum, honest.sum_of_squares), coins)
    assert not mechanism.accepts(Summary(60, honest.sum[1:], honest.sum_of_squares), coins)


QUESTION = Rotated(Mean(np.zeros(2)), np.ones(2), np.zeros(2))


@each
def test_it_crosses_the_wire(mechanism):
    query = Query(QUESTION, mechanism, 1, 0, HASH_END, 1)
    assert Query.from_record_dict(query.to_record_dict()).randomizer == mechanism


FORGED = [
    {"dim": 0},
    {"dim": 2.0},
    {"dim": True},
    {"more": 1},
    {"part/more": 1},
    {"part/name": "X"},
    {"part/name": "SampledCoordinate"},
    {"part/epsilon": -1.0},
    {"epsilon": 1.0},
]


@pytest.mark.parametrize("change", FORGED, ids=str)
def test_forged_configurations_are_refused(change):
    config = NUMBERS.to_config()
    assert randomizer_from_config(config) == NUMBERS
    with pytest.raises(ValueError, match="Expected"):
        randomizer_from_config(config | change)
    query = Query(QUESTION, NUMBERS, 1, 0, HASH_END, 1).to_record_dict()
    query["config"]["randomizer.dim"] = -3
    with pytest.raises(MessageError):
        Query.from_record_dict(query)


def test_parts_that_are_not_for_one_number_are_refused():
    for part in (
        Codebook(1.0, 2),
        SubsetSelection(1.0, 16, 2),
        PrefixExtending(1.0, 20),
        NUMBERS,
    ):
        with pytest.raises(ValueError, match="Expected a"):
            SampledCoordinate(part, 2)
    with pytest.raises(ValueError, match="Expected 1e-06 <= epsilon"):
        replace(NUMBERS, part=RandomizedResponse(-1.0))
