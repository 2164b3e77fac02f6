"""Plans of sparse models and of means: refusals, monotony, runs, and what is made up."""

import math

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.clients.statistics.regression import residual_coefficients
from ldp_flower.clients.statistics.selection import SELECTION
from ldp_flower.guarantee.questions import SELECTORS, Gradient, ResidualCoefficients
from ldp_flower.planning import NoPlan, Setting, WouldRefuse
from ldp_flower.randomizers import SubsetHypercube, SubsetSelection, ball_codebook
from ldp_flower.strategies import (
    LabelLdpIht,
    LdpIht,
    MultiRoundRegression,
    NonInteractiveIht,
    SparseMean,
    SparseRegression,
    TooFewReports,
    TwoRoundRegression,
    UserLevelMean,
)
from ldp_flower.strategies.forecasts.answers import shortening
from ldp_flower.strategies.forecasts.linear_users import LinearUsers
from ldp_flower.strategies.forecasts.ridge_users import RidgeUsers
from ldp_flower.strategies.runtime.exchange import Ask
from ldp_flower.strategies.runtime.population import Cohort

PROTOCOLS = (
    *(UserLevelMean, LdpIht, NonInteractiveIht, LabelLdpIht),
    *(SparseMean, SparseRegression, TwoRoundRegression, MultiRoundRegression),
)
MANY = 10**9  # of users, whose answers have no noise to speak of


def planned(protocol, epsilon, **numbers):
    setting = Setting(**numbers)
    return protocol.planned_for(setting, epsilon).expect(setting)


def numbers_for(protocol, num_users, num_features=16):
    rows = {"rows_per_user": 20} if "rows_per_user" in protocol.plans_with else {}
    return {"num_users": num_users, "num_features": num_features, **rows}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_more_users_or_epsilon_are_not_expected_to_make_it_worse(protocol):
    # Plans are medians of trials, so that large steps are compared.
    fewest, most = (planned(protocol, 2.0, **numbers_for(protocol, n)) for n in (1000, 8000))
    weaker, weakest = (planned(protocol, e, **numbers_for(protocol, 8000)) for e in (1.0, 0.5))
    for plan in (fewest, most, weaker, weakest):
        assert 0 < plan.low <= plan.value <= plan.high
    assert most.value < fewest.value
    assert most.value < weaker.value < weakest.value


@pytest.mark.parametrize(
    ("strategy", "num_users"),
    [
        *((cls.planned_for(Setting(num_users=9, num_features=8), 1.0), 9) for cls in PROTOCOLS),
        (SparseRegression(8, epsilon=1.0, samples_per_user=5), 1800),
        (TwoRoundRegression(8, epsilon=1.0, samples_per_user=5, sparsity=2), 1800),
        (SparseMean(8, epsilon=2.0), 399),
        (LabelLdpIht(8, epsilon=2.0, sparsity=2), 150),
        (LdpIht(8, epsilon=1.0, sparsity=2, link="logistic"), 500),
    ],
)
def test_a_refusal_is_told_in_the_strategys_own_words(strategy, num_users):
    rows = np.random.default_rng(0).standard_normal((num_users, 8))
    with pytest.raises(TooFewReports) as refused:
        simulate(strategy, Users.from_rows(rows, rows[:, 0]), seed=0)
    with pytest.raises(WouldRefuse) as told:
        strategy.expect(Setting(num_users=num_users))
    assert str(told.value) == str(refused.value)


@pytest.mark.parametrize(
    "strategy",
    [
        UserLevelMean(4, epsilon=1.0, bound=1.0, spread=0.1, method="paper"),
        TwoRoundRegression(8, epsilon=4.0, samples_per_user=5, sparsity=2, method="paper"),
        SparseRegression(8, epsilon=4.0, samples_per_user=10, link="logistic"),
        LdpIht(8, epsilon=4.0, sparsity=2, link="cosine"),
        NonInteractiveIht(2, epsilon=4.0, sparsity=1, covariance=[[1.0, 0.5], [0.5, 1.0]]),
    ],
)
def test_what_was_not_worked_out_has_no_plan(strategy):
    with pytest.raises(NoPlan, match=type(strategy).__name__):
        strategy.expect(Setting(num_users=10_000))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_plan_needs_the_number_of_features(protocol):
    with pytest.raises(ValueError, match=f"Expected num_features for {protocol.__name__}, got No"):
        protocol.planned_for(Setting(num_users=1000), 1.0)


