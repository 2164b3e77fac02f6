"""A Ray cluster that was started by hand: the engine joins it instead of starting its own."""

import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from ldp_flower import Users, simulate
from ldp_flower.cli.run import Family
from ldp_flower.clients import LdpClientApp
from ldp_flower.strategies import LdpIht

pytestmark = pytest.mark.engine


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def head(monkeypatch):
    """Start a head as a user would; the engine finds it by RAY_ADDRESS."""
    port, client_port = free_ports(2)
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # socket names must be short
    command = [Path(sys.executable).with_name("ray"), "start", "--head", "--block"]
    command += [f"--port={port}", f"--ray-client-server-port={client_port}", "--num-cpus=1"]
    command += ["--include-dashboard=false", "--node-ip-address=127.0.0.1"]
    command += [f"--temp-dir={folder}", "--resources", json.dumps({"started-by-hand": 1})]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    family = Family(process.pid)
    try:
        end = time.monotonic() + 60
        while not _listens(port):
            assert process.poll() is None and time.monotonic() < end, process.stdout.read()
            time.sleep(0.2)
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        yield
    finally:
        family.members()
        family.end(10)
        process.wait()


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_the_engine_joins_a_head_that_was_started_by_hand(head):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (1000, 8))
    users = Users.from_rows(x, 0.6 * x[:, 1] - 0.8 * x[:, 5])
    found = {}
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        import ray

        found["result"] = LdpIht(8, sparsity=2, epsilon=4.0).start(grid, num_nodes=6, seed=3)
        found["resources"] = ray.cluster_resources()

    def load_users(context):
        return users.partition(int(context.node_config["partition-id"]), 6)

    run_simulation(
        server_app=server_app,
        client_app=LdpClientApp(load_users, seed=3),
        num_supernodes=6,
        backend_config={"client_resources": {"num_cpus": 1}},
    )
    assert found["resources"]["started-by-hand"] == 1 and found["resources"]["CPU"] == 1
    expected = simulate(LdpIht(8, sparsity=2, epsilon=4.0), users, seed=3)
    np.testing.assert_allclose(found["result"].coef, expected.coef, rtol=0, atol=1e-9)
