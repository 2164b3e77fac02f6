"""Generated users are the users that they stand for."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from ldp_flower import GeneratedUsers, Numeric, Schema, Users, simulate
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.strategies import LdpIht, Means, NonInteractiveIht, RecordDpSgd
from ldp_flower.strategies.models.record_dp_sgd import linear_network

DIM, ROWS = 6, 3


def generate(indices):
    draws = KeyedRandom(derive(7, indices)).normals((len(indices), ROWS * (DIM + 1)))
    draws = draws.reshape(len(indices) * ROWS, DIM + 1)
    x = draws[:, :DIM]
    return Users(x, 2 * x[:, 1] + draws[:, DIM], ROWS * np.arange(len(indices) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("num_nodes", [1, 7])
def test_a_run_on_generated_users_is_the_run_on_the_users_themselves(num_nodes):
    strategy = LdpIht(DIM, sparsity=1, epsilon=4.0, samples_per_user=ROWS)
    lazy = simulate(strategy, GeneratedUsers(2500, DIM, generate), seed=3, num_nodes=num_nodes)
    users = simulate(strategy, generate(np.arange(2500)), seed=3, num_nodes=num_nodes)
    assert lazy.coef[1] > 1
    np.testing.assert_array_equal(lazy.coef, users.coef)


@pytest.mark.parametrize("chunk", [64, 1000])
def test_the_estimate_does_not_depend_on_how_many_are_generated_at_once(monkeypatch, chunk):
    strategy = LdpIht(DIM, sparsity=1, epsilon=4.0, samples_per_user=ROWS)
    largest = []

    def generating(indices):
        largest.append(len(indices))
        return generate(indices)

    expected = simulate(strategy, generate, num_users=2500, seed=3)
    monkeypatch.setattr("ldp_flower.clients.values.CHUNK", chunk)
    result = simulate(strategy, generating, num_users=2500, seed=3)
    assert max(largest) <= chunk < 1024
    np.testing.assert_allclose(result.coef, expected.coef, rtol=0, atol=1e-12)
    by_array = simulate(strategy, generate(np.arange(2500)), seed=3)
    np.testing.assert_allclose(by_array.coef, expected.coef, rtol=0, atol=1e-12)


def test_num_users_belongs_to_a_callable():
    strategy = LdpIht(DIM, sparsity=1, epsilon=4.0)
    with pytest.raises(ValueError, match="Expected num_users with users that a callable"):
        simulate(strategy, generate)
    with pytest.raises(ValueError, match="Expected num_users with a callable only, got 9"):
        simulate(strategy, generate(np.arange(9)), num_users=9)


@pytest.mark.parametrize("users", [np.zeros((3, 2)), (np.zeros((3, 2)), np.zeros(3)), None])
def test_what_are_no_users_is_said(users):
    message = f"Expected Users or .* got {type(users).__name__}; see Users.from_rows"
    with pytest.raises(ValueError, match=message):
        simulate(LdpIht(2, sparsity=1, epsilon=1.0), users)


@pytest.mark.parametrize("table", [pd.DataFrame({"x": [0.5]}), {"x": [0.5]}])
def test_what_makes_users_of_a_table_is_said(table):
    schema = Schema({"x": Numeric(0, 1)})
    with pytest.raises(ValueError, match=r"make them by schema.users\(table\)"):
        simulate(Means(schema, "x", epsilon=1.0), table)


def test_what_is_no_strategy_is_said():
    users = Users.from_rows(np.zeros((3, 2)), np.zeros(3))
    silos = RecordDpSgd(linear_network(2), epsilon=1.0, delta=1e-5, num_rounds=1)
    with pytest.raises(ValueError, match=r"RecordDpSgd asks silos, not users: .*NetworkClientApp"):
        simulate(silos, users)
    with pytest.raises(ValueError, match=r"Expected a strategy, .* got the class LdpIht"):
        simulate(LdpIht, users)
    with pytest.raises(ValueError, match=r"Expected a strategy, .* got Users"):
        simulate(users, LdpIht(2, sparsity=1, epsilon=1.0))


def peak_memory(dim):
    """Return the bytes that 50,000 users with so many features take at most."""

    def many(indices):
        return Users(
            KeyedRandom(derive(7, indices)).normals((len(indices), dim)),
            np.zeros(len(indices)),
            np.arange(len(indices) + 1),
        )

    strategy = NonInteractiveIht(dim, sparsity=1, epsilon=4.0)
    simulate(strategy, many, num_users=1000, seed=3)  # caches and imports
    tracemalloc.start()
    try:
        simulate(strategy, many, num_users=50_000, seed=3)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_data():
    """With 256 features instead of 16 there are 96 MB more of them."""
    assert peak_memory(256) - peak_memory(16) < 24e6


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
