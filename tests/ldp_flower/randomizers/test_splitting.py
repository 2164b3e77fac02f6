from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_flower.randomizers import (
    Codebook,
    Composed,
    GaussianMechanism,
    KRandomizedResponse,
    OptimizedLocalHashing,
    RandomizedResponse,
    SubsetHypercube,
    split_epsilon,
)


def number(epsilon):
    return RandomizedResponse(epsilon)


def vector(epsilon):
    return Codebook(epsilon, 16)


def item(epsilon):
    return KRandomizedResponse(epsilon, 20)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([0.3, 100.0]) | st.floats(0.01, 100),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5),
)
def test_the_parts_never_cost_more_than_is_there(epsilon, weights):
    shares = split_epsilon(epsilon, [number] * len(weights), weights)
    total = sum(map(Fraction, shares))
    assert Fraction(epsilon) * (1 - Fraction(1, 2**48)) <= total <= Fraction(epsilon)
    assert Composed(tuple(map(number, shares))).epsilon <= epsilon


def test_little_privacy_loss_is_divided_by_cube_roots():
    # One number with weights 1, 8 and 27: shares 1, 2 and 3 sixths.
    shares = split_epsilon(0.06, [number] * 3, [1, 8, 27])
    assert shares == pytest.approx((0.01, 0.02, 0.03), rel=5e-3)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (number, vector),
        (vector, item),
        (lambda e: SubsetHypercube(e, 20), number),
        (lambda e: OptimizedLocalHashing(e, 30), lambda e: GaussianMechanism(e, 8)),
    ],
)
def test_no_other_division_of_two_parts_is_much_better(epsilon, first, second):
    def cost(share):
        return sum(part.size * part.variance for part in (first(share), second(epsilon - share)))

    found = cost(split_epsilon(epsilon, [first, second])[0])
    best = min(cost(share) for share in epsilon * np.linspace(0.02, 0.98, 97))
    assert found <= 1.02 * best


def test_equal_parts_get_equal_shares():
    assert split_epsilon(2.0, [number] * 4) == pytest.approx((0.5,) * 4, rel=0.02)
    assert split_epsilon(2.0, [number]) == (2.0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, [number]), "Expected epsilon > 0 and finite, got 0.0"),
        ((1.0, []), "Expected at least one part"),
        ((1.0, [number], [1.0, 2.0]), "Expected 1 weights, got 2"),
        ((1.0, [number] * 2, [1.0, 0.0]), "Expected weights > 0 and finite, got 0.0"),
        ((1e-6, [number] * 2), "Expected 1e-06 <= epsilon <= 100"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        split_epsilon(*arguments)
