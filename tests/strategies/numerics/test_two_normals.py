"""The error of an AUC that is concluded from one point of its ROC curve."""

import pytest

from ldp_flower.strategies.numerics.two_normals import ranked
from ldp_flower.strategies.runtime.result import HALF_WIDTH_95


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("apart", [-0.4, 0.1, 0.5, 0.9])  # true less false positive rate
def test_an_interval_holds_the_least_area_of_a_concave_curve_through_the_point(share, apart):
    found = ranked(2 * share * (1 - share) * apart, 1e-9, share, HALF_WIDTH_95)
    lines = (1 + apart) / 2
    assert abs(found.auc - lines) <= 1.96 * found.std_error + 1e-6
    assert found.std_error < 0.1


def test_an_interval_of_a_high_auc_holds_what_two_errors_less_would_give():
    most, error = 2 * 0.25 * 0.999, 0.1  # noise has moved it to where nothing is above
    found, lower = (
        ranked(most, error, 0.5, HALF_WIDTH_95),
        ranked(most - 1.96 * error, 1e-9, 0.5, HALF_WIDTH_95),
    )
    assert found.auc > 0.99
    assert found.auc - 1.96 * found.std_error <= lower.auc
