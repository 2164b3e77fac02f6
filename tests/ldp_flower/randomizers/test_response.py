import math
from decimal import Decimal

import numpy as np
import pytest

from ldp_flower.randomizers import RandomizedResponse


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
def test_the_two_outputs_have_the_ratio_of_epsilon_at_the_ends(epsilon):
    log_ratio = RandomizedResponse(epsilon)._choice.log_ratio
    assert Decimal(epsilon) - Decimal("1e-9") <= log_ratio <= Decimal(epsilon)


@pytest.mark.parametrize("value", [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_mean_and_variance(epsilon, value):
    mechanism = RandomizedResponse(epsilon, radius=2.0)
    users = 200_000
    reports = mechanism.randomize(np.full((users, 1), value), np.random.default_rng(5))
    debiased = mechanism.debias(reports)[:, 0]
    clipped = min(max(value, -2.0), 2.0)
    b = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    assert mechanism.bound == pytest.approx(2 * b)
    assert abs(debiased.mean() - clipped) < 5 * mechanism.bound / math.sqrt(users)
    assert debiased.var() == pytest.approx(4 * b * b - clipped**2, rel=0.02)
    assert mechanism.variance == pytest.approx(4 * b * b)
