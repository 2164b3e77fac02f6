"""Optimized unary encoding, which the library's oracles are compared with."""

import importlib
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest


@pytest.fixture
def oue(repository_on_the_path):
    """The mechanism, which is in the repository only."""
    return importlib.import_module("simulations.benchmarks.unary").OptimizedUnaryEncoding


@pytest.mark.parametrize("epsilon", np.geomspace(1e-3, 50, 30))
def test_the_bits_of_other_items_are_rounded_to_the_safe_side(oue, epsilon):
    oracle = oue(epsilon, 5)
    with localcontext() as context:
        context.prec = 50
        ratio = (1 - oracle.other) / oracle.other
        log_ratio = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
        assert log_ratio <= Decimal(epsilon)
        if epsilon <= 15:
            slack = Decimal("1e-7") if epsilon <= 4 else Decimal("1e-3")
            assert log_ratio >= Decimal(epsilon) - slack
    one_less = oracle.other - Fraction(1, 2**32)
    assert float(one_less) < 1 / (math.exp(epsilon) + 1)


@pytest.mark.parametrize("epsilon", [1e-3, 0.04, 0.05, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_variance_is_that_of_the_literature(oue, epsilon):
    expected = 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2
    oracle = oue(epsilon, 100)
    assert oracle.variance == pytest.approx(expected, rel=1e-5)
    assert oracle.variance_at(1.0) == pytest.approx(expected + 1, rel=1e-5)


@pytest.mark.parametrize("domain_size", [2, 7, 8, 9, 13, 1000])
def test_bits_are_packed_and_counted_item_by_item(oue, domain_size):
    oracle = oue(1.0, domain_size)
    users = 700  # more than fit into a byte
    items = np.arange(users)[:, None] % domain_size
    reports = oracle.randomize(items, np.random.default_rng(0))
    assert reports.shape == (users, math.ceil(domain_size / 8))
    bits = [[report[i // 8] >> (7 - i % 8) & 1 for i in range(domain_size)] for report in reports]
    coins = np.zeros(users, np.uint64)
    np.testing.assert_array_equal(oracle._supports(reports, coins), bits)
    np.testing.assert_array_equal(oracle._support(reports, coins), np.sum(bits, axis=0))
    everything = np.packbits(np.ones((users, domain_size), np.uint8), axis=1)
    assert (oracle._support(everything, coins) == users).all()


def test_bits_after_the_last_item_are_refused(oue):
    oracle = oue(1.0, 13)
    assert oracle.well_formed(np.array([[255, 0b11111000]], np.uint8), 1)
    for bit in (1, 2, 4):
        assert not oracle.well_formed(np.array([[0, bit]], np.uint8), 1)
    assert oue(1.0, 16).well_formed(np.array([[255, 255]], np.uint8), 1)
