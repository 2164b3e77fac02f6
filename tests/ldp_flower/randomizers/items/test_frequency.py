"""What holds for every frequency oracle; the laws of the reports are enumerated exactly."""

import itertools
import math
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_sources import Fixed, Recorder

from ldp_flower.randomizers import (
    HadamardBit,
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    SubsetSelection,
    Summary,
    randomizer_from_config,
)
from ldp_flower.randomness import KeyedRandom, derive

WORDS = 2**64
SINGLE = (
    HadamardBit,
    HadamardResponse,
    KRandomizedResponse,
    OptimizedLocalHashing,
    SubsetSelection,
)
ORACLES = [*(oracle(1.0, 12) for oracle in SINGLE), SubsetSelection(1.0, 12, 3)]
each = pytest.mark.parametrize(
    "oracle", ORACLES, ids=lambda oracle: f"{type(oracle).__name__}-{oracle.width}"
)


def keyed(users, seed=0):
    return KeyedRandom(derive(seed, np.arange(users, dtype=np.uint64)))


def public_coins(users):
    return derive(np.arange(users, dtype=np.uint64))


def some_values(oracle, users, seed=0):
    """Return valid values, low items more often than high ones."""
    rng = np.random.default_rng(seed)
    keys = rng.exponential(np.arange(1, oracle.domain_size + 1), (users, oracle.domain_size))
    return np.argsort(keys, axis=1)[:, : oracle.width].astype(float)


