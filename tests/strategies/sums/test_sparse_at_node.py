"""Sparse regression with noise at the node: designs that its constants were not chosen by."""

import numpy as np
import pytest
from asked_in_memory import answered

from ldp_flower import Users, simulate
from ldp_flower.strategies import LdpIht, SparseRegression, TooFewReports
from ldp_flower.strategies.runtime import Run
from ldp_flower.strategies.runtime.population import SizeOnlyPopulation
from ldp_flower.strategies.sums.sparse import regress_sparsely

DIM = 20
FEATURES = {
    "pairs": lambda rng, shape: (
        rng.laplace(size=shape) + 1.2 * np.repeat(rng.normal(size=(shape[0], DIM // 2)), 2, axis=1)
    ),
    "not centred, of unlike scales": lambda rng, shape: (
        20 + np.geomspace(1, 4, DIM) * rng.uniform(-1, 1, shape)
    ),
}


def people(features, number, seed, rows=1, sparsity=2):
    """Return users whose targets have skewed noise, and coefficients of the same effect."""
    rng = np.random.default_rng([seed, number, rows])
    x = FEATURES[features](rng, (number * rows, DIM))
    theta = np.zeros(DIM)
    support = rng.choice(DIM, sparsity, replace=False)
    theta[support] = rng.choice([-1.0, 1.0], sparsity) / x.std(axis=0)[support]
    noise = rng.gamma(2.0, size=len(x)) / np.sqrt(2) * np.std(x @ theta)
    groups = np.repeat(np.arange(number), rows) if rows > 1 else None
    return Users.from_rows(x, x @ theta + noise, groups), theta


def fitted(users, nodes, epsilon, seed, rows=1, sparsity=2):
    strategy = LdpIht(DIM, sparsity=sparsity, epsilon=epsilon, noise="node")
    run = Run(strategy, SizeOnlyPopulation(len(users), nodes))
    steps = regress_sparsely(run, DIM, sparsity, rows, 1e-6)
    return answered(steps, users, nodes, np.random.default_rng([seed, 3]))[0]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("features", FEATURES)
def test_coefficients_and_their_errors(features, rows):
    """Three runs of two coefficients: their mean square error over the stated one's is 1.

    If errors are normal it is above 4 once in 2,000 tests of one law.
    """
    squares = []
    for seed in range(3):
        users, theta = people(features, 5000 // rows, seed, rows)
        found = fitted(users, 1, 3.0, seed, rows)
        assert set(found.support) == set(np.flatnonzero(theta))
        off, known = (found.coef - theta)[theta != 0], found.std_error[theta != 0]
        squares += list((off / known) ** 2)
        left = users.targets - found.predict(users.features)
        explained = 1 - np.var(left) / np.var(users.targets)
        assert abs(found.r2 - explained) < 3 * found.r2_error < 0.5
        assert abs(left.mean()) < 0.2 * np.std(users.targets)
    assert np.mean(squares) < 4


@pytest.mark.slow
def test_a_run_on_nodes_says_what_it_is_about():
    users, theta = people("pairs", 3000, 7)
    strategy = LdpIht(DIM, sparsity=2, epsilon=4.0, noise="node")
    found = simulate(strategy, users, seed=0, num_nodes=2)
    assert set(found.support) == set(np.flatnonzero(theta)) and not found.notes
    assert found.privacy.noise == "node" and found.privacy.epsilon == 4.0
    assert "by the same users" in repr(found)


@pytest.mark.slow
def test_how_many_coefficients_differ_from_zero_need_not_be_told():
    users, theta = people("not centred, of unlike scales", 4000, 9, sparsity=3)
    strategy = SparseRegression(DIM, samples_per_user=1, epsilon=3.0, noise="node")
    found = simulate(strategy, users, seed=0, num_nodes=2)
    assert set(found.support) == set(np.flatnonzero(theta)) == set(np.flatnonzero(found.coef))
    assert found.inclusion[theta != 0].min() > 0.99 and found.inclusion[theta == 0].max() < 0.1
    assert np.all(np.abs(found.coef - theta) < 4.5 * found.std_error)  # by chance once in 7,000
    assert found.privacy.noise == "node"


def test_noise_is_called_noise():
    rng = np.random.default_rng(11)
    users = Users.from_rows(rng.normal(size=(3000, DIM)), rng.normal(size=3000))
    found = fitted(users, 1, 2.0, 11)
    assert len(found.notes) >= 2 and found.r2 < 2 * found.r2_error


def test_too_few_are_refused_with_a_number_that_starts():
    strategy = LdpIht(200, sparsity=4, epsilon=1.0, noise="node")
    few = strategy.refusal(1000)
    assert "find 4 of 200 coefficients" in str(few) and "K nodes" in few.advice
    assert strategy.refusal(few.needed) is None
    assert strategy.refusal(few.needed - 1) is not None
    assert strategy.refusal(few.needed, num_nodes=4) is not None
    users = Users.from_rows(np.ones((100, 200)), np.ones(100))
    with pytest.raises(TooFewReports):
        simulate(strategy, users, seed=0)


@pytest.mark.parametrize(
    "given", [{"link": "logistic"}, {"selector": "ridge"}, {"target_scale": 1.0}, {"num_waves": 2}]
)
def test_arguments_of_waves_are_refused(given):
    (name,) = given
    with pytest.raises(ValueError, match=f'no {name} with noise="node"'):
        SparseRegression(DIM, samples_per_user=20, epsilon=1.0, noise="node", **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"samples_per_user": 4}, "Expected a sparsity"),
        ({"sparsity": 2, "link": "logistic"}, 'no link with noise="node"'),
        ({"sparsity": 2, "samples_per_user": 4, "radius": 1.0}, 'no radius with noise="node"'),
        ({"sparsity": 2, "min_reports": 5}, 'no min_reports with noise="node"'),
    ],
)
def test_arguments_without_effect_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        LdpIht(DIM, epsilon=1.0, noise="node", **given)
