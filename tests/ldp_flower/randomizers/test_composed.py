"""Composition: laws are products, and the parts keep apart from each other."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ldp_flower import PrivacyPolicy
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import HASH_END, MessageError, Query
from ldp_flower.guarantee.questions import Gradient
from ldp_flower.randomizers import (
    Codebook,
    Composed,
    GaussianMechanism,
    HadamardResponse,
    HybridMechanism,
    KRandomizedResponse,
    OptimizedLocalHashing,
    PiecewiseMechanism,
    PrefixExtending,
    RandomizedResponse,
    RecordGaussian,
    RecordVertices,
    SubsetHypercube,
    SubsetSelection,
    Summary,
    TreeHist,
    randomizer_from_config,
)
from ldp_flower.randomizers.composed import sum_rounded_up
from ldp_flower.randomizers.two_level import log
from ldp_flower.randomness import KeyedRandom, derive

SMALL = Composed(
    (SubsetHypercube(0.5, 2), KRandomizedResponse(0.7, 3), KRandomizedResponse(0.3, 2))
)
VECTORS = Composed((Codebook(1.0, 3, num_codewords=300), RandomizedResponse(0.5, 2.0)))
ITEMS = Composed(
    (
        SubsetSelection(1.0, 300, 2),
        OptimizedLocalHashing(1.0, 9),
        HadamardResponse(1.0, 70_000),
        KRandomizedResponse(0.5, 13),
    )
)
FLOATS = Composed(
    (
        *(PiecewiseMechanism(0.5), HybridMechanism(0.25), PiecewiseMechanism(0.25)),
        *(GaussianMechanism(1.0, 2, delta=1e-6), PiecewiseMechanism(0.3)),
    )
)
ALONE = Composed((GaussianMechanism(1.0, 2),))
ALL = [SMALL, VECTORS, ITEMS, FLOATS, ALONE]
each = pytest.mark.parametrize(
    "mechanism", ALL, ids=lambda m: "+".join(type(part).__name__ for part in m.parts)
)


def keyed(users, seed=0):
    return KeyedRandom(derive(seed, np.arange(users, dtype=np.uint64)))


def public_coins(users):
    return derive(np.arange(users, dtype=np.uint64))


# ------------------------------------------------------------------------------ privacy


def test_the_law_is_the_product_of_the_parts_laws():
    values = [[*signs, item, other] for signs in product([-1, 1], repeat=2)
              for item in range(3) for other in range(2)]  # fmt: skip
    coin = derive(3)
    laws = [SMALL.law(np.array(value, float), coin) for value in values]
    reports = set().union(*laws)
    bits = 2 ** SMALL.parts[0].subset
    assert len(reports) == bits * 3 * 2 and all(len(report) == 3 for report in reports)
    worst = Fraction(1)
    for report in reports:
        column = [law[report] for law in laws]
        worst = max(worst, max(column) / min(column))
    assert all(sum(law.values()) == 1 for law in laws)
    assert Decimal("1.499999") < log(worst) <= sum(Decimal(p.epsilon) for p in SMALL.parts)
    assert worst == SMALL.worst_ratio()


def test_the_sampler_has_the_product_law():
    users, value = 60_000, np.array([0.3, -1.0, 2.0, math.nan])
    coin = derive(4)
    reports = SMALL.randomize(
        np.tile(value, (users, 1)), np.random.default_rng(0), np.repeat(coin, users)
    )
    law = SMALL.law(np.array([0.3, -1.0, 2.0, -1.0]), coin)
    found, counts = np.unique(reports, axis=0, return_counts=True)
    observed = {report.tobytes(): n / users for report, n in zip(found, counts, strict=True)}
    assert set(observed) <= set(law)
    for report, chance in law.items():  # 5.5 standard errors
        error = math.sqrt(chance * (1 - chance) / users)
        assert abs(observed.get(report, 0.0) - chance) < 5.5 * error


@given(st.lists(st.floats(1e-6, 100), min_size=1, max_size=16))
def test_the_claim_is_never_below_the_sum_of_the_parts(epsilons):
    total, exact = sum_rounded_up(epsilons), sum(map(Fraction, epsilons))
    assert Fraction(math.nextafter(total, 0)) < exact <= Fraction(total)


def test_costs_add_up():
    assert SMALL.epsilon == 1.5 and SMALL.delta == 0 and SMALL.exact
    assert FLOATS.epsilon == pytest.approx(2.3, rel=1e-15) and FLOATS.epsilon >= 2.3
    assert FLOATS.delta == 1e-6 and not FLOATS.exact
    tenths = Composed((RandomizedResponse(0.1),) * 3)
    assert tenths.epsilon > 0.3  # the float 0.1 is above a tenth
    assert Cost.of(FLOATS) == Cost(FLOATS.epsilon, 1e-6)


@pytest.mark.parametrize(
    ("mechanism", "policy", "allowed"),
    [
        (SMALL, PrivacyPolicy(1.5), True),
        (SMALL, PrivacyPolicy(1.4999), False),
        (Composed((RandomizedResponse(0.1),) * 3), PrivacyPolicy(0.3), False),
        (FLOATS, PrivacyPolicy(3.0, 1e-5), False),
        (FLOATS, PrivacyPolicy(3.0, 1e-5, allow_inexact=True), True),
        (FLOATS, PrivacyPolicy(3.0, 1e-7, allow_inexact=True), False),
    ],
)
def test_a_policy_judges_the_whole(mechanism, policy, allowed):
    assert policy.allows(mechanism) == allowed


# ------------------------------------------------------------------------------ reports


@each
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_input_gives_a_valid_report_of_fixed_size(mechanism, data):
    extreme = st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, 1e9])
    shape = (3, mechanism.width)
    values = data.draw(arrays(np.float64, shape, elements=extreme | st.floats(-3, 3)))
    reports = mechanism.randomize(values, keyed(3))
    assert reports.dtype == np.uint8 and reports.shape == (3, mechanism.report_bytes)
    assert mechanism.well_formed(reports, 3)
    assert np.isfinite(mechanism.debias(reports)).all()


@each
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_costs_its_own_part_only(mechanism, bad):
    values = np.ones((6, mechanism.width))
    before = mechanism.randomize(values, keyed(6))
    column = byte = 0
    for part in mechanism.parts:
        odd, centred = values.copy(), values.copy()
        odd[2, column] = bad
        centred[2, column : column + part.width] = part.centre
        after = mechanism.randomize(odd, keyed(6))
        np.testing.assert_array_equal(after, mechanism.randomize(centred, keyed(6)))
        own = slice(byte, byte + part.report_bytes)
        np.testing.assert_array_equal(np.delete(after, own, 1), np.delete(before, own, 1))
        column, byte = column + part.width, byte + part.report_bytes


@each
def test_a_users_report_does_not_depend_on_the_others(mechanism):
    values = np.random.default_rng(1).standard_normal((30, mechanism.width))
    before = mechanism.randomize(values, keyed(30))
    values[20] = 1e9
    after = mechanism.randomize(values, keyed(30))
    np.testing.assert_array_equal(np.delete(after, 20, 0), np.delete(before, 20, 0))


def test_parts_share_no_public_randomness():
    twins = Composed((SubsetHypercube(1.0, 1000), SubsetHypercube(1.0, 1000)))
    coins = public_coins(2000)
    reports = twins.randomize(np.zeros((2000, 2000)), keyed(2000), coins)
    seen = twins.debias(reports, coins).reshape(2000, 2, 1000) != 0
    # One of 1,000 starts for a pair to share, and a run of few coordinates from each.
    assert (seen[:, 0] == seen[:, 1]).all(axis=1).mean() < 0.01


def test_a_report_with_an_impossible_part_is_refused():
    good = ITEMS.randomize(np.ones((4, ITEMS.width)), keyed(4))
    assert ITEMS.well_formed(good, 4) and not ITEMS.well_formed(good, 3)
    assert not ITEMS.well_formed(good[:, :-1], 4)
    assert not ITEMS.well_formed(good.astype(np.uint16), 4)
    low = good.copy()
    low[1, :4] = 0  # the first two items of a set, equal
    assert not ITEMS.well_formed(low, 4)
    last = good.copy()
    last[3, -1] = 13  # beyond the last item
    assert not ITEMS.well_formed(last, 4)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("place", [0, 12, 20])
def test_packed_floats_that_are_no_reports_are_refused(number, place):
    reports = FLOATS.randomize(np.ones((2, FLOATS.width)), keyed(2))
    assert FLOATS.well_formed(reports, 2)
    reports[1, place : place + 4] = np.frombuffer(np.float32(number).tobytes(), np.uint8)
    assert not FLOATS.well_formed(reports, 2)


# ---------------------------------------------------------------------------- estimates


@pytest.mark.parametrize("mechanism", [SMALL, VECTORS, FLOATS], ids=lambda m: type(m.parts[0]))
def test_estimates_are_unbiased(mechanism):
    users = 100_000
    value = {
        SMALL: [0.5, -0.25, 1.0, 0.0],
        VECTORS: [0.5, -0.5, 0.25, -1.0],
        FLOATS: [0.5, -0.5, 0.25, 0.6, -0.6, 0.3],
    }[mechanism]
    truth = [0.5, -0.25, 0, 1, 0, 1, 0] if mechanism is SMALL else value
    values = np.tile(np.array(value), (users, 1))
    reports = mechanism.randomize(values, np.random.default_rng(2))
    estimate = mechanism.estimate(mechanism.summarize(reports))
    assert (np.abs(estimate.mean - truth) < 5 * estimate.std_error).all()
    direct = mechanism.debias(reports).mean(axis=0)
    assert (np.abs(direct - truth) < 10 * estimate.std_error).all()


@each
def test_estimates_are_those_of_the_parts(mechanism):
    users = 40
    values = np.random.default_rng(3).uniform(0, 2, (users, mechanism.width)).round(1)
    coins, rng = public_coins(users), keyed(users)
    summary = mechanism.summarize(mechanism.randomize(values, keyed(users), coins), coins)
    estimate = mechanism.estimate(summary)
    column = coordinate = 0
    for number, part in enumerate(mechanism.parts):
        own_coins = derive(coins, number)
        own = part.randomize(values[:, column : column + part.width], rng, own_coins)
        alone = part.estimate(part.summarize(own, own_coins))
        place = slice(coordinate, coordinate + part.size)
        np.testing.assert_array_equal(estimate.mean[place], alone.mean)
        np.testing.assert_array_equal(estimate.std_error[place], alone.std_error)
        column, coordinate = column + part.width, coordinate + part.size
    assert coordinate == mechanism.size == len(estimate.mean)


def test_variance_bound_and_length():
    first, second = VECTORS.parts
    assert VECTORS.variance == pytest.approx((3 * first.variance + second.variance) / 4)
    assert VECTORS.bound == max(first.bound, second.bound)
    assert VECTORS.length == pytest.approx(math.hypot(first.length, second.length))
    assert FLOATS.bound == max(part.bound for part in FLOATS.parts) < math.inf


@each
def test_summaries_of_parts_add_up_and_are_accepted(mechanism):
    coins = public_coins(40)
    reports = mechanism.randomize(np.ones((40, mechanism.width)), keyed(40), coins)
    whole = mechanism.summarize(reports, coins)
    both = mechanism.summarize(reports[:15], coins[:15])
    assert mechanism.accepts(both, coins)  # some did not answer
    both += mechanism.summarize(reports[15:], coins[15:])
    np.testing.assert_allclose(both.sum, whole.sum, rtol=1e-9, atol=1e-9)
    assert mechanism.accepts(whole, coins) and mechanism.accepts(both, coins)
    if math.isfinite(mechanism.bound):
        assert mechanism.accepts(Summary.empty(mechanism.size), coins)
    assert not mechanism.accepts(whole, coins[:39])


@each
def test_summaries_that_no_reports_can_have_are_refused(mechanism):
    coins = public_coins(40)
    reports = mechanism.randomize(np.ones((40, mechanism.width)), keyed(40), coins)
    good = mechanism.summarize(reports, coins)
    for total, squares in (
        (good.sum * np.nan, good.sum_of_squares),
        (good.sum, -good.sum_of_squares),
        (good.sum[:-1], good.sum_of_squares),
        (np.append(good.sum, 0.0), np.append(good.sum_of_squares, 0.0)),
        (good.sum[:, None], good.sum_of_squares[:, None]),
        (good.sum.astype(np.float32), good.sum_of_squares),
        (good.sum * 1e3, good.sum_of_squares),
    ):
        assert not mechanism.accepts(Summary(40, total, squares), coins)


def test_the_sums_of_every_part_are_checked():
    coins = public_coins(40)
    good = SMALL.summarize(SMALL.randomize(np.ones((40, 4)), keyed(40), coins), coins)
    for coordinate in range(SMALL.size):
        shifted = good.sum + np.eye(SMALL.size)[coordinate] * 41 * SMALL.bound
        assert not SMALL.accepts(Summary(40, shifted, good.sum_of_squares), coins)


@each
def test_no_reports(mechanism):
    reports = mechanism.randomize(np.zeros((0, mechanism.width)), np.random.default_rng(0))
    assert mechanism.well_formed(reports, 0)
    assert mechanism.summarize(reports).count == 0
    assert np.isinf(mechanism.estimate(mechanism.summarize(reports)).std_error).any()


# ------------------------------------------------------------------------- construction


QUESTION = Gradient(np.zeros(3))


@each
def test_it_survives_a_query(mechanism):
    assert randomizer_from_config(mechanism.to_config()) == mechanism
    query = Query(QUESTION, mechanism, 1, 0, HASH_END, 1)
    content = query.to_record_dict()
    content["config"].deflate()
    got = Query.from_record_dict(content)
    assert got.randomizer == mechanism and got.digest() == query.digest()


def test_the_order_of_the_parts_is_in_the_digest():
    turned = Composed(SMALL.parts[::-1])
    digests = {Query(QUESTION, m, 1, 0, HASH_END, 1).digest() for m in (SMALL, turned)}
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), "Expected 1 to 16 parts, got 0"),
        ((RandomizedResponse(1.0),) * 17, "Expected 1 to 16 parts, got 17"),
        ((TreeHist(1.0, 8),), "Expected summable parts, not composed and not for records"),
        ((RandomizedResponse(1.0), PrefixExtending(1.0, 8)), "Expected summable parts"),
        ((SMALL, RandomizedResponse(1.0)), "Expected summable parts, not composed"),
        ((RandomizedResponse(1.0), "RandomizedResponse"), "Expected summable parts"),
        ((RecordGaussian(1.0, 2, 1.0, 1e-3),), "not composed and not for records"),
        ((RecordVertices(1.0, 2, 1.0, 1e-3),), "not composed and not for records"),
        ((RandomizedResponse(60.0),) * 2, "Expected 1e-06 <= epsilon <= 100, got 120"),
        ((GaussianMechanism(1.0, 2, delta=0.6),) * 2, "Expected a sum of deltas below 1"),
    ],
)
def test_bad_parts_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        Composed(parts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.1}, "Expected parameters of parts 0 to 15, got 'epsilon'"),
        ({"parts": 3}, "Expected parameters of parts"),
        ({"0/": 1}, "Expected parameters of parts 0 to 15, got '0/'"),
        ({"/name": "Codebook"}, "Expected parameters of parts"),
        ({"00/dim": 3}, "Expected parameters of parts"),
        ({"-1/dim": 3}, "Expected parameters of parts"),
        ({"16/name": "RandomizedResponse"}, "Expected parameters of parts"),
        ({"5/name": "RandomizedResponse"}, "Expected parts that are numbered from 0"),
        ({"0/noise": 0.0}, "Expected SubsetHypercube parameters"),
        ({"0/epsilon/x": 0.0}, "Expected SubsetHypercube parameters"),
        ({"0/epsilon": [0.5]}, "Expected a number for SubsetHypercube epsilon"),
        ({"0/epsilon": math.nan}, "Expected 1e-06 <= epsilon <= 100, got nan"),
        ({"0/epsilon": -1.0}, "Expected 1e-06 <= epsilon <= 100, got -1.0"),
        ({"1/name": "Identity"}, "Expected a randomizer in"),
        ({"1/name": 7}, "Expected a randomizer in"),
        ({"1/name": "Composed"}, "Expected a randomizer in"),
        ({"name": ["Composed"]}, "Expected a randomizer in"),
        ({"0/name": "TreeHist"}, "Expected TreeHist parameters"),
    ],
)
def test_hostile_configurations_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        randomizer_from_config(SMALL.to_config() | change)


def test_hostile_queries_are_refused():
    query = Query(QUESTION, SMALL, 1, 0, HASH_END, 1)
    for change in ({"randomizer.0/name": "Composed"}, {"randomizer.epsilon": 0.1}):
        content = query.to_record_dict()
        content["config"].update(change)
        with pytest.raises(MessageError, match="Refused randomizer"):
            Query.from_record_dict(content)
    with pytest.raises(ValueError, match="Expected 1 to 16 parts, got 0"):
        randomizer_from_config({"name": "Composed"})
