"""SparseRegression: utility on fresh seeds, the guard, odd users, and its handlers' audit."""

from dataclasses import replace

import numpy as np
import pytest

from ldp_flower import GeneratedUsers, Numeric, Schema, Users, simulate
from ldp_flower.audit import audit_handler, extreme_users, recorded_queries
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.strategies import SparseRegression, TooFewReports

SIZE = 0.2


def make_users(num_users, rows, dim, seed, support=8, correlation=0.0):
    """Return users with standard normal features (or AR(1) columns), noise of variance 1."""
    rng = np.random.default_rng(seed)
    coef = np.zeros(dim)
    coef[rng.choice(dim, support, replace=False)] = SIZE * rng.choice([-1, 1], support)
    x = rng.standard_normal((num_users * rows, dim))
    for j in range(1, dim if correlation else 1):
        x[:, j] = correlation * x[:, j - 1] + np.sqrt(1 - correlation**2) * x[:, j]
    y = x @ coef + rng.standard_normal(len(x))
    return Users(x, y, rows * np.arange(num_users + 1)), coef


def fit(users, dim, rows, seed, epsilon=4.0, num_nodes=1, **arguments):
    strategy = SparseRegression(dim, epsilon=epsilon, samples_per_user=rows, **arguments)
    return simulate(strategy, users, seed=seed, num_nodes=num_nodes)


def test_error_and_support_where_there_are_fewer_rows_than_features():
    """Measured on six seeds: .046 to .077, mean .061."""
    errors = []
    for seed in range(3):
        users, coef = make_users(400, 100, 128, seed)
        result = fit(users, 128, 100, seed)
        errors.append(np.linalg.norm(result.coef - coef))
        assert result.num_reports == 400
        assert (result.privacy.epsilon, result.privacy.exact) == (4.0, True)
        assert set(result.support) >= set(np.flatnonzero(coef)[:1])
    assert np.mean(errors) < 0.12  # returning zero: .566


def test_small_problems_need_no_vote():
    users, coef = make_users(400, 100, 16, 0)
    result = fit(users, 16, 100, 0)
    assert "lasso_features" not in [step.statistic for step in result.steps]
    assert np.linalg.norm(result.coef - coef) < 0.08
    assert result.support.tolist() == np.flatnonzero(coef).tolist()
    np.testing.assert_allclose(result.predict(np.eye(16)), result.coef)


def test_correlated_features_are_not_mixed_up():
    """AR(.6): neighbours correlate by .6; marginal regressions are off by far more."""
    errors = []
    for seed in range(3):
        users, coef = make_users(600, 100, 32, seed, support=4, correlation=0.6)
        errors.append(np.linalg.norm(fit(users, 32, 100, seed).coef - coef))
    assert np.mean(errors) < 0.12  # returning zero: .4


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [pytest.param((1.0, 1.0), marks=pytest.mark.slow), (1.25, 0.4)])
def test_intervals_hold_for_coefficients_that_are_not_zero(sizes):
    """Of 80 intervals of 90 % fewer than 61 hold once in 10,000, were they exact.

    Posterior deviations hold half of them where small coefficients are missed.
    """
    held = []
    for seed in range(10):
        users, coef = make_users(400, 80, 128, 50 + seed)
        support = np.flatnonzero(coef)
        targets = users.targets - users.features @ coef
        coef[support] *= np.tile(sizes, 4)
        result = fit(replace(users, targets=targets + users.features @ coef), 128, 80, seed)
        held += (np.abs(result.coef - coef) < 1.645 * result.std_error)[support].tolist()
    assert len(held) == 80 and sum(held) >= 61


@pytest.mark.parametrize("seed", range(2))
def test_the_guard_returns_almost_zero_and_says_what_it_would_take(seed):
    users, coef = make_users(400, 100, 128, seed)
    result = fit(users, 128, 100, seed, epsilon=0.5, target_scale=1.2)
    assert np.linalg.norm(result.coef - coef) < 1.05 * np.linalg.norm(coef)
    nothing, _ = make_users(400, 100, 128, seed, support=1)
    nothing = Users(nothing.features, np.random.default_rng(9).normal(size=40_000), nothing.offsets)
    result = fit(nothing, 128, 100, seed)
    assert not len(result.support) and np.linalg.norm(result.coef) < 0.05
    assert "users at epsilon 4" in result.notes[0]


def test_the_scale_is_refused_where_it_would_take_too_many_users():
    users, _ = make_users(100, 20, 8, 0, support=2)
    with pytest.raises(TooFewReports, match="Declare target_scale"):
        fit(users, 8, 20, 0, epsilon=1.0)


