"""DP-SGD in four silos, on made-up rows in place of Adult."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.mark.long
def test_the_silos_model_ranks_rows_it_has_not_seen():
    """Labels follow one of 124 features: 0.97 on this seed, and 0.5 if nothing were learnt."""
    from simulations.benchmarks import dp_sgd

    rows = torch.randn(1500, 124, generator=torch.Generator().manual_seed(0)) / 11
    rows[:, 0] *= 11
    labels = (rows[:, 0] > 0).long()
    assert dp_sgd.area(rows, labels, "logistic", 8.0, seed=0) > 0.8
