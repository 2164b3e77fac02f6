"""LDP-IHT: utility on fresh seeds, its schedule, and what it refuses."""

import numpy as np
import pytest

from ldp_flower import InProcessGrid, Numeric, Schema, Users, simulate
from ldp_flower.clients import LdpClientApp
from ldp_flower.strategies import LdpIht, TooFewReports


def signs(num_users, dim, seed, sparsity=4, noise=0.05):
    """Return users with one record each, x uniform in {-1, 1}^dim, and a theta of norm 1."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (num_users, dim))
    theta = np.zeros(dim)
    theta[rng.choice(dim, sparsity, replace=False)] = rng.standard_normal(sparsity)
    theta /= np.linalg.norm(theta)
    return Users.from_rows(x, x @ theta + rng.uniform(-noise, noise, num_users)), theta


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "num_users", "mean", "maximum"), [(32, 30_000, 0.008, 0.02), (64, 60_000, 0.008, 0.02)]
)
def test_relative_error_on_ten_seeds(dim, num_users, mean, maximum):
    errors = []
    for seed in range(10):
        users, theta = signs(num_users, dim, seed)
        result = simulate(LdpIht(dim, sparsity=4, epsilon=2.0), users, seed=seed)
        errors.append(np.linalg.norm(result.coef - theta))
        assert result.num_reports == num_users and result.privacy.epsilon == 2.0
    assert np.mean(errors) <= mean and max(errors) <= maximum


@pytest.mark.parametrize("seed", range(5))
def test_far_too_few_users_give_a_result_that_says_so(seed):
    users, _ = signs(1000, 32, seed)
    result = simulate(LdpIht(32, sparsity=4, epsilon=0.5), users, seed=seed)
    support = result.support
    assert len(support) == 4 and np.isfinite(result.coef).all()
    assert np.linalg.norm(result.std_error) >= np.linalg.norm(result.coef)
    assert np.median(result.std_error[support] / np.abs(result.coef[support])) >= 1
    assert "this may be noise and nothing else" in result.notes[0]


def test_one_coefficient_that_stands_out_is_no_doubt():
    users, _ = signs(3000, 8, 0, sparsity=1)
    result = simulate(LdpIht(8, sparsity=3, epsilon=2.0), users, seed=0)
    assert (np.abs(result.coef) > 2 * result.std_error)[result.support].sum() < 3
    assert not result.notes


@pytest.mark.slow
def test_standard_errors_cover_the_truth():
    """Where the last step decides (no clipping bias, support found): 2 sd, 95 %.

    Were the errors normal with the stated spread, at most 85 % of 76 coefficients would
    be covered once in 6,000 times, and their mean square be outside of the interval
    below once in 5,000. (They are a little smaller: projecting on the ball shortens them.)
    """
    scores: list[float] = []
    for seed in range(20):
        users, theta = signs(40_000, 16, 100 + seed, noise=0.0)
        result = simulate(LdpIht(16, sparsity=4, epsilon=4.0), users, seed=seed)
        if set(result.support) == set(np.flatnonzero(theta)):
            errors = (result.coef - theta)[result.support]
            scores += (errors / result.std_error[result.support]).tolist()
    assert len(scores) >= 60
    assert np.mean(np.abs(scores) < 2) > 0.85
    assert 0.5 < np.mean(np.square(scores)) < 1.72


def test_uniform_features_need_their_variance_declared():
    rng = np.random.default_rng(0)
    theta = np.zeros(20)
    theta[[2, 11]] = 0.6, -0.8
    x = rng.uniform(-1, 1, (60_000, 20))
    users = Users.from_rows(x, x @ theta + rng.uniform(-0.05, 0.05, 60_000))
    strategy = LdpIht(20, sparsity=2, epsilon=2.0, feature_variance=1 / 3)
    assert np.linalg.norm(simulate(strategy, users, seed=0).coef - theta) < 0.1


@pytest.mark.parametrize(("num_nodes", "samples_per_user"), [(30, 1), (7, 5)])
def test_the_estimate_does_not_depend_on_the_number_of_nodes(num_nodes, samples_per_user):
    users, _ = signs(3000, 12, 0)
    if samples_per_user > 1:
        users = Users.from_rows(users.features, users.targets, np.arange(3000) // 5)
    strategy = LdpIht(12, sparsity=3, epsilon=4.0, samples_per_user=samples_per_user)
    one = simulate(strategy, users, seed=5)
    many = simulate(strategy, users, seed=5, num_nodes=num_nodes)
    assert one.coef.any()
    np.testing.assert_allclose(many.coef, one.coef, rtol=0, atol=1e-9)
    np.testing.assert_allclose(many.std_error, one.std_error, rtol=0, atol=1e-9)
    assert [s.reports for s in many.steps[1:]] == [s.reports for s in one.steps[1:]]


def test_another_seed_is_another_result_and_none_is_the_systems_randomness():
    users, _ = signs(3000, 12, 0)
    strategy = LdpIht(12, sparsity=3, epsilon=4.0)
    runs = [simulate(strategy, users, seed=seed) for seed in (1, 2, None, None)]
    assert len({run.coef.tobytes() for run in runs}) == 4
    assert [run.privacy.seeded for run in runs] == [True, True, False, False]


def several_records(seed, num_users=2000, dim=30):
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(num_users), rng.integers(1, 40, num_users))
    x = rng.standard_normal((len(user), dim)) + 0.5 * rng.standard_normal((num_users, dim))[user]
    theta = np.zeros(dim)
    theta[[4, 20]] = 0.8, -0.4
    return x, x @ theta + 0.5 * rng.standard_normal(len(user)), user, theta


@pytest.mark.parametrize("target_scale", [None, 1.0])
def test_several_records_per_user(target_scale):
    strategy = LdpIht(
        30,
        sparsity=2,
        epsilon=4.0,
        samples_per_user=20,
        radius=2.0,
        target_scale=target_scale,
    )
    errors = []
    for seed in range(3):
        x, y, user, theta = several_records(seed)
        result = simulate(strategy, Users.from_rows(x, y, user), seed=seed)
        errors.append(np.linalg.norm(result.coef - theta))
        estimated = [step.statistic for step in result.steps].count("target_scale")
        assert estimated == (target_scale is None)
        assert np.isnan(result.std_error).all() and "are not known" in result.notes[-1]
    assert np.median(errors) < 0.2


def test_badly_scaled_features_do_not_make_it_diverge():
    x, y, user, _ = several_records(0)
    x[:, 0] += 3.0  # uncentred: the largest curvature is about 10 times the usual
    strategy = LdpIht(30, sparsity=2, epsilon=4.0, samples_per_user=20, radius=10.0)
    for seed in range(2):
        result = simulate(strategy, Users.from_rows(x, y, user), seed=seed)
        assert np.mean((y - x @ result.coef) ** 2) < 1.05 * np.mean(y**2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("correlated", "epsilon", "least"),
    [(False, 1.0, 0.3), (False, 4.0, 0.93), (True, 1.0, 0.45), (True, 4.0, 0.9)],
)
def test_r2_of_noiseless_targets(correlated, epsilon, least):
    """Medians of six runs are .52 to .97; gradient steps had -.2 to .96."""
    scores = []
    for seed in range(6):
        rng = np.random.default_rng([7, seed])
        x = rng.standard_normal((20_000, 30))
        if correlated:
            x = (x + rng.standard_normal((20_000, 1))) / np.sqrt(2)
        theta = rng.standard_normal(30)
        signal = x @ theta
        y = signal + np.std(signal) * rng.standard_normal(20_000)
        strategy = LdpIht(30, epsilon=epsilon, samples_per_user=10)
        users = Users.from_rows(x, y, np.arange(20_000) // 10)
        missed = signal - x @ simulate(strategy, users, seed=seed).coef
        scores.append(1 - np.mean(missed**2) / np.var(signal))
    assert np.median(scores) > least


def test_many_columns_far_from_centred():
    """The largest curvature is some 120; gradient steps did no better than zero here."""
    x, y, user, _ = several_records(0)
    users = Users.from_rows(x + 2.0, y, user)
    strategy = LdpIht(30, epsilon=4.0, samples_per_user=20)
    for seed in range(2):
        coef = simulate(strategy, users, seed=seed).coef
        assert np.mean((users.targets - users.features @ coef) ** 2) < 0.7 * np.mean(y**2)


def test_without_a_sparsity_sparse_coefficients_are_found_all_the_same():
    x, y, user, theta = several_records(1, num_users=4000)
    strategy = LdpIht(30, epsilon=4.0, samples_per_user=20)
    result = simulate(strategy, Users.from_rows(x, y, user), seed=0)
    assert np.linalg.norm(result.coef - theta) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("sparsity", [None, 2])
def test_noise_that_cannot_be_beaten_is_said(sparsity):
    """It may go unsaid once in 28 runs, as the largest of 30 stands out: three of eight, 1e-3."""
    noted = 0
    for seed in range(8):
        rng = np.random.default_rng([3, seed])
        x, y = rng.standard_normal((6000, 30)), rng.standard_normal(6000)
        strategy = LdpIht(30, sparsity=sparsity, epsilon=1.0, samples_per_user=10)
        result = simulate(strategy, Users.from_rows(x, y, np.arange(6000) // 10), seed=seed)
        noted += any("this may be noise and nothing else" in note for note in result.notes)
    assert noted >= 6


def test_data_that_are_not_finite_cost_their_users_only():
    users, theta = signs(20_000, 12, 3)
    users.features[::10] = np.nan
    users.targets[5::10] = np.inf
    result = simulate(LdpIht(12, sparsity=4, epsilon=4.0), users, seed=0)
    # A fifth of the users report zeros, so every step is a fifth short; six make up for it
    # but for the last one's, whose clip has shrunk as if it were not.
    assert np.linalg.norm(result.coef - theta) < 0.15
    assert result.num_reports == 20_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "Expected 1e-06 <= epsilon <= 100, got 0.0"),
        ({"epsilon": -1.0}, "Expected 1e-06 <= epsilon <= 100, got -1.0"),
        ({"epsilon": float("nan")}, "Expected 1e-06 <= epsilon <= 100, got nan"),
        ({"dim": 0}, "Expected an integer dim >= 1, got 0"),
        ({"sparsity": 0}, "Expected an integer 1 <= sparsity <= 8, got 0"),
        ({"sparsity": 9}, "Expected an integer 1 <= sparsity <= 8, got 9"),
        ({"sparsity": 2.5}, "Expected an integer 1 <= sparsity <= 8, got 2.5"),
        ({"samples_per_user": 0}, "Expected an integer samples_per_user >= 1, got 0"),
        ({"radius": 0.0}, "Expected radius > 0 and finite, got 0.0"),
        ({"noise_scale": -1.0}, "Expected noise_scale > 0 and finite, got -1.0"),
        ({"feature_variance": float("inf")}, "Expected feature_variance > 0 and finite, got inf"),
        ({"target_scale": float("nan")}, "Expected target_scale > 0 and finite, got nan"),
        ({"min_reports": 0}, "Expected an integer min_reports >= 1, got 0"),
        (
            {"sparsity": None},
            "Expected a sparsity with one record per user .samples_per_user=1., got None",
        ),
        (
            {"dim": Schema({"x": Numeric(0, 1)}, "y", Numeric(0, 1))},
            r"Expected an integer dim >= 1, got a Schema.* PrivateRegression\(schema, ",
        ),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments, message):
    good = {"dim": 8, "sparsity": 2, "epsilon": 1.0}
    with pytest.raises(ValueError, match=message):
        LdpIht(**good | arguments)


def test_a_strategy_of_another_dimension_is_told_so():
    users, _ = signs(500, 12, 0)
    grid = InProcessGrid(LdpClientApp(lambda context: users), 1)
    with pytest.raises(ValueError, match=r"rows have 13 features, as this LdpIht needs, got 12"):
        LdpIht(13, sparsity=2, epsilon=2.0).start(grid, timeout=1, num_nodes=1)


def linked(link, seed, num_users=100_000, dim=64):
    """Return users whose targets depend on four of their features through a link."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (num_users, dim)).astype(np.float32)
    theta = np.zeros(dim)
    support = rng.choice(dim, 4, replace=False)
    if link == "logistic":
        theta[support] = rng.choice([-1.0, 1.0], 4)
        y = (rng.random(num_users) < 1 / (1 + np.exp(-x @ theta))).astype(float)
    else:
        theta[support] = rng.standard_normal(4)
        theta /= np.linalg.norm(theta)
        y = 2 * (x @ theta) + np.cos(x @ theta) + rng.uniform(-0.05, 0.05, num_users)
    return Users.from_rows(x, y), theta