def test_a_wrong_declared_scale_is_refined():
    users, coef = make_users(800, 60, 16, 1)
    result = fit(users, 16, 60, 1, target_scale=1.35)  # the truth is 1.15
    assert np.linalg.norm(result.coef - coef) < 0.08


@pytest.mark.parametrize("num_nodes", [7, 150])
def test_the_estimate_does_not_depend_on_the_number_of_nodes(num_nodes):
    users, _ = make_users(300, 20, 24, 3)
    one = fit(users, 24, 20, 4)
    many = fit(users, 24, 20, 4, num_nodes=num_nodes)
    np.testing.assert_allclose(many.coef, one.coef, rtol=1e-7, atol=1e-9)


def test_odd_users_send_valid_reports():
    """No rows, one row, constant columns, fewer rows than features, huge numbers, NaN."""
    rng = np.random.default_rng(0)
    counts = rng.choice([0, 1, 2, 30, 200], 400)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    x = rng.standard_normal((offsets[-1], 40))
    x[:, 5] = 1.0
    y = 0.5 * x[:, 3] + rng.standard_normal(len(x))
    x[offsets[10] : offsets[11]], y[offsets[12] : offsets[13]] = np.nan, 1e300
    result = fit(Users(x, y, offsets), 40, 30, 0)
    assert result.num_reports == 400
    assert np.isfinite(result.coef).all() and np.isfinite(result.std_error).all()
    assert 3 in result.support


@pytest.mark.slow
def test_generated_users_of_a_thousand_features():
    """Of 20 other runs with 600 to 632 users, 3 missed one of both coefficients.

    With 600 one test of nine would fail, since a hold-out cohort takes 5 % of the users.
    """
    coef = np.zeros(1024)
    coef[[7, 800]] = 0.4, -0.4
    found = []
    for seed in range(4):

        def generate(indices, key=seed):
            x = KeyedRandom(derive(key, indices)).normals((len(indices), 40 * 1025))
            x = x.reshape(len(indices) * 40, 1025)
            return Users(x[:, :-1], x[:, :-1] @ coef + x[:, -1], 40 * np.arange(len(indices) + 1))

        users = GeneratedUsers(700, 1024, generate)
        found += fit(users, 1024, 40, seed, selector="marginal").support.tolist()
    assert set(found) == {7, 800} and len(found) >= 7


def classes(num_users, rows, dim, seed, constant=0.0):
    """Return users with classes 0 and 1, log-odds of norm 1 in 4 features and a constant."""
    rng = np.random.default_rng(seed)
    coef = np.zeros(dim)
    coef[rng.choice(dim, 4, replace=False)] = 0.5 * rng.choice([-1, 1], 4)
    x = rng.standard_normal((num_users * rows, dim))
    y = rng.uniform(size=len(x)) < 1 / (1 + np.exp(-(x @ coef + constant)))
    return Users(x, y.astype(float), rows * np.arange(num_users + 1)), coef


@pytest.mark.parametrize("dim", [16, 96])
def test_logistic_coefficients_with_and_without_a_vote(dim):
    """Measured on the four seeds: .05 to .11 of the coefficients' norm."""
    errors, within = [], []
    for seed in range(4):
        users, coef = classes(600, 60, dim, seed)
        result = fit(users, dim, 60, seed, link="logistic")
        errors.append(np.linalg.norm(result.coef - coef))
        support = np.flatnonzero(coef)
        within += (np.abs(result.coef - coef)[support] < 2 * result.std_error[support]).tolist()
        assert set(result.support) == set(support)
    assert np.mean(errors) < 0.15  # returning zero: 1
    assert sum(within) >= 11  # of 16 at 95 %: fewer once in 10,000


def test_classes_may_be_named_by_any_numbers_and_a_constant_feature_is_the_intercept():
    users, coef = classes(600, 60, 8, 0, constant=-1.2)
    ones = np.ones((len(users.features), 1))
    users = Users(np.hstack([users.features, ones]), users.targets, users.offsets)
    result = fit(users, 9, 60, 0, link="logistic")
    assert np.linalg.norm(result.coef[:8] - coef) < 0.2
    assert abs(result.coef[8] + 1.2) < 0.2
    signs = Users(users.features, 2 * users.targets - 1, users.offsets)
    np.testing.assert_array_equal(fit(signs, 9, 60, 0, link="logistic").coef, result.coef)


