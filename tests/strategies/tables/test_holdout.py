"""The gate: how often it lets models pass, by how good they are, and what it returns instead.

Seeds are fixed; each bound says how often chance would break it.
"""

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.randomizers import Estimate
from ldp_flower.strategies import Cohort, LdpStrategy, LinearResult, TooFewReports
from ldp_flower.strategies.tables.holdout import Holdout, gate, keep_back

DIM = 4
COEF = np.array([0.0, 0.6, 0.0, -0.4])  # explains .52 of the variance, which is 1
LEVELS = 0.4  # standard deviation of users' levels


class Gated(LdpStrategy):
    """Keeps a holdout back and has it judge a given fit."""

    def __init__(self, coef, epsilon, level_known=False):
        super().__init__(epsilon=epsilon)
        self.coef, self.level_known = np.asarray(coef), level_known
        self.verdict = None

    def protocol(self):
        holdout = keep_back(self, self.epsilon, level_known=self.level_known)
        self.verdict = yield from gate(holdout, self.coef, self.epsilon)
        return self.verdict.applied(
            LinearResult(coef=self.coef, std_error=np.ones(DIM), notes=["fitted"])
        )


def people(num_users, seed, level=0.0, off=0.0):
    """Return users whose targets have the mean ``level`` and features the mean ``off``."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(num_users), rng.integers(1, 10, num_users))
    x = np.c_[np.zeros(len(user)), rng.standard_normal((len(user), DIM - 1))]
    own = LEVELS * rng.standard_normal(num_users)
    noise = np.sqrt(1 - COEF @ COEF - LEVELS**2) * rng.standard_normal(len(user))
    y = level + x @ COEF + own[user] + noise
    return Users.from_rows(x + np.where(np.arange(DIM), off, 1.0), y, user)


def judged(coef, seed, num_users=2000, epsilon=1.0, **options):
    strategy = Gated(coef, epsilon)
    result = simulate(strategy, people(num_users, seed, **options), seed=seed)
    assert result.privacy.epsilon == epsilon and result.privacy.exact
    return strategy.verdict, result


def test_a_model_no_better_at_any_length_passes_once_in_20_times():
    """Gains are normal and 0: of 4,000 verdicts the share is outside once in 10,000 times.

    With the 1.645 standard errors of one test it would be .074.
    """
    rng = np.random.default_rng(0)
    cohort, lengths = Cohort(0, 1, 400), []
    for _ in range(4_000):
        asks = gate(Holdout((cohort, cohort)), COEF, 1.0)
        answer = None
        try:
            while True:
                asks.send(answer)
                answer = Estimate(rng.standard_normal(1), np.ones(1), cohort.size)
        except StopIteration as end:
            lengths.append(end.value.length)
    assert 0.036 < np.mean(np.array(lengths) > 0) < 0.064
    assert {*lengths} == {0.0, 0.5, 1.0}


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_useless_model_passes_once_in_20_times(epsilon):
    """It adds next to nothing; of 40 more than 6 pass with probability 3e-3.

    Compared each around a level of its own, told by others, it passed 1 in 6 times.
    """
    useless = np.array([0.0, 0.0, 0.05, 0.0])
    verdicts = [judged(useless, seed, epsilon=epsilon)[0] for seed in range(1000, 1040)]
    assert sum(verdict.length > 0 for verdict in verdicts) <= 6
    scores = [verdict.gain.value / verdict.gain.std_error for verdict in verdicts]
    assert 0.55 < np.std(scores) < 1.45  # four standard deviations of 40 normal scores'


@pytest.mark.parametrize("coef", [-COEF, [0.0, -0.6, 0.5, 0.4], [0.0, 40.0, 40.0, 40.0]])
def test_bad_models_do_not_pass(coef):
    """The best of them has a gain of -.65 at half its length: 4 standard errors."""
    assert not any(judged(coef, seed)[0].length for seed in range(10))


def test_good_models_pass_and_their_slopes_are_returned():
    """Of a gain of .52 clipping leaves .42. Beyond four standard errors is one in 10,000."""
    for seed in range(5):
        verdict, result = judged(COEF, seed, num_users=4000, epsilon=2.0)
        gain = verdict.gain
        assert gain.std_error < 0.08
        assert verdict.length == 1 and abs(gain.value - 0.42) < 4 * gain.std_error
        assert (result.coef[1:] == COEF[1:]).all() and "fitted" in result.notes
        assert result.coef[0] == verdict.level.value


def test_models_that_are_too_long_are_shortened():
    """At 2.5 times its length the model is bad, at half of that it explains .49."""
    shortened = 0
    for seed in range(10):
        verdict, result = judged(2.5 * COEF, seed, num_users=4000, epsilon=2.0)
        shortened += verdict.length == 0.5
        np.testing.assert_array_equal(result.coef[1:], verdict.length * 2.5 * COEF[1:])
        assert ("half as long" in repr(result)) == (verdict.length == 0.5)
        np.testing.assert_array_equal(result.std_error[1:], verdict.length)
    assert shortened >= 7


def test_the_mean_predictor_comes_with_the_numbers():
    verdict, result = judged(-COEF, 0)
    assert result.coef[0] == verdict.level.value and not result.coef[1:].any()
    assert result.std_error[0] == verdict.level.std_error and result.notes[0] == "fitted"
    assert (
        "mean predictor" in result.notes[1]
        and f"at about {verdict.gain.value:.0%} (standard" in result.notes[1]
    )
    weak = [judged(0.3 * COEF, seed, 4000, 4.0) for seed in range(10)]  # R2 .26
    passed = [(verdict, result) for verdict, result in weak if verdict.length == 1]
    assert len(passed) > 3
    for verdict, result in passed:
        surplus = verdict.gain.value - verdict.level.std_error**2
        spread = np.hypot(verdict.gain.std_error, np.sqrt(2) * verdict.level.std_error**2)
        assert ("may be weak" in repr(result)) == (surplus < 3.3 * spread)
    assert judged(COEF, 0, 4000, 4.0)[1].notes == ["fitted"]


@pytest.mark.parametrize(("coef", "expected"), [(-COEF, 0.6), (COEF, 0.5), (2.5 * COEF, 0.475)])
def test_levels_are_told_by_the_holdout(coef, expected):
    """Of targets .6, of a fit around features that are .5 off .1 less for each 1 of length.

    The mean square of 10 normal scores exceeds 3 once in 1,000 times.
    """
    scores = []
    for seed in range(10):
        verdict, result = judged(coef, seed, 4000, 2.0, level=0.6, off=0.5)
        if verdict.length == {0.6: 0.0, 0.5: 1.0, 0.475: 0.5}[expected]:
            scores.append((result.coef[0] - expected) / result.std_error[0])
            assert result.std_error[0] == verdict.level.std_error < 0.2
    assert len(scores) > 5 and np.mean(np.square(scores)) < 3


def test_a_model_of_the_level_alone_is_no_better_than_the_mean():
    """Compared with 0 its gain would be .36, which passes nearly always."""
    shift = np.array([0.6, 0.0, 0.0, 0.0])
    passed = [judged(shift, seed, 4000, 2.0, level=0.6)[0].length > 0 for seed in range(25)]
    assert sum(passed) <= 5  # more than 5 of 25 at 1 in 20: once in 1,000 times


def test_a_level_known_by_construction_is_not_asked_for():
    strategy = Gated(COEF, 2.0, level_known=True)
    result = simulate(strategy, people(4000, 0), seed=0)
    assert len(result.steps) == 3 and strategy.verdict.length == 1
    assert strategy.verdict.level.value == strategy.verdict.level.std_error == 0


def test_holdout_users_are_as_many_as_it_takes():
    for epsilon, num_users, expected in ((0.5, 2000, 600), (2.0, 4000, 595), (4.0, 10_000, 902)):
        assert judged(COEF, 0, num_users, epsilon)[1].num_reports == expected
    with pytest.raises(TooFewReports):
        judged(COEF, 0, 79)
