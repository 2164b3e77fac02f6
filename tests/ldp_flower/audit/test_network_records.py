"""The audit of a node that trains networks: an honest one passes, and planted faults are found."""

import numpy as np
import pytest
from typer.testing import CliRunner

from ldp_flower.audit import audit_network
from ldp_flower.cli import app as cli
from ldp_flower.clients.private_training import steps

CHEAP = {"num_reports": 100, "seed": 1}


def test_an_honest_node_passes():
    found = audit_network(2.0, 4, **CHEAP)
    assert found.passed and 1.99 < found.moved < 2.001
    assert (found.claimed, found.delta) == (2.0, 1e-3)


def test_noise_of_another_size_is_found(monkeypatch):
    honest = steps.with_noise
    monkeypatch.setattr(steps, "with_noise", lambda sums, sigma, rng: honest(sums, sigma / 2, rng))
    found = audit_network(2.0, 4, **CHEAP)
    assert not found.checks["noise"] and found.checks["record bound"]


def test_missing_noise_is_measured(monkeypatch):
    monkeypatch.setattr(
        steps, "with_noise", lambda sums, sigma, rng: sums + 1e-3 * rng.normals(sums.shape)
    )
    found = audit_network(0.5, 4, **CHEAP)
    assert found.measured > 0.5 and not found.checks["loss"]


def test_a_gradient_that_is_not_shortened_enough_is_found(monkeypatch):
    honest = steps.clipped_sums
    monkeypatch.setattr(
        steps, "clipped_sums", lambda each, used, bound: honest(each, used, 1.1 * bound)
    )
    found = audit_network(2.0, 4, **CHEAP)
    assert not found.checks["record bound"] and found.moved == pytest.approx(2.2, rel=1e-3)


def test_the_command_says_what_was_found():
    outcome = CliRunner().invoke(
        cli.app, ["audit", "RecordDpSgd", "--dim", "3", "--reports", "100", "--seed", "1"]
    )
    assert outcome.exit_code == 0, outcome.output
    assert "1 step, nothing found" in outcome.stdout and "claimed epsilon 2" in outcome.stdout


def test_arguments_are_checked():
    for arguments, words in (
        ({"epsilon": -1.0, "dim": 4}, "Expected epsilon > 0"),
        ({"epsilon": 1.0, "dim": 1}, "Expected an integer dim >= 2"),
        ({"epsilon": 1.0, "dim": 4, "num_reports": 5}, "Expected an integer num_reports >= 100"),
    ):
        with pytest.raises(ValueError, match=words):
            audit_network(**arguments)
    with pytest.raises(RuntimeError, match="did not answer"):
        audit_network(1.0, 4, make_app=_failing, num_reports=100)


def _failing(load_records, seed):
    from ldp_flower.clients import NetworkClientApp

    def load(context):
        raise ValueError(np.zeros(1))

    return NetworkClientApp(load, seed=seed)
