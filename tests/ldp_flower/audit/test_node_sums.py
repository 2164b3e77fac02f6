"""The audit of noise at the node: an honest client passes, and planted faults are found.

An honest client fails with probability .001 for a new seed; the seeds are fixed.
"""

import numpy as np
import pytest
from typer.testing import CliRunner

from ldp_flower.audit import audit_handler, extremes
from ldp_flower.audit.runs import audited_runs, with_noise_at_node
from ldp_flower.cli import app
from ldp_flower.clients import node_sums
from ldp_flower.randomizers import BallSum, CellSum, sums
from ldp_flower.strategies.runtime.at_node import AtNode

DIM = 6


@pytest.fixture(scope="module")
def queries():
    return {name: with_noise_at_node(name, DIM, 2.0)[0] for name in ("Means", "Counts")}


def audited(query, num_reports=400):
    return audit_handler(query, extremes(query, DIM), num_reports=num_reports, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Means", "Counts"])
def test_an_honest_client_passes(queries, name):
    found = audited(queries[name])
    assert found.passed, found.checks
    assert found.claimed == 2.0 and 0 <= found.measured < 2.0
    assert set(found.checks) >= {"user bound", "noise", "replay", "ledger", "rehearsal"}


@pytest.mark.slow
@pytest.mark.usefixtures("half_the_variance")
def test_half_of_the_variance_is_found(queries):
    found = audited(queries["Means"])
    assert not found.checks["noise"] and found.checks["user bound"]


@pytest.mark.slow
def test_one_draw_for_all_coordinates_is_found(queries, monkeypatch):
    honest = sums.discrete_gaussian
    monkeypatch.setattr(
        sums, "discrete_gaussian", lambda size, rng: np.repeat(honest(1, rng), size)
    )
    assert not audited(queries["Means"]).checks["noise"]


@pytest.mark.slow
def test_missing_noise_is_measured(queries, monkeypatch):
    honest = sums.discrete_gaussian
    monkeypatch.setattr(sums, "discrete_gaussian", lambda size, rng: honest(size, rng) // 1000)
    found = audited(queries["Counts"])
    assert found.measured > 2.0 and not found.checks["loss"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mechanism", "tenths"),
    [("Counts", CellSum, 11), pytest.param("Means", BallSum, 12, marks=pytest.mark.slow)],
    ids=["cells", "ball"],
)
def test_a_user_who_moves_more_is_found(queries, monkeypatch, name, mechanism, tenths):
    """Users of the audit move a histogram by all of its bound, and a mean by .9 of it."""
    honest = mechanism.integers
    monkeypatch.setattr(
        mechanism, "integers", lambda self, values: honest(self, values) * tenths // 10
    )
    found = audited(queries[name])
    assert not found.checks["user bound"] and found.checks["noise"]


@pytest.mark.slow
def test_users_who_change_each_other_are_found(queries, monkeypatch):
    """A total is scaled by a number that depends on all of them."""
    honest = BallSum.integers

    def scaled(self, values):
        found = honest(self, values)
        return found // (1 + int((found[:, 0] > 0).sum()) % 2)

    monkeypatch.setattr(BallSum, "integers", scaled)
    assert not audited(queries["Means"]).checks["user bound"]


@pytest.mark.slow
def test_a_client_that_tells_who_has_rows_is_found(queries, monkeypatch):
    """By the number of users whose sum it is said to be."""
    honest = node_sums.of_node

    def telling(node, query, slots):
        rows = node.take(slots).num_rows
        found = honest(node, query, slots)
        return type(found).of_node(int((rows > 0).sum()), found.arrays["noisy_sum"])

    monkeypatch.setattr("ldp_flower.clients.respond.of_node", telling)
    assert not audited(queries["Means"]).checks["who answers"]


@pytest.mark.slow
def test_protocols_with_noise_at_the_node_are_audited():
    found = {}
    for name in audited_runs():
        try:
            found[name] = with_noise_at_node(name, DIM, 2.0)
        except ValueError as error:
            assert "noise at the node" in str(error)
    with_it = {kind.__name__ for kind in AtNode.__subclasses__()}
    assert found.keys() >= {"Means", "Describe", "PrivateRegression", "PrivateClassification"}
    assert all(found.values()) and with_it
    kinds = {query.statistic for queries in found.values() for query in queries}
    assert kinds >= {"moments", "cell_shares", "bin_shares", "shortened_ridge_move", "error_pair"}


@pytest.mark.slow
def test_the_command_says_what_was_found(monkeypatch):
    def run(*arguments):
        return CliRunner().invoke(app.app, ["audit", *arguments, "--dim", "2", "--reports", "200"])

    honest = run("Counts", "--noise", "node", "--seed", "1")
    assert honest.exit_code == 0, honest.output
    assert "cell_shares" in honest.stdout
    assert "nothing found by: loss, user bound, noise, replay" in " ".join(honest.stdout.split())
    draw = sums.discrete_gaussian
    monkeypatch.setattr(sums, "discrete_gaussian", lambda size, rng: 2 * draw(size, rng))
    planted = run("Counts", "--noise", "node", "--seed", "1")
    assert planted.exit_code == 1 and "fails: noise" in planted.stdout
    for arguments, words in (
        (("Counts", "--noise", "server"), "Expected --noise user or node or shared, got 'server'"),
        (("SparseMean", "--noise", "node"), "Expected a protocol with noise at the node, got Spa"),
        (("RecordDpSgd", "--noise", "node"), "Expected no --noise with RecordDpSgd"),
    ):
        refused = run(*arguments)
        assert refused.exit_code == 2 and words in " ".join(refused.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "TwoWay",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("Correlation", "Describe", "PrivateRegression", "Quantiles", "Synthesize")
        ),
    ],
)
def test_every_step_of_a_protocol_passes(name):
    for query in with_noise_at_node(name, DIM, 2.0):
        found = audited(query)
        assert found.passed, (query.statistic, found.checks)
