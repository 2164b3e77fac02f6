import math

import numpy as np
import pytest
from scipy.linalg import hadamard

from ldp_flower.randomizers import HadamardResponse, SubsetSelection


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_variance_is_that_of_the_literature(epsilon):
    e = math.exp(epsilon)
    for domain_size in (2, 1024):
        oracle = HadamardResponse(epsilon, domain_size)
        assert oracle.variance == pytest.approx(((e + 1) / (e - 1)) ** 2, rel=1e-9)
        assert oracle.variance_at(1.0) == pytest.approx(oracle.variance - 1, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("domain_size", [2, 3, 4, 8, 100, 1024])
def test_subset_selection_has_less_variance_than_any_number_of_blocks(epsilon, domain_size):
    chosen, e = SubsetSelection(epsilon, domain_size), math.exp(epsilon)
    oracle = HadamardResponse(epsilon, domain_size)
    assert chosen.variance_at(1 / domain_size) < oracle.variance_at(1 / domain_size)
    # The block form, for blocks that are equally popular; one block is the form here
    blocks = [(e + 2 * b - 1) ** 2 / b / (e - 1) ** 2 for b in 2 ** np.arange(11)]
    assert blocks[0] == pytest.approx(oracle.variance)
    assert chosen.variance < min(blocks)


@pytest.mark.parametrize(("domain_size", "order"), [(2, 4), (3, 4), (4, 8), (7, 8), (1024, 2048)])
def test_order_is_the_power_of_two_above_the_domain(domain_size, order):
    oracle = HadamardResponse(1.0, domain_size)
    assert oracle.order == order
    assert oracle.contains(np.array([order - 1], oracle.report_dtype))
    if order < 256:
        assert not oracle.contains(np.array([order], np.uint8))


@pytest.mark.parametrize("domain_size", [2, 3, 5, 16, 100])
def test_support_is_read_off_the_matrix(domain_size):
    oracle = HadamardResponse(1.0, domain_size)
    reports = np.random.default_rng(0).integers(0, oracle.order, 300).astype(oracle.report_dtype)
    matrix = hadamard(oracle.order)[1 : domain_size + 1]
    coins = np.zeros(300, np.uint64)
    supports = (matrix[:, reports] == 1).T
    np.testing.assert_array_equal(oracle._supports(reports, coins), supports)
    np.testing.assert_array_equal(oracle._support(reports, coins), supports.sum(axis=0))


def test_a_large_epsilon_always_reports_a_positive_column():
    oracle = HadamardResponse(50.0, 65_536)
    items = np.random.default_rng(1).integers(0, 65_536, 500)
    reports = oracle.randomize(items[:, None], np.random.default_rng(2)).astype(np.int64)
    assert (np.bitwise_count(reports & (items + 1)) % 2 == 0).all()
    assert oracle.report_bytes == 4