def residues(divisor):
    """Return a word for each residue, and the share of all words that have it."""
    return [(v, Fraction(WORDS // divisor + (v < WORDS % divisor), WORDS)) for v in range(divisor)]


def two_level_paths(oracle):
    choice = oracle._choice
    sides = (
        (0, choice.threshold, choice.num_likely),
        (WORDS - 1, WORDS - choice.threshold, choice.num_unlikely),
    )
    for level, weight, size in sides:
        for word, share in residues(size):
            yield [0, level, word], Fraction(weight, WORDS) * share


def subset_paths(oracle):
    d, k, w, t = oracle.domain_size, oracle.set_size, oracle.report_items, oracle.threshold
    starts = [0, *oracle._ends]
    kinds = [(0, start, end - start, d - 1 - i, True) for i, (start, end) in enumerate(
        itertools.pairwise(starts)
    )] + [(WORDS - 1, 0, WORDS, d - k, False)]  # fmt: skip
    for level, first, weight, remaining, meets in kinds:
        chance = Fraction(t if meets else WORDS - t, WORDS) * Fraction(weight, WORDS)
        steps = [residues(remaining - w + step + 1) for step in range(w)]
        if meets:
            steps[0] = [(0, Fraction(1))]  # this word is drawn and not used
        for path in itertools.product(*steps):
            share = math.prod((share for _, share in path), start=chance)
            yield [0] * k + [level, first] + [word for word, _ in path], share


def law(oracle, value, coin=0):
    """Return the exact probability of every report for one value."""
    paths = {SubsetSelection: subset_paths}
    words, chances = zip(*paths.get(type(oracle), two_level_paths)(oracle), strict=True)
    values = np.tile(np.asarray(value, float), (len(words), 1))
    coins = np.full(len(words), coin, np.uint64)
    reports = oracle.randomize(values, Fixed(words), coins).reshape(len(words), -1)
    probabilities = defaultdict(Fraction)
    for report, chance in zip(reports.tolist(), chances, strict=True):
        probabilities[tuple(report)] += chance
    return probabilities


def all_laws(oracle, coin=0):
    values = itertools.combinations(range(oracle.domain_size), oracle.width)
    return {value: law(oracle, value, coin) for value in values}


def largest_log_ratio(laws):
    """Return it to 50 digits; every report must be possible for every value."""
    outputs = set().union(*laws.values())
    assert all(set(probabilities) == outputs for probabilities in laws.values())
    ratio = Fraction(1)
    for output in outputs:
        column = [probabilities[output] for probabilities in laws.values()]
        ratio = max(ratio, max(column) / min(column))
    with localcontext() as context:
        context.prec = 50
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


CASES = (
    [KRandomizedResponse(e, d) for e in (0.1, 1.0, 4.0, 20.0) for d in (2, 3, 7)]
    + [HadamardResponse(e, d) for e in (0.1, 1.0, 4.0, 20.0) for d in (2, 3, 4, 11)]
    + [OptimizedLocalHashing(e, 30) for e in (0.1, 1.0, 2.0)]
    + [
        SubsetSelection(e, d, k)
        for e in (0.1, 1.0, 4.0, 20.0)
        for d, k in ((2, 1), (3, 1), (7, 1), (3, 2), (6, 2), (7, 3), (7, 4))
    ]
)


@pytest.mark.parametrize("oracle", CASES)
def test_the_largest_log_ratio_over_all_reports_is_epsilon(oracle):
    laws = all_laws(oracle)
    for probabilities in laws.values():
        assert sum(probabilities.values()) == 1
    log_ratio = largest_log_ratio(laws)
    assert Decimal(oracle.epsilon) - Decimal("1e-9") <= log_ratio <= Decimal(oracle.epsilon)


@pytest.mark.parametrize("coin", range(20))
def test_hashing_is_private_for_every_coin(coin):
    laws = all_laws(OptimizedLocalHashing(1.0, 4), coin)
    assert largest_log_ratio(laws) <= Decimal(1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("coin", range(8))
def test_a_sign_is_private_in_every_column(epsilon, coin):
    oracle = HadamardBit(epsilon, 5)
    loss = largest_log_ratio(all_laws(oracle, coin))
    says_nothing = not oracle.columns(np.array([coin], np.uint64))[0]  # all signs are the same
    assert loss <= Decimal(epsilon)
    assert loss == 0 if says_nothing else loss > Decimal(epsilon) - Decimal("1e-9")


def test_signs_agree_in_half_of_the_columns():
    oracle = HadamardBit(2.0, 5)
    coins = public_coins(4000)
    column = oracle.columns(coins)
    assert len(np.unique(column)) == oracle.order
    one_each = np.array([coins[np.flatnonzero(column == each)[0]] for each in range(oracle.order)])
    supports = oracle._supports(np.zeros(len(one_each), oracle.report_dtype), one_each) * 2 - 1
    assert (supports.T @ supports == oracle.order * np.eye(5)).all()


@pytest.mark.parametrize("oracle", [oracle for oracle in CASES if oracle.domain_size <= 7], ids=str)
def test_support_has_the_stated_probabilities(oracle):
    if isinstance(oracle, OptimizedLocalHashing):
        pytest.skip("over the coin, see test_hashing")
    for value, probabilities in all_laws(oracle).items():
        reports = np.array(list(probabilities), oracle.report_dtype)
        reports = reports.reshape(len(reports), *oracle.report_shape)
        supports = oracle._supports(reports, np.zeros(len(reports), np.uint64))
        chances = np.array(list(probabilities.values()), object)
        support = (supports * chances[:, None]).sum(axis=0)
        for item in range(oracle.domain_size):
            expected = oracle.own if item in value else oracle.other
            assert abs(support[item] - expected) <= Fraction(1, 2**58)


@pytest.mark.parametrize(
    "oracle", [*(kind(1.0, 6) for kind in SINGLE), SubsetSelection(0.3, 7, 2)], ids=str
)
def test_the_sampler_has_the_enumerated_law(oracle):
    users = 40_000
    value = np.arange(oracle.width) + 1.0
    coins = np.zeros(users, np.uint64)
    reports = oracle.randomize(np.tile(value, (users, 1)), np.random.default_rng(0), coins)
    found, counts = np.unique(reports.reshape(users, -1), axis=0, return_counts=True)
    probabilities = {output: float(p) for output, p in law(oracle, value).items()}
    observed = dict(zip(map(tuple, found.tolist()), counts / users, strict=True))
    assert set(observed) <= set(probabilities)
    # 5 standard errors over some 80 frequencies in all: fails by chance once in 1e4
    for output, p in probabilities.items():
        assert abs(observed.get(output, 0.0) - p) < 5 * math.sqrt(p * (1 - p) / users)


@each
def test_counts_are_unbiased_and_spread_as_stated(oracle):
    groups, size = 500, 400
    value = np.arange(oracle.width) + 2.0
    users = groups * size
    coins = public_coins(users)
    reports = oracle.randomize(np.tile(value, (users, 1)), np.random.default_rng(1), coins)
    parts = [slice(start, start + size) for start in range(0, users, size)]
    means = np.array([oracle.mean(reports[part], coins[part]) for part in parts])
    truth = np.isin(np.arange(12), value).astype(float)
    variance = np.where(truth == 1, oracle.variance_at(1.0), oracle.variance)
    # 5 standard errors over 72 items in all: fails by chance once in 2e4
    assert (np.abs(means.mean(axis=0) - truth) < 5 * np.sqrt(variance / users)).all()
    # The relative standard error of a variance from 500 groups is sqrt(2 / 500).
    assert means.var(axis=0, ddof=1) * size == pytest.approx(variance, rel=5 * math.sqrt(2 / 500))
    held = ~truth.astype(bool)
    pooled = means[:, held].var(axis=0, ddof=1).mean() * size
    assert pooled == pytest.approx(oracle.variance, rel=0.1)


@each
def test_counts_of_a_population(oracle):
    users = 20_000
    values = some_values(oracle, users)
    reports = oracle.randomize(values, np.random.default_rng(2))
    counts = oracle.counts(reports)
    truth = np.bincount(values.astype(int).ravel(), minlength=12)
    spread = [math.sqrt(users * oracle.variance_at(count / users)) for count in truth]
    assert (np.abs(counts - truth) < 5 * np.array(spread)).all()
    estimate = oracle.estimate(oracle.summarize(reports))
    np.testing.assert_allclose(estimate.mean, counts / users)
    dense = oracle.debias(reports)
    np.testing.assert_allclose(dense.sum(axis=0), counts, rtol=1e-9)
    np.testing.assert_allclose((dense**2).sum(axis=0), oracle.summarize(reports).sum_of_squares)
    assert np.abs(dense).max() <= oracle.bound


@each
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1.0, 12.0, 1e300, -1e300, 2.5])
def test_what_is_no_item_gives_a_valid_report_from_as_many_words(oracle, bad):
    good, odd = Recorder(), Recorder()
    valid = oracle.randomize(some_values(oracle, 30), good)
    reports = oracle.randomize(np.full((30, oracle.width), bad), odd)
    assert oracle.well_formed(reports, 30) and oracle.well_formed(valid, 30)
    assert good.shapes == odd.shapes
    centre = oracle.randomize(np.full((30, oracle.width), oracle.centre), Recorder())
    np.testing.assert_array_equal(reports, centre)


@each
def test_what_is_no_item_counts_as_a_random_one(oracle):
    users = 50_000
    values = np.full((users, oracle.width), np.nan)
    mean = oracle.mean(oracle.randomize(values, np.random.default_rng(4)))
    share = oracle.width / 12
    spread = math.sqrt((oracle.variance_at(share) + share) / users)
    assert (np.abs(mean - share) < 5 * spread).all()


@each
def test_a_users_report_does_not_depend_on_the_others(oracle):
    values = some_values(oracle, 50)
    before = oracle.randomize(values, keyed(50))
    for changed in (11.0, np.nan, 1e300):
        values[20, 0] = changed
        after = oracle.randomize(values, keyed(50))
        np.testing.assert_array_equal(np.delete(after, 20, axis=0), np.delete(before, 20, axis=0))


@each
def test_how_many_users_are_randomised_at_a_time_does_not_matter(oracle, monkeypatch):
    values = some_values(oracle, 50)
    whole = oracle.randomize(values, keyed(50))
    monkeypatch.setattr("ldp_flower.randomizers.base._BLOCK_ENTRIES", 35)
    np.testing.assert_array_equal(oracle.randomize(values, keyed(50)), whole)


@each
def test_summaries_of_parts_add_up_and_are_accepted(oracle):
    reports = oracle.randomize(some_values(oracle, 40), keyed(40))
    coins = public_coins(40)
    whole = oracle.summarize(reports, coins)
    both = oracle.summarize(reports[:15], coins[:15]) + oracle.summarize(reports[15:], coins[15:])
    assert both.count == whole.count == 40
    np.testing.assert_allclose(both.sum, whole.sum, rtol=1e-12, atol=1e-9)
    assert oracle.accepts(whole, coins) and oracle.accepts(both, coins)
    assert oracle.accepts(Summary.empty(12), coins)
    assert oracle.accepts(oracle.summarize(reports[:15], coins[:15]), coins)
    assert not oracle.accepts(whole, coins[:39])


@each
def test_summaries_that_no_reports_can_have_are_refused(oracle):
    good = oracle.summarize(oracle.randomize(some_values(oracle, 40), keyed(40)))
    coins, unit = public_coins(40), np.eye(12)[0]
    for total, squares in (
        (good.sum + 41 * oracle.bound, good.sum_of_squares),
        (good.sum * np.nan, good.sum_of_squares),
        (good.sum, -good.sum_of_squares),
        (good.sum, good.sum_of_squares * 1.001),
        (good.sum + unit * 0.5 / oracle._gap, good.sum_of_squares),
        (good.sum[:-1], good.sum_of_squares),
    ):
        assert not oracle.accepts(Summary(40, total, squares), coins)
    support = np.rint(good.sum * oracle._gap + 40 * float(oracle.other))
    assert oracle.accepts(oracle._summary(40, support), coins)
    assert not oracle.accepts(oracle._summary(40, support + 41 * unit), coins)
    assert not oracle.accepts(oracle._summary(40, support + unit / 2), coins)
    assert oracle.accepts(oracle._summary(40, support + unit), coins) == (
        oracle.support_size is None
    )


@each
def test_it_survives_a_configuration(oracle):
    assert randomizer_from_config(oracle.to_config()) == oracle
    assert oracle.exact


@pytest.mark.parametrize("oracle", SINGLE)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"domain_size": 1}, "2 <= domain_size <= 1048576, got 1"),
        ({"domain_size": 2.5}, "Expected a number for .* domain_size, got 2.5"),
        ({"epsilon": math.nan}, "Expected 1e-06 <= epsilon <= 100, got nan"),
        ({"noise": 0.0}, "Expected .* parameters"),
    ],
)
def test_bad_parameters_are_refused(oracle, change, message):
    with pytest.raises(ValueError, match=message):
        randomizer_from_config(oracle(1.0, 5).to_config() | change)


@pytest.mark.parametrize("kind", SINGLE)
@settings(max_examples=15, deadline=None)
@given(
    epsilon=st.sampled_from([1e-3, 50.0]) | st.floats(1e-3, 50),
    domain_size=st.sampled_from([2, 3, 65_536]) | st.integers(2, 65_536),
)
def test_extreme_parameters_stay_finite(kind, epsilon, domain_size):
    oracle = kind(epsilon, domain_size)
    assert 0 < oracle.other < oracle.own < 1
    assert 0 < oracle.variance < math.inf and 0 < oracle.variance_at(1.0) < math.inf
    reports = oracle.randomize([[0.0], [domain_size - 1.0], [np.nan]], np.random.default_rng(0))
    assert oracle.well_formed(reports, 3)
    assert oracle.accepts(oracle.summarize(reports), public_coins(3))


@pytest.mark.parametrize("kind", SINGLE)
def test_no_reports(kind):
    oracle = kind(1.0, 9)
    reports = oracle.randomize(np.zeros((0, 1)), np.random.default_rng(0))
    assert oracle.well_formed(reports, 0)
    np.testing.assert_array_equal(oracle.counts(reports), np.zeros(9))
