import math

import numpy as np
import pytest

from ldp_flower.randomizers import KRandomizedResponse


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("domain_size", [2, 5, 1024, 65_536])
def test_variance_is_that_of_the_literature(epsilon, domain_size):
    oracle = KRandomizedResponse(epsilon, domain_size)
    e = math.exp(epsilon)
    assert oracle.variance == pytest.approx((e + domain_size - 2) / (e - 1) ** 2, rel=1e-9)
    # Kairouz et al.: at frequency f, f (d - 2) / (e^eps - 1) more
    more = 0.3 * (domain_size - 2) / (e - 1)
    assert oracle.variance_at(0.3) == pytest.approx(oracle.variance + more, rel=1e-9)


@pytest.mark.parametrize(("domain_size", "size"), [(2, 1), (256, 1), (257, 2), (65_536, 2)])
def test_a_report_is_an_item_in_as_few_bytes_as_possible(domain_size, size):
    oracle = KRandomizedResponse(1.0, domain_size)
    assert oracle.report_bytes == size
    reports = np.array([domain_size - 1], oracle.report_dtype)
    assert oracle.well_formed(reports, 1)
    if domain_size not in (256, 65_536):
        assert not oracle.contains(reports + 1)


def test_large_domains_wrap_nowhere():
    oracle = KRandomizedResponse(50.0, 65_536)
    items = np.array([[0.0], [1.0], [65_534.0], [65_535.0]])
    reports = oracle.randomize(items, np.random.default_rng(0))
    np.testing.assert_array_equal(reports, items[:, 0])  # kept but for 65,535 in e^50
