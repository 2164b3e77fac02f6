"""Numbers in few digits, and what epsilon means."""

import math
import re

import numpy as np
import pytest

from ldp_flower.presentation.words import guarantee, number, numbers, percentage, to_error


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (1234567, "1,234,567"),
        (np.int64(1234), "1,234"),
        (1234.5678, "1,235"),
        (0.00123456, "0.001235"),
        (1.5e12, "1.5e+12"),
        (math.nan, "–"),
        (None, "–"),
        (math.inf, "inf"),
        (True, "yes"),
        ("7", "7"),
    ],
)
def test_a_number(value, told):
    assert number(value) == told


def test_a_column_has_as_many_decimals_each():
    assert numbers([0.7482, 0.00159, -0.00099, math.nan]) == ["0.7482", "0.0016", "-0.0010", "–"]
    assert numbers([12345.6, 27.0]) == ["12,346", "27"]
    assert numbers([1e-6, 3.0]) == ["1e-06", "3"]
    assert numbers(["a", 1.0]) == ["a", "1"]
    assert percentage(0.12345) == "12.3 %"


def test_a_zero_has_no_sign():
    assert number(-0.0) == "0" and percentage(-0.0) == "0 %"
    assert numbers([-0.0, -1e-5, 1.0]) == ["0", "-1e-05", "1"]
    assert numbers([-0.0, 1.0]) == ["0.000", "1.000"]
    assert to_error(-0.04, 1.5) == "0.0" and to_error(-4.0, 150.0) == "0"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_the_promise_is_the_best_guess_between_two_possibilities(epsilon, delta):
    """Two densities that differ as much as is allowed: with probability delta all is told,
    else one of two answers is, by randomised response.
    """
    share_of_coin = (1 - delta) / (1 + math.exp(epsilon))
    best = delta + (1 - delta) - share_of_coin
    told = guarantee(epsilon, delta, "user")
    assert float(re.search(r"at most ([\d.]+) %", told)[1]) == pytest.approx(100 * best, rel=5e-3)
    assert ("delta" in told) == (delta > 0)


@pytest.mark.parametrize("epsilon", [8.0, 1000.0])
def test_a_large_epsilon_promises_little(epsilon):
    assert "nearly always" in guarantee(epsilon, 0.0, "silo")


def test_who_is_protected_in_part():
    told = guarantee(1.0, 0.0, "user", "labels")
    assert told.startswith("Each user (labels only) is protected with epsilon 1:")
    assert "two versions of one user's labels" in told
