"""UserLevelMean: errors, standard errors, radii, and data that are not as hoped.

Seeds are fixed; each bound says how often chance would break it.
"""

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.planning.in_memory import run_in_memory
from ldp_flower.randomizers import ball_codebook
from ldp_flower.strategies import ContradictedValue, TooFewReports, UserLevelMean
from ldp_flower.strategies.subprotocols.coordinate_mean import CoordinateMean


def on_spheres(num_users, dim, spread, seed, length=1.0):
    """Return users of one row each, all at one distance from their common mean."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(dim)
    truth *= length / np.linalg.norm(truth)
    away = rng.standard_normal((num_users, dim))
    x = truth + spread * away / np.linalg.norm(away, axis=1)[:, None]
    return Users.from_rows(x, np.zeros(num_users)), truth


def strategy(dim, method="auto", **arguments):
    bound = 2.0 if method == "auto" else 2.0 / np.sqrt(dim)
    defaults = {"epsilon": 4.0, "bound": bound}
    if method == "paper" and "spread" not in arguments:
        defaults["samples_per_user"] = 100
    return UserLevelMean(dim, method=method, **defaults | arguments)


@pytest.mark.parametrize(
    ("method", "dim", "num_users", "rms"),
    [("auto", 16, 2000, 0.05), ("auto", 4, 2000, 0.03), ("paper", 16, 8000, 0.1)],
)
def test_error_on_eight_seeds(method, dim, num_users, rms):
    """Bounds are at least 1.2 times the errors in simulations/user_level for such settings."""
    squares = []
    for seed in range(8):
        users, truth = on_spheres(num_users, dim, 0.1 * np.sqrt(dim), seed)
        result = simulate(strategy(dim, method), users, seed=seed)
        squares.append(np.sum((result.coef - truth) ** 2))
        assert result.num_reports == num_users and result.privacy.epsilon == 4.0
        assert not result.notes
    assert np.sqrt(np.mean(squares)) < rms


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "paper"])
def test_standard_errors_cover_the_truth_where_nothing_is_clipped(method):
    """Were scores normal, 160 of them would leave these bounds once in 1,000 times."""
    scores = []
    settings = {"spread": 0.28} if method == "paper" else {}
    for seed in range(20):
        users, truth = on_spheres(6000, 8, 0.28, seed)
        result = simulate(strategy(8, method, **settings), users, seed=seed)
        scores.append((result.coef - truth) / result.std_error)
    assert np.mean(np.abs(scores) < 2) > 0.89
    assert 0.65 < np.mean(np.square(scores)) < 1.45


@pytest.mark.slow
@pytest.mark.parametrize(
    "epsilon",
    [pytest.param(1.0, marks=pytest.mark.long), 2.0, pytest.param(8.0, marks=pytest.mark.long)],
)
def test_standard_errors_are_neither_too_narrow_nor_too_wide(epsilon):
    """Over 100 seeds: were scores normal, 300 of them would be above 1.34 once in 10,000 times.

    They contain what clipping might hide of other laws, and so are wider for this one. They are
    those of the population's mean. The users' own is closer at epsilon 8.
    """
    of_population, of_users = [], []
    for seed in range(100):
        users, truth = on_spheres(600, 3, 0.5, seed)
        result = run_in_memory(strategy(3, epsilon=epsilon), users, seed).result
        of_population.append((result.coef - truth) / result.std_error)
        of_users.append((result.coef - users.features.mean(axis=0)) / result.std_error)
    assert 0.5 < np.mean(np.square(of_population)) < 1.34
    assert 0.93 < np.mean(np.abs(of_population) < 2) < 0.995
    if epsilon == 8.0:
        assert np.mean(np.square(of_users)) < 0.5


def test_recentring_pays():
    """Squared errors of waves, over 10 seeds, and of one look at the whole ball: 1 to 3 or less."""
    square, ball = 0.0, ball_codebook(4.0, 16, 6.0)
    for seed in range(10):
        users, truth = on_spheres(3000, 16, 0.4, seed, length=3.0)
        square += np.sum((simulate(strategy(16, bound=6.0), users, seed=seed).coef - truth) ** 2)
    assert square < 10 * 16 * ball.variance / 3000 / 3


@pytest.mark.parametrize("method", ["auto", "paper"])
def test_the_estimate_does_not_depend_on_the_number_of_nodes(method):
    users, _ = on_spheres(900, 6, 0.3, 0)
    one = simulate(strategy(6, method), users, seed=5)
    many = simulate(strategy(6, method), users, seed=5, num_nodes=7)
    np.testing.assert_allclose(many.coef, one.coef, rtol=0, atol=1e-9)
    np.testing.assert_allclose(many.std_error, one.std_error, rtol=0, atol=1e-9)
    assert one.privacy.exact and one.privacy.epsilon == 4.0


def test_every_report_of_the_paper_costs_the_whole_epsilon_once():
    users, _ = on_spheres(900, 6, 0.3, 0)
    result = simulate(strategy(6, "paper"), users, seed=1)
    assert [step.statistic for step in result.steps[1:]] == ["rotated_mean_bins", "rotated_mean"]
    assert {step.mechanism for step in result.steps[1:]} == {"SampledCoordinate"}
    assert sum(step.reports for step in result.steps[1:]) == 900
    assert result.privacy.epsilon == 4.0 and result.privacy.exact


@pytest.mark.parametrize("method", ["auto", "paper"])
def test_users_without_rows_or_with_bad_ones_report_like_all_others(method):
    users, truth = on_spheres(4000, 6, 0.3, 0)
    users.features[::50, 2] = np.nan
    users.features[1::50] = np.inf
    users.features[2::50, 1] = 1e300
    rows = np.ones(4000, np.int64)
    rows[3::50] = 0
    offsets = np.concatenate([[0], np.cumsum(rows)])
    users = Users(users.features[rows > 0], np.zeros(rows.sum()), offsets)
    result = simulate(strategy(6, method), users, seed=0)
    assert result.num_reports == 4000
    # One user in 50 reports the end of its domain, three a centre: no more than that.
    assert np.linalg.norm(result.coef - truth) < 0.35


def test_too_few_users_are_told_apart_by_what_they_are_too_few_for():
    users, _ = on_spheres(200, 6, 0.3, 0)
    doubtful = simulate(strategy(6, "paper", epsilon=1.0), users, seed=0)
    assert "The ranges of 8 coordinates were asked of 12 users each" in doubtful.notes[0]
    few, _ = on_spheres(9, 6, 0.3, 0)
    with pytest.raises(TooFewReports):
        simulate(strategy(6), few, seed=0)


def test_the_range_is_cut_into_bins_as_wide_as_users_are_spread():
    wide = CoordinateMean(1.0, 16, 1.0, 1.0)
    assert wide.num_bins == 1 and wide.sizes(101) == [101] and wide.notes(10) == []
    fine = CoordinateMean(1.0, 12, 4.0, 0.1)
    assert fine.sizes(101) == [50, 51]
    width = 2 * fine.reach / fine.num_bins
    assert 4 * 0.1 / 4 <= width < 8 * 0.1 / 4
    assert fine.reach == pytest.approx(4 * np.sqrt(2 * np.log(32 / 0.05) / 16))
    assert CoordinateMean(1.0, 2, 4.0, 0.1).reach == 4.0  # no longer than the vector


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "Expected an integer dim >= 1, got 0"),
        ({"epsilon": 0.0}, "Expected 1e-06 <= epsilon <= 100, got 0.0"),
        ({"samples_per_user": 0}, "Expected an integer samples_per_user >= 1, got 0"),
        ({"bound": -1.0}, "Expected bound > 0 and finite, got -1.0"),
        ({"method": "best"}, r"Expected method in \['auto', 'paper'\], got 'best'"),
        ({"spread": 0.0}, "Expected spread > 0 and finite, got 0.0"),
        ({"num_waves": 0}, "Expected an integer num_waves >= 1, got 0"),
        ({"min_reports": 0}, "Expected an integer min_reports >= 1, got 0"),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments, message):
    good = {"dim": 8, "epsilon": 1.0, "bound": 1.0}
    if "samples_per_user" in arguments:
        good["method"] = "paper"
    with pytest.raises(ValueError, match=message):
        UserLevelMean(**good | arguments)


LAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "rare": lambda rng, shape: (rng.binomial(1, 0.1, shape) - 0.1) / 0.3,
    "skewed": lambda rng, shape: rng.exponential(1, shape) - 1,
    "two kinds": lambda rng, shape: (
        rng.standard_normal(shape) * np.where(rng.random((shape[0], 1)) < 0.3, 1.7, 0.4)
    ),
    "heavy-tailed": lambda rng, shape: rng.standard_t(4, shape) / 2**0.5,
}


@pytest.mark.parametrize("spread", [0.5, 0.02, pytest.param(1e-4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dim", [pytest.param(1, marks=pytest.mark.slow), 4, 20])
@pytest.mark.parametrize("law", LAWS)
def test_nothing_about_users_need_be_known(law, dim, spread):
    """Six runs at epsilon 3: standard errors hold, and errors go with the users' spread.

    Stated errors may be too wide, where what clipping could hide is not there. That six runs of
    normal scores are 1.75 of the stated ones has probability 2e-4 with one coordinate. A single
    coordinate of which nine in ten users have one value is the hardest case.
    """
    scores, errors = [], []
    for seed in range(6):
        rng = np.random.default_rng([seed, dim])
        truth = rng.standard_normal(dim)
        truth /= np.linalg.norm(truth)
        x = truth + spread / np.sqrt(dim) * LAWS[law](rng, (4000, dim))
        result = simulate(UserLevelMean(dim, epsilon=3.0, bound=2.0), Users.from_rows(x), seed=seed)
        scores.append(np.mean(((result.coef - truth) / result.std_error) ** 2))
        errors.append(np.linalg.norm(result.coef - truth))
    assert np.sqrt(np.mean(scores)) < (2.5 if (law, dim) == ("rare", 1) else 1.75)
    assert np.sqrt(np.mean(np.square(errors))) < 0.25 * spread + 0.0025


def test_a_bound_that_most_users_are_beyond_is_refused_before_the_others_are_asked():
    users, _ = on_spheres(2000, 4, 0.3, 0, length=3.0)
    with pytest.raises(ContradictedValue, match="Expected vectors within a bound of 1, but about"):
        simulate(strategy(4, bound=1.0), users, seed=0)
    assert not simulate(strategy(4, bound=4.0), users, seed=0).notes


def test_what_reports_say_is_not_declared():
    with pytest.raises(ValueError, match="Expected no samples_per_user with method='auto'"):
        UserLevelMean(4, epsilon=1.0, bound=1.0, samples_per_user=1)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [0.02, 0.1, 5.0])
def test_a_declared_spread_helps_few_users_and_one_that_is_wrong_is_not_believed(wrong):
    """Ten runs of 2,000 users at epsilon 1; of the wrong ones at 4, where reports know better."""
    found = {}
    for name, epsilon, spread in (
        *(("none", 1.0, None), ("right", 1.0, 0.2)),
        *(("wrong", 4.0, 0.2 * wrong), ("unknown", 4.0, None)),
    ):
        errors, scores = [], []
        for seed in range(10):
            users, truth = on_spheres(2000, 4, 0.2, seed)
            result = simulate(strategy(4, epsilon=epsilon, spread=spread), users, seed=seed)
            errors.append(np.sum((result.coef - truth) ** 2))
            scores.append(np.mean(((result.coef - truth) / result.std_error) ** 2))
        found[name] = np.sqrt(np.mean(errors))
        assert np.sqrt(np.mean(scores)) < 1.5  # of normal scores once in 10,000 times
    assert found["right"] < 0.8 * found["none"]
    assert found["wrong"] < 2.5 * found["unknown"]
