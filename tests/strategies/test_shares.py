"""What bits tell of shares below thresholds, and how surely."""

import numpy as np
import pytest

from ldp_flower.randomizers import Estimate, RandomizedResponse, Summary
from ldp_flower.strategies.numerics.value_scale import ValueScale
from ldp_flower.strategies.subprotocols.shares import Shares


def test_few_bits_at_each_threshold_give_a_spread_that_is_right():
    """If 90 % hold, fewer than 252 of 300 do in one of 2,000 cases."""
    rng, part, scale = np.random.default_rng(0), RandomizedResponse(8.0), ValueScale(0, 1, 1.0)
    covered = 0
    for _ in range(300):
        shares = Shares(part)
        for spread in (0.3, 0.1):
            at = 0.3 + spread * rng.uniform(-1, 1, 12)
            counts = rng.multinomial(36, np.full(12, 1 / 12))
            asking = shares.ask(None, None, at, np.zeros(12, int))  # whom and what is not looked at
            next(asking)
            with pytest.raises(StopIteration):
                asking.send(bits(part, rng.binomial(counts, at), counts))
        low, high = shares.about(0.3, scale).quantile([0.025, 0.975])
        covered += low <= scale.places(0.3) <= high
    assert covered >= 252


def bits(part, ones, counts):
    """Return what is told of so many ones among so many answers, none of them turned."""
    each = [
        part.estimate(
            Summary(n, part.bound * np.array([2.0 * k - n]), np.array([n * part.variance]))
        )
        for k, n in zip(ones, counts, strict=True)
    ]
    mean, error = (
        np.concatenate(part) for part in zip(*((e.mean, e.std_error) for e in each), strict=True)
    )
    return Estimate(mean, error, int(counts.sum()))
