"""What the ends of the uniforms mean for reports: none is out of reach of one value only."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr
from word_sources import Ends

from ldp_flower.randomizers import (
    GaussianMechanism,
    GaussianRecord,
    HybridMechanism,
    PiecewiseMechanism,
    RecordGaussian,
    RecordMechanism,
    RecordPeeling,
    RecordVertices,
)
from ldp_flower.randomizers.real_valued.gaussian import gaussian_mu
from ldp_flower.randomizers.real_valued.record_places import noisy_top
from ldp_flower.randomness import KeyedRandom, derive

LAST = 2**64 - 1
PAIRS = [(50.0, 1e-6), (100.0, 1e-6), (20.0, 1e-9), (10.0, 1e-12), (5.0, 1e-15), (1.0, 1e-90)]
LARGEST_DELTA = math.nextafter(1, 0)
each_pair = pytest.mark.parametrize(("epsilon", "delta"), [*PAIRS, (100.0, LARGEST_DELTA)])


@each_pair
@pytest.mark.parametrize("cls", [GaussianMechanism, GaussianRecord])
def test_the_ends_of_gaussian_reports_are_the_same_for_all_values(cls, epsilon, delta):
    mechanism = cls(epsilon, 2, 3.0, delta)
    values = np.array([[3.0, 0], [-3.0, 0], [0, 3.0], [0, 0], [np.nan, 0]])
    for word in (0, LAST):
        reports = mechanism.randomize(values, Ends([word]))
        assert (np.abs(reports) == np.float32(mechanism.bound)).all()
        assert (np.sign(reports) == (1 if word else -1)).all()


def test_the_farthest_values_of_a_gaussian_mechanism_are_25_deviations_apart():
    """So far its guarantee says that noise may have to reach beyond the 12 of the bound."""
    deltas = [LARGEST_DELTA, 0.9, 0.1, 1e-6, 1e-90, 1e-300]
    assert max(gaussian_mu(100.0, delta) for delta in deltas) < 25
    assert Ends([LAST]).normals((1, 1)) > 12 + 25
    assert Ends([0]).normals((1, 1)) < -12 - 25


@each_pair
@pytest.mark.parametrize("steps", [1, 100])
@pytest.mark.parametrize("cls", [RecordGaussian, RecordPeeling])
def test_sums_out_of_reach_have_less_than_a_hundredth_of_delta(cls, epsilon, delta, steps):
    dim = 1 << 20
    mechanism = cls(epsilon, dim, 3.0, delta, steps)
    small = cls(epsilon, 1, 3.0, delta, steps)
    for word, sign in ((0, -1), (LAST, 1)):
        report = small.report(np.zeros((1, 1)), np.ones(1), Ends([word]))[0, -2]
        reach = sign * float(report) / mechanism.sigma
        # One record moves a sum by 2 radius; beyond what is left of the noise lies:
        missing = log_ndtr(2 * 3.0 / mechanism.sigma - reach) + math.log(2 * dim * steps)
        assert missing < math.log(delta / 100)


@each_pair
@pytest.mark.parametrize("cls", [RecordPeeling, RecordVertices])
def test_choices_out_of_reach_have_less_than_a_hundredth_of_delta(cls, epsilon, delta):
    mechanism = cls(epsilon, 4, 3.0, delta)
    gap = 350.0  # scales of the noise by which a place that can be chosen may be behind
    scores = np.array([[0.0, gap * mechanism.scale]])
    assert noisy_top(scores, 1, mechanism.scale, Ends([LAST, 0]))[0, 0] == 0
    # One record moves two scores towards each other by 4 radius together.
    missing = 4 * 3.0 / mechanism.scale - gap + math.log(2 * (1 << 24))
    assert missing < math.log(delta / 100)


@pytest.mark.parametrize("cls", [RecordGaussian, RecordPeeling, RecordVertices])
def test_a_delta_that_the_reach_of_noise_cannot_keep_is_refused(cls):
    with pytest.raises(ValueError, match=r"Expected delta >= 1e-90, got 1e-91\."):
        cls(50.0, 4, 1.0, 1e-91)


def share_of_words(says_yes):
    """Return the share of 52-bit words, from 0 on, to which a function says yes, by halving."""
    low, high = 0, 2**52
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if says_yes(middle << 12) else (low, middle)
    return Fraction(low, 2**52)


def log_odds(share):
    with mpmath.workdps(40):
        return mpmath.log(mpmath.mpf(share.numerator) / (share.denominator - share.numerator))


@pytest.mark.parametrize("epsilon", [0.61, 1.0, 3.0, 10.0, 17.0, 29.3, 30.0])
def test_signs_and_pieces_are_drawn_with_at_most_their_odds(epsilon):
    hybrid, piecewise = HybridMechanism(epsilon), PiecewiseMechanism(epsilon)

    def positive(value):
        # First which of the two mechanisms, then the sign of the second.
        return share_of_words(
            lambda word: hybrid.randomize([[value]], Ends([LAST, word], further=LAST))[0] > 0
        )

    # The ratio for either sign and any values is at most that of the two ends.
    assert log_odds(positive(1.0)) <= epsilon
    assert -log_odds(positive(-1.0)) <= epsilon
    middle = 1 << 63  # of the piece around the value 0, and then of its surroundings
    near = share_of_words(
        lambda word: (
            abs(piecewise.randomize([[0.0]], Ends([word, middle]))[0]) < (piecewise.bound - 1) / 4
        )
    )
    assert log_odds(near) <= epsilon / 2


@pytest.mark.parametrize(
    "mechanism",
    [
        *(kind(2.0, 3, 0.7, 1e-6) for kind in (GaussianMechanism, GaussianRecord)),
        *(kind(2.0, 0.7) for kind in (HybridMechanism, PiecewiseMechanism)),
        RecordGaussian(2.0, 3, 0.7, 1e-6, 2),
        RecordPeeling(2.0, 3, 0.7, 1e-6, 2, sparsity=2),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
@pytest.mark.parametrize("size", [0.0, 0.3, 1e9])
def test_no_digit_below_the_noise_is_told(mechanism, size):
    """What noise was added to shows in the finest digits of floats: reports have none."""
    values = np.full((4000, mechanism.width), size)
    reports = mechanism.randomize(values, KeyedRandom(derive(0, np.arange(4000, dtype=np.uint64))))
    numbers = reports.astype(np.float64).reshape(4000, -1)
    if isinstance(mechanism, RecordPeeling):
        numbers = numbers[:, mechanism.sparsity :]  # behind the places
    record = isinstance(mechanism, RecordMechanism)
    largest = 37 * mechanism.sigma if record else mechanism.bound
    steps = numbers / 2.0 ** (math.floor(math.log2(largest)) + 1 - 26)
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert len(np.unique(steps)) > 1
