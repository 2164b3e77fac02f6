"""The mean of users' vectors with noise at the node: its errors, missing rows, short bounds."""

import numpy as np
import pytest

from ldp_flower import Users, simulate
from ldp_flower.clients.statistics.sums import mean_and_squares
from ldp_flower.questions import MeanAndSquares
from ldp_flower.questions.sums import FLAG, SQUARE
from ldp_flower.strategies import UserLevelMean

LAWS = {
    "uniform": lambda rng, shape: rng.uniform(-0.3, 0.3, shape),
    "heavy-tailed": lambda rng, shape: 0.05 * rng.standard_t(3, shape),
    "0/1": lambda rng, shape: 0.4 * (rng.random(shape) < 0.1) - 0.04,
}


def at_node(users, bound=1.5, dim=5, seed=0, epsilon=1.0):
    strategy = UserLevelMean(dim, epsilon=epsilon, bound=bound, noise="node")
    return simulate(strategy, users, seed=seed, num_nodes=4)


@pytest.mark.parametrize("law", LAWS)
def test_intervals_hold(law):
    """Of 100 that miss with probability .05, more than 12 do in one case of 1,000."""
    missed = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 31])
        truth = 0.3 * rng.normal(size=5)
        users = Users(truth + LAWS[law](rng, (3000, 5)), np.zeros(3000), np.arange(3001))
        found = at_node(users, seed=seed)
        missed += int((np.abs(found.coef - truth) > 1.96 * found.std_error).sum())
        assert not found.notes
    assert missed <= 12


def test_users_without_rows_do_not_count():
    rng = np.random.default_rng(0)
    rows = 0.5 + 0.1 * rng.normal(size=(6000, 5))
    counts = np.tile([4, 0], 1500)
    users = Users(rows, np.zeros(6000), np.concatenate([[0], np.cumsum(counts)]))
    found = at_node(users, bound=2.0)
    assert (np.abs(found.coef - 0.5) < 4 * found.std_error).all()
    assert (found.std_error < 0.06).all()


def test_a_bound_that_shortens_many_is_told():
    users = Users(np.full((3000, 5), 1.0), np.zeros(3000), np.arange(3001))
    found = at_node(users, bound=1.5)
    assert "take a larger bound" in " ".join(found.notes)
    np.testing.assert_allclose(found.coef, 1.5 / np.sqrt(5), atol=0.1)


def test_the_statistic_is_what_it_says():
    rows = np.array([[0.3, 0.1], [0.5, -0.1], [3.0, 4.0]])
    users = Users(rows, np.zeros(3), np.array([0, 2, 2, 3]))
    found = mean_and_squares(users, MeanAndSquares(2.0))
    mean = np.array([[0.2, 0.0], [0.0, 0.0], [0.6, 0.8]])
    np.testing.assert_allclose(found[:, :2], mean, atol=1e-15)
    np.testing.assert_allclose(found[:, 2:4], SQUARE * mean**2, atol=1e-15)
    np.testing.assert_array_equal(found[:, 4:], [[FLAG, 0], [0, 0], [0, FLAG]])


@pytest.mark.parametrize("option", [{"method": "paper"}, {"spread": 1.0}, {"num_waves": 3}])
def test_arguments_without_effect_are_refused(option):
    (name,) = option
    with pytest.raises(ValueError, match=f"Expected no {name} with noise='node'"):
        UserLevelMean(3, epsilon=1.0, bound=1.0, noise="node", **option)
