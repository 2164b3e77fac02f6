"""SparseMean: error, support and standard errors on fresh seeds, odd data, and its audit."""

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.audit import audit_handler, extreme_users, recorded_queries
from ldp_flower.strategies import SparseMean, TooFewReports


def make_users(num_users, rows, dim, seed, support=8, size=0.2, scale=1.0):
    """Return users with normal rows of unit variance around a sparse mean."""
    rng = np.random.default_rng(seed)
    mean = np.zeros(dim)
    mean[rng.choice(dim, support, replace=False)] = size * rng.choice([-1, 1], support)
    x = scale * (mean + rng.standard_normal((num_users * rows, dim)))
    return Users(x, np.zeros(len(x)), rows * np.arange(num_users + 1)), scale * mean


def fit(users, dim, seed, epsilon=4.0, num_nodes=1, **arguments):
    strategy = SparseMean(dim, epsilon=epsilon, **arguments)
    return simulate(strategy, users, seed=seed, num_nodes=num_nodes)


@pytest.mark.parametrize("dim", [128, 16])
def test_error_support_and_coverage(dim):
    """Measured: .03 to .08, returning zero .566. Of 24 at 95 %, 17 or fewer once in 10,000."""
    errors, within = [], []
    for seed in range(3):
        users, mean = make_users(400, 100, dim, seed)
        result = fit(users, dim, seed)
        support = np.flatnonzero(mean)
        assert result.support.tolist() == support.tolist()
        assert (result.privacy.epsilon, result.privacy.exact) == (4.0, True)
        assert ("outstanding_features" in [s.statistic for s in result.steps]) == (dim > 48)
        errors.append(np.linalg.norm(result.coef - mean))
        within += (np.abs(result.coef - mean)[support] < 2 * result.std_error[support]).tolist()
    assert np.mean(errors) < 0.1
    assert sum(within) > 17


def test_it_is_equivariant_to_the_scale_of_the_data():
    """A power of two that is a whole number of bins away: the same draws, scaled."""
    users, _ = make_users(300, 20, 24, 0, size=0.5)
    times_four = Users(4 * users.features, users.targets, users.offsets)
    one = fit(users, 24, 0)
    np.testing.assert_allclose(fit(times_four, 24, 0).coef, 4 * one.coef, rtol=1e-6)


def test_one_row_per_user_is_enough_if_it_stands_out():
    users, mean = make_users(600, 1, 96, 0, support=3, size=2.0)
    result = fit(users, 96, 0)
    assert result.support.tolist() == np.flatnonzero(mean).tolist()
    assert np.linalg.norm(result.coef - mean) < 0.3 * np.linalg.norm(mean)


def test_nothing_is_found_where_nothing_is_and_it_is_said_what_it_would_take():
    users, _ = make_users(400, 20, 128, 0, size=0.0)
    result = fit(users, 128, 0)
    assert not len(result.support) and np.linalg.norm(result.coef) < 0.05
    assert "twice the standard deviation of users' means" in result.notes[0]
    assert "users at epsilon 4" in result.notes[0]


def test_the_scale_is_refused_where_it_would_take_too_many_users():
    users, _ = make_users(100, 20, 8, 0, support=2)
    with pytest.raises(TooFewReports, match="Declare scale if it is public"):
        fit(users, 8, 0, epsilon=1.0)
    declared = fit(users, 8, 0, epsilon=1.0, scale=0.7)
    assert "distance_scale" not in [step.statistic for step in declared.steps]


@pytest.mark.parametrize("num_nodes", [7, 150])
def test_the_estimate_does_not_depend_on_the_number_of_nodes(num_nodes):
    users, _ = make_users(300, 20, 64, 3, size=0.5)
    one, many = fit(users, 64, 4), fit(users, 64, 4, num_nodes=num_nodes)
    np.testing.assert_allclose(many.coef, one.coef, rtol=1e-7, atol=1e-9)


def test_odd_users_send_valid_reports():
    """No rows, one row, constant columns, huge numbers, NaN; the mean is found all the same."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.choice([0, 1, 30, 200], 600))])
    x = rng.standard_normal((offsets[-1], 60))
    x[:, 3] += 1.0
    x[:, 5] = 0.0
    x[offsets[10] : offsets[11]] = np.nan
    x[offsets[12] : offsets[13]] = 1e300
    result = fit(Users(x, np.zeros(len(x)), offsets), 60, 0)
    assert result.num_reports == 600
    assert 3 in result.support and abs(result.coef[3] - 1) < 0.5
    assert np.abs(np.delete(result.coef, 3)).max() < 0.1


@pytest.mark.long
def test_every_handler_keeps_its_promise():
    small = SparseMean(6, epsilon=2.0, num_waves=1)
    voted = SparseMean(64, epsilon=4.0, scale=2.0, num_waves=1)
    queries = recorded_queries(small, make_users(500, 12, 6, 0, support=2)[0])
    queries += recorded_queries(voted, make_users(200, 12, 64, 0, support=2)[0])
    assert {query.statistic for query in queries} == {
        "distance_scale",
        "weighted_mean",
        "outstanding_features",
    }
    for query in queries:
        dim = len(getattr(query.question, "centre", np.zeros(64)))
        found = audit_handler(query, extreme_users(dim), num_reports=400, seed=1)
        assert found.passed, found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "1e-06 <= epsilon"),
        ({"scale": -1.0}, "Expected scale > 0 and finite, got -1"),
        ({"num_waves": 0}, "num_waves >= 1"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SparseMean(8, **{"epsilon": 1.0} | arguments)