@pytest.mark.parametrize("protocol", [LdpIht, NonInteractiveIht])
def test_a_single_coefficient_is_not_planned_at_its_bound_where_there_is_no_error(protocol):
    few, many = (
        planned(protocol, 1.0, num_users=users, num_features=1) for users in (3000, 300_000)
    )
    assert min(few.value, many.value) > 0.01
    assert "of length 0.5 in all" in many.assumes[0]


def test_a_plan_is_the_same_each_time_and_leaves_the_strategy_as_it_was():
    strategy, setting = LdpIht(8, epsilon=4.0, sparsity=2), Setting(num_users=3000)
    before = set(vars(strategy))
    assert strategy.expect(setting) == strategy.expect(setting)
    assert set(vars(strategy)) == before


def test_a_mean_is_as_far_off_as_planned():
    # A run's error is .51 to 1.6 times its median with probability 97 % (chi-square, 8 degrees),
    # so that three of five are beyond that with one of 3e-4; 1.8 leaves room for the plan's own.
    plan = planned(UserLevelMean, 4.0, num_users=1000, num_features=8, rows_per_user=10)
    strategy = UserLevelMean(8, epsilon=4.0, bound=1.0, samples_per_user=10)
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = 0.5 / math.sqrt(8) * rng.choice([-1, 1], 8)
        users = Users.from_rows(truth + rng.standard_normal((1000, 8)) / math.sqrt(80))
        result = simulate(strategy, users, seed=seed)
        errors.append(np.linalg.norm(result.coef - truth))
    assert plan.value / 1.8 < np.median(errors) < 1.8 * plan.value


def test_coefficients_are_as_far_off_as_planned():
    # The plan says that one run in ten is below its range, and one above: the median of seven is
    # outside with probability 2 * 35 * .1**4 = .7 % at most.
    strategy, users = LdpIht(16, epsilon=4.0, sparsity=4, noise_scale=1.0), 6000
    plan = strategy.expect(Setting(num_users=users))
    errors = []
    for seed in range(7):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1.0, 1.0], (users, 16))
        truth = np.where(np.arange(16) < 4, 0.5, 0.0)
        y = x @ truth + rng.standard_normal(users)
        result = simulate(strategy, Users.from_rows(x, y), seed=seed)
        errors.append(np.linalg.norm(result.coef - truth))
    assert plan.low < np.median(errors) < plan.high
    assert plan.rounds == len(result.steps) - 1  # the census is no question
    assert plan.report_bytes == max(step.report_bytes for step in result.steps)


@pytest.mark.parametrize(("rows", "bound"), [(1, 0.8), (3, None), (20, None)])
def test_made_up_gradients_have_the_mean_of_real_ones(rows, bound):
    rng = np.random.default_rng(rows)
    dim, noise, number = 6, 0.7, 40_000
    truth, theta = np.array([0.5, -0.5, 0.3, 0, 0, 0]), np.array([0.0, -0.2, 0, 0, 0, 0.1])
    shape = (number, rows, dim)
    x = rng.standard_normal(shape) if bound is None else rng.choice([-1.0, 1.0], shape)
    residual = x @ (theta - truth) - noise * rng.standard_normal((number, rows))
    if bound is not None:
        residual = np.clip(residual, -bound, bound)
    real = np.einsum("nm,nmd->nd", residual, x) / rows
    mechanism = SubsetHypercube(4.0, dim, 0.8)
    if bound is None:
        mechanism = ball_codebook(4.0, dim, 0.7)
        lengths = np.linalg.norm(real, axis=1, keepdims=True)
        real *= np.minimum(1.0, 0.7 / lengths)
    question = Gradient(theta, feature_bound=None if bound is None else 1.0, residual_bound=bound)
    made_up = LinearUsers(truth, noise, rng, rows)(Ask(Cohort(0, 1, MANY), question, mechanism))
    # The residual of few signs is not quite normal, and what shortening leaves is a mean over
    # 1,000 drawn users, each less than 1: 4 standard errors are .04.
    slack = 0.04 * np.linalg.norm(theta - truth) + 0.01
    np.testing.assert_allclose(made_up.mean, real.mean(axis=0), atol=slack)


