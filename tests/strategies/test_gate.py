"""The gate: how often it lets models pass, by how good they are, and what it returns instead.

Seeds are fixed; each bound says how often chance would break it.
"""

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.strategies import Fit, LdpStrategy, TooFewReports
from ldp_flower.strategies.gate import gate, keep_back

DIM = 4
COEF = np.array([0.0, 0.6, 0.0, -0.4])  # explains .52 of the variance, which is 1
LEVELS = 0.4  # standard deviation of users' levels


class Gated(LdpStrategy):
    """Keeps judges back and has them judge a given fit."""

    def __init__(self, coef, epsilon, level_error=0.0, level_known=False):
        super().__init__(min_reports=20)
        self.coef, self.epsilon, self.level_error = np.asarray(coef), epsilon, level_error
        self.level_known = level_known
        self.verdict = None

    def protocol(self):
        judges = keep_back(self, self.epsilon, level_known=self.level_known)
        self.verdict = yield from gate(judges, self.coef, self.epsilon, self.level_error)
        return self.verdict.applied(Fit(self.coef, np.ones(DIM), ["fitted"]))


def people(num_users, seed, level=0.0):
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(num_users), rng.integers(1, 10, num_users))
    x = np.c_[np.ones(len(user)), rng.standard_normal((len(user), DIM - 1))]
    own = LEVELS * rng.standard_normal(num_users)
    noise = np.sqrt(1 - COEF @ COEF - LEVELS**2) * rng.standard_normal(len(user))
    return Users.from_rows(x, level + x @ COEF + own[user] + noise, user)


def judged(coef, seed, num_users=2000, epsilon=1.0, level=0.0, level_error=0.0):
    strategy = Gated(coef, epsilon, level_error)
    result = simulate(strategy, people(num_users, seed, level), seed=seed)
    assert result.privacy.epsilon == epsilon and result.privacy.exact
    return strategy.verdict, result


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_model_no_better_than_the_mean_passes_once_in_20_times(epsilon):
    """The gain is exactly 0; of 50 runs more than 8 pass with probability 4e-4."""
    verdicts = [judged(2 * COEF, seed, epsilon=epsilon)[0] for seed in range(1000, 1050)]
    assert sum(verdict.accepted for verdict in verdicts) <= 8
    scores = np.array([verdict.gain / verdict.std_error for verdict in verdicts])
    assert abs(scores.mean()) < 4 / np.sqrt(50)
    assert 0.5 < scores.std() < 1.5  # five standard deviations of 50 normal scores'


@pytest.mark.parametrize("coef", [6 * COEF, [0.0, -0.6, 0.5, 0.4], [0.0, 40.0, 40.0, 40.0]])
def test_bad_models_do_not_pass(coef):
    """The best of them has a gain of -1.8: 8 standard errors."""
    assert not any(judged(coef, seed)[0].accepted for seed in range(10))


def test_good_models_pass_and_their_slopes_are_returned():
    """At a standard error of .11 for 4,000 users chance would refuse one in 1,000."""
    for seed in range(5):
        verdict, result = judged(COEF, seed, num_users=4000, epsilon=2.0)
        assert verdict.accepted and abs(verdict.gain - 0.52) < 4 * verdict.std_error < 0.6
        assert (result.coef[1:] == COEF[1:]).all() and "fitted" in result.notes
        assert result.coef[0] == verdict.level


def test_the_mean_predictor_comes_with_the_numbers():
    verdict, result = judged(-COEF, 0)
    assert result.coef[0] == verdict.level and not result.coef[1:].any()
    assert result.std_error[0] == verdict.level_error and result.notes[0] == "fitted"
    assert (
        "mean predictor" in result.notes[1]
        and f"{verdict.gain:.2f} squared scales" in result.notes[1]
    )
    weak = [judged(0.3 * COEF, seed, 4000, 4.0) for seed in range(10)]  # R2 .26, error .11
    passed = [(verdict, result) for verdict, result in weak if verdict.accepted]
    assert len(passed) > 3
    for verdict, result in passed:
        surplus = verdict.gain - verdict.level_error**2
        spread = np.hypot(verdict.std_error, np.sqrt(2) * verdict.level_error**2)
        assert ("may be weak" in repr(result)) == (surplus < 3.29 * spread)
    assert judged(COEF, 0, 4000, 4.0)[1].notes == ["fitted"]


@pytest.mark.parametrize("level_error", [0.0, 0.5])
def test_a_level_is_told_by_the_judges_whatever_was_believed(level_error):
    """It is .6 off, of which a fifth remains at most: one standard error."""
    for seed in range(5):
        verdict, result = judged(-COEF, seed, 4000, 2.0, level=0.6, level_error=level_error)
        assert len(result.steps) == 3 and verdict.level_error < 0.2
        assert abs(result.coef[0] - 0.6) < 4 * verdict.level_error
        assert (result.coef[1:] == 0).all() and result.std_error[0] == verdict.level_error


def test_a_level_that_was_right_stays_about_where_it_was():
    """The judges' error of .17 counts for three quarters; .2 is five standard errors of the rms."""
    levels = [judged(-COEF, seed, 4000, 2.0)[0].level for seed in range(20)]
    assert np.sqrt(np.mean(np.square(levels))) < 0.2


@pytest.mark.parametrize("level_error", [0.0, 0.5])
def test_a_model_of_the_level_alone_is_no_better_than_the_mean(level_error):
    """Compared with 0 its gain would be .36, which passes nearly always."""
    shift = np.array([0.6, 0.0, 0.0, 0.0])
    passed = [
        judged(shift, seed, 4000, 2.0, level=0.6, level_error=level_error)[0].accepted
        for seed in range(25)
    ]
    assert sum(passed) <= 5  # more than 5 of 25 at 1 in 20: once in 1,000 times


def test_a_level_known_by_construction_is_not_asked_for():
    strategy = Gated(COEF, 2.0, level_known=True)
    result = simulate(strategy, people(4000, 0), seed=0)
    assert len(result.steps) == 2 and strategy.verdict.accepted
    assert strategy.verdict.level == strategy.verdict.level_error == 0


def test_judges_are_as_many_as_it_takes():
    for epsilon, num_users, expected in ((0.5, 2000, 500), (2.0, 4000, 434), (4.0, 10_000, 1000)):
        assert judged(COEF, 0, num_users, epsilon)[1].num_reports == expected
    with pytest.raises(TooFewReports):
        judged(COEF, 0, 39)
