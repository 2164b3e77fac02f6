import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ldp_flower.randomizers import SubsetSelection
from ldp_flower.randomizers.items.subset import best_report_size
from ldp_flower.randomness import NumpyRandom

WORDS = 2**64


def bounds(oracle):
    """Return bounds of the probabilities of a report, (least, most) for both kinds.

    They are the products of item 2 of the guarantee, in units of 1 / C(d - k, w - 1).
    """
    d, k, w, t = oracle.domain_size, oracle.set_size, oracle.report_items, oracle.threshold
    sizes, size = [], Fraction(1)  # C(d - 1 - i, w - 1) for i from k - 1 down to 0
    for i in reversed(range(k)):
        sizes.insert(0, size)
        size *= Fraction(d - i, d - i - w + 1)
    starts = [0, *oracle._ends]
    each = [
        Fraction(end - start, WORDS) / size
        for start, end, size in zip(starts, starts[1:], sizes, strict=False)
    ]
    error = Fraction(w * d, WORDS)  # (1 +- d / 2**64)**w, to within its square
    low, high = 1 - error, 1 + error + error**2
    met, missed = Fraction(t, WORDS), Fraction(WORDS - t, WORDS) / Fraction(d - k - w + 1, w)
    return (met * min(each) * low, met * max(each) * high), (missed * low, missed * high)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(1e-3, 50),
    st.sampled_from([2, 3, 65_536]) | st.integers(2, 500) | st.integers(2, 65_536),
    st.sampled_from([1, 2, 4, 64]) | st.integers(1, 200),
)
@example(1e-6, 1 << 20, 1)
@example(1e-3, 65_536, 1)
@example(1e-3, 65_536, 64)
@example(1e-3, 500, 499)
@example(1e-3, 65, 64)
@example(1.0, 128, 64)
def test_the_bound_on_the_log_ratio_is_epsilon(epsilon, domain_size, set_size):
    assume(set_size < domain_size)
    oracle = SubsetSelection(epsilon, domain_size, set_size)
    (least_met, most_met), (least_missed, most_missed) = bounds(oracle)
    with localcontext() as context:
        context.prec = 50

        def log(ratio):
            return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()

        claim = Decimal(epsilon)
        assert log(most_met / least_missed) <= claim
        if epsilon <= 20 and domain_size <= 65_536:
            assert log(most_met / least_missed) >= claim - Decimal("1e-9")
        assert log(most_missed / least_met) <= claim
        assert max(log(most_met / least_met), log(most_missed / least_missed)) < claim / 2
    selected = np.diff(np.array([0, *oracle._ends], object))
    assert min(selected) * 4 * set_size >= WORDS


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("domain_size", [2, 5, 64, 1024])
def test_one_item_takes_the_classical_optimum(epsilon, domain_size):
    oracle = SubsetSelection(epsilon, domain_size)
    d, w, e = domain_size, oracle.report_items, math.exp(epsilon)
    assert abs(w - d / (e + 1)) < 1 or w == 1
    # Ye & Barg (2018): total variance of the counts over the domain
    own = w * e / (w * e + d - w)
    other = (w * (w - 1) * e + w * (d - w)) / ((d - 1) * (w * e + d - w))
    assert float(oracle.own) == pytest.approx(own, rel=1e-9)
    assert float(oracle.other) == pytest.approx(other, rel=1e-9)
    assert oracle.variance == pytest.approx(other * (1 - other) / (own - other) ** 2, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "domain_size", "set_size"),
    [(4.0, 256, 4), (4.0, 1024, 4), (1.5, 256, 8), (1.0, 64, 16), (4.0, 256, 2), (1.0, 10, 6)],
)
def test_a_set_vote_has_the_published_probabilities_and_size(epsilon, domain_size, set_size):
    oracle = SubsetSelection(epsilon, domain_size, set_size)
    d, k, e = domain_size, set_size, math.exp(epsilon)

    def law(w):
        meets = 1 - math.comb(d - k, w) / math.comb(d, w)
        level = 1 / (1 + meets * (e - 1))
        rest = (1 - meets) * w / (d - k)
        return level * e * w / d, level * (e * (w / d - rest) + rest)

    def score(w):
        own, other = law(w)
        share = max(0.15, 2 * k / d)
        null, found = k / d * own + (1 - k / d) * other, share * own + (1 - share) * other
        return (found - null) / (
            math.sqrt(null * (1 - null)) + 0.6 * math.sqrt(found * (1 - found))
        )

    assert oracle.report_items == max(range(1, d - k + 1), key=score)
    assert (float(oracle.own), float(oracle.other)) == pytest.approx(law(oracle.report_items))