@pytest.mark.parametrize(("rows", "dim", "scale"), [(3, 8, None), (10, 32, 1.1), (30, 8, 0.9)])
def test_made_up_coefficients_have_the_moments_of_real_ones(rows, dim, scale):
    rng = np.random.default_rng(rows)
    number, quality = 200_000 // (rows * dim) * 4, 0.5
    truth = np.where(np.arange(dim) < 4, math.sqrt(quality) / 2, 0.0)
    x = rng.standard_normal((number * rows, dim))
    y = x @ truth + math.sqrt(1 - quality) * rng.standard_normal(len(x))
    users = Users(x, y, rows * np.arange(number + 1))
    weights, theta = np.linspace(0.2, 0.4, dim), 0.5 * truth
    given = {} if scale is None else {"scale": scale, "scale_weight": 0.3}
    question = ResidualCoefficients(theta, weights, 1.0, **given)
    real = residual_coefficients(users, question)
    lengths = np.linalg.norm(real, axis=1, keepdims=True)
    radius = float(np.median(lengths))
    real *= np.minimum(1.0, radius / lengths)
    mean, variance = RidgeUsers(truth, 1.0, rows).told(question, radius)
    # Means of real ones have standard errors of 1 % of the largest, what is derived is for many
    # rows: from 30 on exact within 5 %.
    largest = np.abs(mean[:dim]).max()
    np.testing.assert_allclose(mean[:dim], real.mean(axis=0)[:dim], atol=0.12 * largest)
    assert variance[:dim].sum() == pytest.approx(real.var(axis=0)[:dim].sum(), rel=0.12)
    assert len(mean) == len(variance) == dim + (scale is not None)
    if scale is not None:
        assert mean[-1] == pytest.approx(real[:, -1].mean(), abs=0.1 * real[:, -1].std())
        assert variance[-1] == pytest.approx(real[:, -1].var(), rel=0.15)


@pytest.mark.parametrize(("rows", "set_size"), [(3, 1), (10, 4), (30, 1)])
def test_made_up_votes_tell_features_as_real_ones_do(rows, set_size):
    dim, number, quality = 32, 1200, 0.9
    rng = np.random.default_rng(rows)
    truth = np.where(np.arange(dim) < 8, math.sqrt(quality / 8), 0.0)
    x = rng.standard_normal((number * rows, dim))
    y = x @ truth + math.sqrt(1 - quality) * rng.standard_normal(len(x))
    question, oracle = SELECTORS["lasso"](set_size), SubsetSelection(8.0, dim, set_size)
    sets = SELECTION[type(question)](Users(x, y, rows * np.arange(number + 1)), question)
    named = np.bincount(sets[sets >= 0].astype(int), minlength=dim) / number
    made_up = LinearUsers(truth, math.sqrt(1 - quality), rng, rows)(
        Ask(Cohort(0, 1, MANY), question, oracle)
    )
    real, found = (shares[:8].mean() - shares[8:].mean() for shares in (named, made_up.mean))
    # Of three rows a real difference has a standard error of 13 %, and else less than 7 %.
    assert found == pytest.approx(real, rel=0.45 if rows == 3 else 0.25)


@pytest.mark.parametrize("dim", [3, 12])
def test_shortening_leaves_what_it_leaves_of_drawn_vectors(dim):
    rng = np.random.default_rng(dim)
    mean = np.zeros(dim)
    mean[0] = 1.0
    vectors = mean + 0.5 * rng.standard_normal((200_000, dim))
    radius = math.sqrt(1 + dim / 4)
    vectors *= np.minimum(1.0, radius / np.linalg.norm(vectors, axis=1, keepdims=True))
    # Lengths are not made of two independent parts: the larger slack is for few dimensions.
    left = shortening(1.0, dim / 4, dim, radius)
    assert left == pytest.approx(vectors[:, 0].mean(), abs=0.02 if dim == 12 else 0.06)
