"""What holds for every mechanism in the registry."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ldp_flower.randomizers import (
    Codebook,
    GaussianMechanism,
    HybridMechanism,
    PiecewiseMechanism,
    RandomizedResponse,
    RecordGaussian,
    RecordPeeling,
    RecordVertices,
    SubsetHypercube,
    Summary,
    randomizer_from_config,
)
from ldp_flower.randomness import KeyedRandom, SystemRandom, derive

MECHANISMS = [
    Codebook(1.0, 5, radius=2.0, num_codewords=16),
    GaussianMechanism(1.0, 5, radius=2.0),
    HybridMechanism(1.0, radius=2.0),
    PiecewiseMechanism(1.0, radius=2.0),
    RandomizedResponse(1.0, radius=2.0),
    RecordGaussian(1.0, 5, radius=2.0),
    RecordPeeling(1.0, 5, radius=2.0, sparsity=2),
    RecordVertices(1.0, 5, radius=2.0),
    SubsetHypercube(2.0, 5, radius=2.0),
]
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)


def keyed(users, seed=0):
    return KeyedRandom(derive(seed, np.arange(users, dtype=np.uint64)))


@each
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_input_gives_a_valid_report_of_fixed_size(mechanism, data):
    extreme = st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, 1e9])
    shape = (3, mechanism.width)
    values = data.draw(arrays(np.float64, shape, elements=extreme | st.floats(-3, 3)))
    reports = mechanism.randomize(values, keyed(3))
    assert mechanism.well_formed(reports, 3)
    assert np.isfinite(mechanism.debias(reports)).all()


@each
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_reports_like_the_centre(mechanism, bad):
    values = np.zeros((4, mechanism.width))
    centre = mechanism.randomize(values, keyed(4))
    values[2, 0] = bad
    np.testing.assert_array_equal(mechanism.randomize(values, keyed(4)), centre)


@each
def test_values_outside_the_domain_report_like_its_border(mechanism):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((50, mechanism.width))
    values *= 2.0 / np.linalg.norm(values, axis=1, keepdims=True)
    if (
        isinstance(mechanism, SubsetHypercube | RecordPeeling | RecordVertices)
        or mechanism.width == 1
    ):
        values = np.sign(values) * 2.0
    same = mechanism.randomize(values, keyed(50))
    far = mechanism.randomize(values * 1e6, keyed(50))
    np.testing.assert_allclose(far.astype(float), same.astype(float), rtol=1e-4, atol=1e-4)


@each
def test_the_callers_values_are_left_as_they_are(mechanism):
    values = np.full((5, mechanism.width), 1e200)
    values[1], values[2, 0] = -1e308, np.nan
    values.flags.writeable = False  # writing to them would raise
    before = values.copy()
    mechanism.randomize(values, keyed(5))
    mechanism.randomize(values[3:], keyed(2))
    np.testing.assert_array_equal(values, before)


@each
def test_overflow_says_nothing_even_where_it_is_an_error(mechanism):
    # A radius chosen by a hostile server can make a division overflow for some values only.
    hostile = replace(mechanism, radius=1e-30 if hasattr(mechanism, "plan") else 1e-300)
    values = np.full((2, mechanism.width), 1e20)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        reports = hostile.randomize(values, keyed(2))
    assert reports.shape == (2, *mechanism.report_shape)


@each
def test_a_users_report_does_not_depend_on_the_others(mechanism):
    rng = np.random.default_rng(1)
    values = rng.standard_normal((50, mechanism.width))
    before = mechanism.randomize(values, keyed(50))
    values[20] = 1e9
    after = mechanism.randomize(values, keyed(50))
    np.testing.assert_array_equal(np.delete(after, 20, axis=0), np.delete(before, 20, axis=0))


@each
def test_how_many_users_are_randomised_at_a_time_does_not_matter(mechanism, monkeypatch):
    rng = np.random.default_rng(2)
    values = rng.standard_normal((50, mechanism.width))
    values[[7, 30], -1] = np.nan
    whole = mechanism.randomize(values, keyed(50))
    monkeypatch.setattr("ldp_flower.randomizers.base._BLOCK_ENTRIES", 35)
    np.testing.assert_array_equal(mechanism.randomize(values, keyed(50)), whole)
    for source in (SystemRandom(), rng):
        assert mechanism.well_formed(mechanism.randomize(values, source), 50)
    with pytest.raises(ValueError, match="Expected 50 coins, one per user, got 51"):
        mechanism.randomize(values, keyed(50), derive(np.arange(51, dtype=np.uint64)))


@each
def test_summaries_of_parts_add_up_and_are_accepted(mechanism):
    reports = mechanism.randomize(np.ones((40, mechanism.width)), keyed(40))
    coins = derive(np.arange(40, dtype=np.uint64))
    whole = mechanism.summarize(reports, coins)
    first = mechanism.summarize(reports[:15], coins[:15])
    both = first + mechanism.summarize(reports[15:], coins[15:])
    assert both.count == whole.count == 40
    # To the last bit, in whatever order: sums are exact.
    np.testing.assert_array_equal(both.sum, whole.sum)
    backwards = mechanism.summarize(reports[::-1], coins[::-1])
    np.testing.assert_array_equal(backwards.sum, whole.sum)
    assert mechanism.accepts(whole, coins)
    assert mechanism.accepts(both, np.concatenate([coins, coins]))  # some did not answer
    assert not mechanism.accepts(whole, coins[:39])
    np.testing.assert_array_equal(mechanism.mean(reports), mechanism.estimate(whole).mean)


@each
def test_summaries_that_no_reports_can_have_are_refused(mechanism):
    reports = mechanism.randomize(np.ones((40, mechanism.width)), keyed(40))
    coins = derive(np.arange(40, dtype=np.uint64))
    good = mechanism.summarize(reports, coins)
    bound = mechanism.bound
    for total, squares in (
        (good.sum + 41 * bound, good.sum_of_squares),
        (good.sum * np.nan, good.sum_of_squares),
        (good.sum, -good.sum_of_squares),
        (good.sum, good.sum_of_squares * np.inf),
        (good.sum, good.sum_of_squares + 41 * bound**2),
        (good.sum[:-1], good.sum_of_squares),
        (good.sum.astype(np.uint8), good.sum_of_squares.astype(np.uint8)),
        (np.full_like(good.sum, bound * 39), good.sum_of_squares * 1e-3),
    ):
        assert not mechanism.accepts(Summary(40, total, squares), coins)


@each
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_forged_report_is_refused_or_counts_no_more_than_an_honest_one(mechanism, data):
    dtype = mechanism.report_dtype
    honest = mechanism.randomize(np.zeros((3, mechanism.width)), keyed(3))
    forged = honest.copy()
    change = data.draw(
        st.sampled_from(
            [lambda a: a, np.negative, np.zeros_like, lambda a: 2 * a, lambda a: 100 * a]
        )
    )
    with np.errstate(all="ignore"):
        forged[0] = change(forged[0])
    if data.draw(st.booleans()):
        raw = data.draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize))
        forged.reshape(3, -1)[1, -1] = np.frombuffer(raw, dtype)[0]
    if not mechanism.well_formed(forged, 3):
        return
    if mechanism.summable:
        for user in range(3):
            coins = np.arange(3, dtype=np.uint64)[user : user + 1]
            added = mechanism.summarize(forged[user : user + 1], coins)
            assert mechanism.accepts(added, coins)
            assert np.abs(added.sum).max() <= mechanism.bound * (1 + 1e-6)
    for wrong in (forged[:2], forged[..., None], forged.astype(np.complex128)):
        assert not mechanism.well_formed(wrong, 3)


@each
def test_it_survives_a_configuration(mechanism):
    assert randomizer_from_config(mechanism.to_config()) == mechanism


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Identity"}, "Expected a randomizer in"),
        ({"name": 3}, "Expected a randomizer in"),
        ({"epsilon": 0.0}, "Expected 1e-06 <= epsilon <= 100, got 0.0"),
        ({"epsilon": -1.0}, "Expected 1e-06 <= epsilon <= 100, got -1.0"),
        ({"epsilon": math.nan}, "Expected 1e-06 <= epsilon <= 100, got nan"),
        ({"epsilon": math.inf}, "Expected 1e-06 <= epsilon <= 100, got inf"),
        ({"epsilon": "1"}, "Expected a number for SubsetHypercube epsilon, got '1'"),
        ({"epsilon": True}, "Expected a number for SubsetHypercube epsilon, got True"),
        ({"dim": 0}, "Expected an integer dim >= 1, got 0"),
        ({"dim": 2.5}, "Expected a number for SubsetHypercube dim, got 2.5"),
        ({"radius": 0.0}, "Expected radius > 0 and finite, got 0.0"),
        ({"radius": math.nan}, "Expected radius > 0 and finite, got nan"),
        ({"noise": 0.0}, "Expected SubsetHypercube parameters"),
    ],
)
def test_the_registry_is_closed(change, message):
    config = SubsetHypercube(2.0, 5).to_config() | change
    with pytest.raises(ValueError, match=message):
        randomizer_from_config(config)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"Expected values of shape \(users, 5\), got \(5,\)"):
        Codebook(1.0, 5).randomize(np.ones(5), np.random.default_rng(0))


@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 7.0, 50.0])
@pytest.mark.parametrize("dim", [1, 2, 17, 1000, 65_536])
@pytest.mark.parametrize("cls", [Codebook, GaussianMechanism, SubsetHypercube])
def test_no_parameter_overflows_or_loses_the_signal(cls, dim, epsilon):
    mechanism = cls(epsilon, dim)
    reports = mechanism.randomize(np.ones((2, dim)), keyed(2))
    assert mechanism.well_formed(reports, 2)
    debiased = mechanism.debias(reports)
    assert np.isfinite(debiased).all() and np.abs(debiased).max() > 0
    assert np.isfinite(mechanism.variance) and mechanism.variance > 0
    # Noise in the whole vector shrinks with epsilon and never below the value itself.
    assert mechanism.variance < cls(epsilon / 2, dim).variance