@pytest.mark.parametrize(("domain_size", "set_size"), [(40, 1), (40, 5), (5000, 3)])
def test_reports_meet_the_set_as_often_as_stated_and_are_uniform_otherwise(domain_size, set_size):
    oracle, users = SubsetSelection(1.0, domain_size, set_size), 4_000
    value = np.linspace(0, domain_size - 1, set_size).round()
    reports = oracle.randomize(np.tile(value, (users, 1)), np.random.default_rng(0))
    assert oracle.well_formed(reports, users)
    meets = np.isin(reports, value).any(axis=1).mean()
    p = oracle.threshold / WORDS
    assert abs(meets - p) < 5 * math.sqrt(p * (1 - p) / users)
    support = np.bincount(reports.ravel(), minlength=domain_size) / users
    held = np.isin(np.arange(domain_size), value)
    expected = np.where(held, float(oracle.own), float(oracle.other))
    # 5.5 standard errors over some 5,000 items: fails by chance once in 5e3
    assert (np.abs(support - expected) < 5.5 * np.sqrt(expected * (1 - expected) / users)).all()


def test_sets_are_filled_up_with_random_items():
    oracle, users = SubsetSelection(1.0, 8, 4), 40_000
    value = np.array([6.0, 2.5, 6.0, 0.0])
    words = NumpyRandom(np.random.default_rng(1)).words((users, 4))
    sets = oracle._sets(np.tile(value, (users, 1)), words)
    assert (np.diff(sets, axis=1) < 0).all() and ((sets >= 0) & (sets < 8)).all()
    shares = np.bincount(sets.ravel(), minlength=8) / users
    assert shares[0] == shares[6] == 1
    # two of the six other items
    assert np.abs(np.delete(shares, [0, 6]) - 1 / 3).max() < 5 * math.sqrt(2 / 9 / users)
    valid = np.array([[7.0, 1.0, 0.0, 3.0]])
    np.testing.assert_array_equal(oracle._sets(valid, words[:1]), [[7, 3, 1, 0]])


def test_the_order_of_a_set_does_not_matter():
    oracle = SubsetSelection(2.0, 30, 3)
    some = oracle.randomize([[4.0, 20.0, 9.0]] * 20, np.random.default_rng(3))
    same = oracle.randomize([[20.0, 9.0, 4.0]] * 20, np.random.default_rng(3))
    np.testing.assert_array_equal(some, same)


def test_reports_that_are_no_ascending_items_are_refused():
    oracle = SubsetSelection(1.0, 12)
    good = np.array([[1, 5, 11]], np.uint8)
    assert oracle.report_items == 3 and oracle.well_formed(good, 1)
    for bad in ([1, 5, 12], [5, 1, 11], [1, 1, 11]):
        assert not oracle.well_formed(np.array([bad], np.uint8), 1)


@pytest.mark.parametrize(
    ("domain_size", "set_size", "message"),
    [
        (1, 1, "Expected an integer 2 <= domain_size <= 1048576, got 1"),
        (2**21, 1, "Expected an integer 2 <= domain_size <= 1048576, got 2097152"),
        (5, 5, "Expected an integer 1 <= set_size <= 4, got 5"),
        (5, 0, "Expected an integer 1 <= set_size <= 4, got 0"),
        (2**20, 65, "Expected an integer 1 <= set_size <= 64, got 65"),
        (2**14, 1025, "Expected an integer 1 <= set_size <= 1024, got 1025"),
    ],
)
def test_bad_sizes_are_refused(domain_size, set_size, message):
    with pytest.raises(ValueError, match=message):
        SubsetSelection(1.0, domain_size, set_size)


def test_a_larger_epsilon_needs_smaller_reports():
    sizes = [best_report_size(epsilon, 1024, 1) for epsilon in (0.01, 1.0, 2.0, 4.0, 8.0, 50.0)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == 509 and sizes[-1] == 1
