"""The same objects in Flower's simulation engine: Ray actors instead of direct calls."""

import time

import numpy as np
import pytest
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from ldp_flower import Numeric, Schema, Users, simulate
from ldp_flower.clients import LdpClientApp
from ldp_flower.strategies import LdpIht, Means

pytestmark = pytest.mark.engine

DIM = 12


def make_users(num_users):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (num_users, DIM))
    theta = np.zeros(DIM)
    theta[[2, 7, 9]] = 0.6, -0.64, 0.48
    return Users.from_rows(x, x @ theta), theta


def strategy():
    return LdpIht(DIM, sparsity=3, epsilon=4.0)


def means():
    schema = Schema({f"x{j}": Numeric(-2, 2) for j in range(1, DIM)}, "y", Numeric(-2, 2))
    return Means(schema, "y", epsilon=1.0)


def run_in_engine(users, num_nodes, seed, more=()):
    """Return the result and the seconds that the strategy took, and results of others after it."""
    found = []
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        started = time.perf_counter()
        result = strategy().start(grid, timeout=300, num_nodes=num_nodes, seed=seed)
        found.extend([result, time.perf_counter() - started])
        found.extend(each.start(grid, num_nodes=num_nodes, seed=seed) for each in more)

    def load_users(context):
        return users.partition(int(context.node_config["partition-id"]), num_nodes)

    run_simulation(
        server_app=server_app,
        client_app=LdpClientApp(load_users, seed=seed),
        num_supernodes=num_nodes,
        # One actor: each imports all there is, which takes longer than the runs.
        backend_config={"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1}},
    )
    return found


@pytest.mark.slow
def test_the_engine_gives_the_estimate_of_the_in_process_grid():
    users, theta = make_users(4000)
    expected = simulate(strategy(), users, seed=3)
    result, _, told = run_in_engine(users, 4, seed=3, more=[means()])
    np.testing.assert_allclose(told.means, simulate(means(), users, seed=3).means, atol=1e-9)
    assert abs(told.means[0, 0] - users.targets.mean()) < 5 * told.std_error[0, 0]
    np.testing.assert_allclose(result.coef, expected.coef, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.std_error, expected.std_error, rtol=0, atol=1e-9)
    assert result.num_reports == 4000 and result.privacy.seeded
    assert np.linalg.norm(result.coef - theta) < 0.2


@pytest.mark.long
def test_two_thousand_nodes_of_one_user_each():
    users, _ = make_users(2000)
    expected = simulate(strategy(), users, seed=3)
    result, seconds = run_in_engine(users, 2000, seed=3)
    print(f"2,000 nodes: {seconds:.1f} s")
    np.testing.assert_allclose(result.coef, expected.coef, rtol=0, atol=1e-9)
    assert result.steps[0].reports == 2000 and result.num_reports == 2000
