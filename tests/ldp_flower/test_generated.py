"""Generated users are the users that they stand for."""

import numpy as np
import pytest

from ldp_flower import GeneratedUsers, Users, simulate
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.strategies import LdpIht

DIM, ROWS = 6, 3


def generate(indices):
    draws = KeyedRandom(derive(7, indices)).normals((len(indices), ROWS * (DIM + 1)))
    draws = draws.reshape(len(indices) * ROWS, DIM + 1)
    x = draws[:, :DIM]
    return Users(x, 2 * x[:, 1] + draws[:, DIM], ROWS * np.arange(len(indices) + 1))


@pytest.mark.parametrize("num_nodes", [1, 7])
def test_a_run_on_generated_users_is_the_run_on_the_users_themselves(num_nodes):
    strategy = LdpIht(DIM, sparsity=1, epsilon=4.0, samples_per_user=ROWS, radius=3.0)
    lazy = simulate(strategy, GeneratedUsers(2500, DIM, generate), seed=3, num_nodes=num_nodes)
    users = simulate(strategy, generate(np.arange(2500)), seed=3, num_nodes=num_nodes)
    assert lazy.coef[1] > 1
    np.testing.assert_array_equal(lazy.coef, users.coef)


def test_only_the_users_that_are_asked_are_generated():
    asked = []

    def generating(indices):
        asked.append(indices)
        return generate(indices)

    users = GeneratedUsers(10**9, DIM, generating).partition(1, 1000)
    assert len(users) == 10**6 and not asked
    taken = users.take(np.array([5, 2]), max_rows=2)
    assert taken.num_rows.tolist() == [2, 2]
    assert [i.tolist() for i in asked] == [[10**6 + 5, 10**6 + 2]]


def test_a_generator_that_returns_something_else_is_an_error():
    users = GeneratedUsers(10, DIM + 1, generate)
    with pytest.raises(ValueError, match="Expected generate to return 1 users with 7 features"):
        users.take(np.array([0]))
    with pytest.raises(ValueError, match="num_users"):
        GeneratedUsers(-1, DIM, generate)
