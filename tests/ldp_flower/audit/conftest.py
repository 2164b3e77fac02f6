"""Planted faults that several audits have to find."""

import numpy as np
import pytest

from ldp_flower.randomizers import sums


@pytest.fixture
def half_the_variance(monkeypatch):
    """Let sums of nodes have noise of half the variance."""
    honest = sums.discrete_gaussian

    def halved(size, rng):
        return np.rint(honest(size, rng) / np.sqrt(2)).astype(np.int64)

    monkeypatch.setattr(sums, "discrete_gaussian", halved)
