"""Distribution functions from one-bit reports: who has an entry, and where a quantile lies."""

import numpy as np
import pytest

from ldp_flower.questions import SharesBelow
from ldp_flower.randomizers import Estimate, RandomizedResponse, Summary
from ldp_flower.strategies.numerics.value_scale import ValueScale
from ldp_flower.strategies.subprotocols.shares import ThresholdShares

PART, SCALE = RandomizedResponse(8.0), ValueScale(0, 1, 1.0)


def asked(shares, at, levels, ones, counts):
    """Let so many of the users who are asked at each threshold report a one."""
    at = np.asarray(at, np.float64)
    asking = shares.ask(None, SharesBelow(np.array([0]), at, np.asarray(levels)), at)
    next(asking)  # whom is not looked at
    with pytest.raises(StopIteration):
        asking.send(bits(ones, counts))


def bits(ones, counts):
    """Return what is estimated from so many ones among so many reports, none of them turned."""
    each = [
        PART.estimate(
            Summary(n, PART.bound * np.array([2.0 * k - n]), np.array([n * PART.variance]))
        )
        for k, n in zip(ones, counts, strict=True)
    ]
    mean, error = (
        np.concatenate(part) for part in zip(*((e.mean, e.std_error) for e in each), strict=True)
    )
    return Estimate(mean, error, int(np.sum(counts)))


def test_few_bits_at_each_threshold_give_a_spread_that_is_right():
    """If 90 % hold, fewer than 252 of 300 do in one of 2,000 cases."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        shares = ThresholdShares(PART)
        for spread in (0.3, 0.1):
            at = 0.3 + spread * rng.uniform(-1, 1, 12)
            counts = rng.multinomial(36, np.full(12, 1 / 12))
            asked(shares, at, np.full(12, 0.3), rng.binomial(counts, at), counts)
        low, high = shares.about(0.3, SCALE).quantile([0.025, 0.975])
        covered += low <= SCALE.places(0.3) <= high
    assert covered >= 252


def test_reports_that_are_all_alike_are_not_more_than_there_are():
    shares = ThresholdShares(PART)
    errors = np.array([1e-9, 0.1, 0.0, np.inf])  # the first of alike ones, by rounding
    found = shares._counts(Estimate(np.array([1.0, 0.0, -1.0, 0.0]), errors, 200))
    assert found[0] == found[2] == 50 and found[3] == 0 and found[1] == pytest.approx(101, abs=1)


@pytest.mark.slow
def test_users_without_an_entry_are_estimated_and_move_no_interval():
    """60 % have none, and .9 is asked for: 500 intervals, of which 5 % miss at most.

    More than 42 of them do with a probability below 10^-3.
    """
    rng, missed, off = np.random.default_rng(1), 0, []
    for _ in range(500):
        shares = ThresholdShares(PART)
        at = np.repeat(np.linspace(0.05, 0.95, 10), 2)
        for levels in (np.arange(20) % 2.0, np.full(20, 0.9), np.full(20, 0.5)):
            counts = np.full(20, 40)
            ones = rng.binomial(counts, 0.4 * at + 0.6 * levels)
            asked(shares, at, levels, ones, counts)
        belief = shares.about(0.9, SCALE)
        lower, upper = shares.interval(belief, shares.pooled(belief, SCALE), SCALE, 1.96)
        missed += not lower <= 0.9 <= upper
        off.append(shares.missing - 0.6)
    assert missed <= 42
    assert abs(np.mean(off)) < 5 * np.std(off) / np.sqrt(500)
    assert np.std(off) < shares.missing_error < 2 * np.std(off)