@pytest.mark.parametrize(
    ("link", "epsilon", "radius", "largest"),
    [("logistic", 4.0, 2.0, 0.2), ("cosine", 2.0, 1.0, 0.05)],
)
def test_other_links(link, epsilon, radius, largest):
    strategy = LdpIht(64, sparsity=4, epsilon=epsilon, radius=radius, link=link)
    for seed in (3000, 3001):
        users, theta = linked(link, seed)
        result = simulate(strategy, users, seed=seed)
        assert np.linalg.norm(result.coef - theta) <= largest * np.linalg.norm(theta)
        assert result.privacy.epsilon == epsilon and result.num_reports == 100_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"link": "probit"}, "Expected link in .*, got 'probit'"),
        (
            {"link": "logistic", "samples_per_user": 2},
            "Expected samples_per_user = 1 with the link logistic, got 2",
        ),
    ],
)
def test_links_that_it_does_not_have_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LdpIht(8, sparsity=2, epsilon=1.0, **arguments)


def test_classes_are_the_same_however_they_are_coded():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (4000, 8))
    one = rng.random(4000) < 1 / (1 + np.exp(-2 * x[:, 1]))
    strategy = LdpIht(8, sparsity=2, epsilon=4.0, link="logistic", radius=2.0)
    found = [
        simulate(strategy, Users.from_rows(x, np.where(one, 1.0, zero)), seed=0).coef
        for zero in (0.0, -1.0)
    ]
    np.testing.assert_array_equal(*found)
    assert 1 in np.flatnonzero(found[0])


def test_classes_from_too_few_users_are_refused_before_anybody_is_asked():
    users = Users.from_rows(np.ones((8000, 37)), np.zeros(8000))
    strategy = LdpIht(37, sparsity=37, epsilon=4.0, link="logistic")
    with pytest.raises(TooFewReports, match=r"PrivateClassification.* At least 41,\d+ users"):
        simulate(strategy, users, seed=0)


def test_what_is_chosen_from_noise_says_so():
    """One in seven need not: fewer than 14 of 20 in one test of 60.

    Of a rule that leaves out half, 14 of 20 would say so in 6 % of tests.
    """
    noted = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y = rng.choice([-1.0, 1.0], (3000, 30)), rng.normal(size=3000)
        strategy = LdpIht(30, sparsity=3, epsilon=1.0, radius=2.0)
        result = simulate(strategy, Users.from_rows(x, y), seed=seed)
        noted += any("as the largest of 30 may be by chance" in note for note in result.notes)
    assert noted >= 14