@pytest.mark.parametrize(("seed", "said"), [(18, True), (1, False)])
def test_a_scale_that_stays_uncertain_is_said(seed, said):
    """At epsilon 1 three cohorts leave it in doubt in about one run of three: with seed 18."""
    users, _ = make_users(1900, 12, 6, 0, support=2)
    strategy = SparseRegression(6, epsilon=1.0, samples_per_user=12, num_waves=1)
    result = simulate(strategy, users, seed=seed)
    notes = [note for note in result.notes if "The estimated scale of the data" in note]
    assert len(notes) == said
    assert all("Declare target_scale" in note for note in notes)


@pytest.mark.parametrize(("unit", "centre"), [(1.0, 0.0), (20.0, 0.0), (1.0, 20.0)])
def test_features_that_are_not_of_unit_scale_are_noted(unit, centre):
    """R2 is .9, -10 and -45, by all users; those who had no part in the model say as much."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 16))
    y = x[:, :3].sum(axis=1) / 2 + 0.3 * rng.standard_normal(len(x))
    users = Users(unit * x + centre, y, np.arange(0, len(x) + 1, 20))
    result = fit(users, 16, 20, 0)
    worse = ((y - users.features @ result.coef) ** 2).mean() > (y**2).mean()
    assert worse == any("On held-out users the model is" in note for note in result.notes)
    assert worse == (result.r2 < 0) == np.isnan(result.std_error).all()
    assert worse == (unit != 1 or centre != 0)


@pytest.mark.parametrize("seed", range(3))
def test_features_that_are_nearly_all_zero_are_noted(seed):
    """Local regressions keep 1 / 33 of the coefficients, not the half that is undone."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 32, 60_000)
    theta = np.zeros(32)
    theta[[3, 9, 20]] = 0.6, -0.5, 0.4
    y = theta[places] + 0.08 * rng.standard_normal(len(places))
    users = Users.from_rows(np.eye(32)[places], y, np.arange(len(places)) // 100)
    result = fit(users, 32, 100, seed)
    assert any("Local regressions of held-out users" in note for note in result.notes)
    assert np.isnan(result.std_error).all()


@pytest.mark.long
def test_every_handler_keeps_its_promise():
    users, _ = make_users(400, 12, 6, 0, support=2)
    strategy = SparseRegression(6, epsilon=2.0, samples_per_user=12, num_waves=1, target_scale=1.0)
    estimated = SparseRegression(24, epsilon=4.0, samples_per_user=12, num_waves=1)
    queries = recorded_queries(strategy, users) + recorded_queries(
        estimated, make_users(200, 12, 24, 0, support=2)[0]
    )
    assert [query.statistic for query in queries] == [
        *("lasso_features", "residual_coefficients", "local_coefficients"),
        *("residual_octave", "residual_squares"),
        *("target_scale", "lasso_features", "residual_coefficients"),
        *("local_coefficients", "residual_octave", "residual_squares"),
    ]
    for query in queries[:6]:
        dim = len(getattr(query.question, "theta", np.zeros(6)))
        found = audit_handler(query, extreme_users(dim), num_reports=400, seed=1)
        assert found.passed, found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"selector": "best"}, "Expected selector in"),
        (
            {"dim": Schema({"x": Numeric(0, 1)}, "y", Numeric(0, 1))},
            r"Expected an integer dim >= 1, got a Schema.* PrivateRegression\(schema, ",
        ),
        ({"num_waves": 0}, "num_waves >= 1"),
        ({"target_scale": 0.0}, "target_scale > 0"),
        ({"samples_per_user": 0}, "samples_per_user >= 1"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"link": "probit"}, "Expected link in"),
        ({"link": "logistic", "target_scale": 1.0}, "no target_scale with link='logistic'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    given = {"dim": 8, "epsilon": 1.0, "samples_per_user": 10} | arguments
    with pytest.raises(ValueError, match=message):
        SparseRegression(**given)


@pytest.mark.parametrize(("epsilon", "unknown"), [(2.0, True), (8.0, False)])
def test_standard_errors_that_nothing_checks_have_a_note(epsilon, unknown):
    """Users with two rows, of whom too few are held out to know R2 at epsilon 2."""
    rng = np.random.default_rng([0, 2000, 2])
    rows = rng.normal(size=(4000, 10))
    targets = rows[:, :3] @ [1.0, -0.7, 0.5] + rng.normal(size=4000)
    users = Users(rows, targets, np.arange(0, 4001, 2))
    found = simulate(SparseRegression(10, epsilon=epsilon, samples_per_user=2), users, seed=0)
    assert (1.96 * found.r2_error >= 2) == unknown
    assert any("standard errors may be too small" in note for note in found.notes) == unknown
