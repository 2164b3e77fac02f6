import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from word_sources import Fixed

from ldp_flower.randomizers import TwoLevel
from ldp_flower.randomness import NumpyRandom

WORDS = 2**64


@given(
    st.floats(1e-3, 50),
    st.integers(1, 65_536),
    st.integers(1, 65_536),
)
@example(20.0, 76, 1)
def test_the_realised_ratio_never_exceeds_the_claim(epsilon, likely, unlikely):
    choice = TwoLevel(epsilon, likely, unlikely)
    log_ratio = choice.log_ratio  # to 60 digits
    assert log_ratio <= Decimal(epsilon)
    if epsilon <= 20:
        one_word_more = Decimal(2) / (WORDS - choice.threshold)
        assert log_ratio >= Decimal(epsilon) - Decimal("1e-9") - one_word_more


@given(st.floats(1e-3, 50), st.integers(1, 65_536), st.integers(1, 65_536))
def test_the_reverse_ratios_are_covered_too(epsilon, likely, unlikely):
    choice = TwoLevel(epsilon, likely, unlikely)
    t = choice.threshold
    assert 0 < t < WORDS
    bound = Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**12))
    most_unlikely = (WORDS - t) * -(-WORDS // unlikely)
    least_likely = t * (WORDS // likely)
    assert most_unlikely <= bound * least_likely
    # within a set only the remainder of a division differs
    assert -(-WORDS // likely) <= bound * (WORDS // likely)


def test_the_threshold_is_where_it_is_said_to_be():
    choice = TwoLevel(1.0, 3, 5)
    t = choice.threshold
    likely, index = choice.draw(Fixed([[0, 4], [t - 1, 5], [t, 4], [WORDS - 1, 9]]), 4)
    assert likely.tolist() == [True, True, False, False]
    assert index.tolist() == [1, 2, 4, 4]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_draws_follow_the_stated_probabilities(epsilon):
    choice = TwoLevel(epsilon, 2, 5)
    likely, index = choice.draw(NumpyRandom(np.random.default_rng(1)), 200_000)
    p = choice.probability
    assert abs(likely.mean() - p) < 5 * math.sqrt(p * (1 - p) / 200_000)
    for chosen, size in ((index[likely], 2), (index[~likely], 5)):
        counts = np.bincount(chosen.astype(int), minlength=size)
        spread = math.sqrt(len(chosen) / size * (1 - 1 / size))
        assert np.abs(counts - len(chosen) / size).max() < 5 * spread
