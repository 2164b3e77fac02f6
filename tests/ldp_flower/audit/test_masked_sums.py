"""The audit of noise that nodes share: an honest client passes, and planted faults are found.

An honest client fails with probability .001 for a new seed; the seeds are fixed.
"""

import json

import pytest
from typer.testing import CliRunner

from ldp_flower.audit import extremes
from ldp_flower.audit.masked_sums import refusal_checks
from ldp_flower.audit.node_sums import Attack
from ldp_flower.audit.probe import ldp_client_app
from ldp_flower.audit.runs import with_noise_at_node
from ldp_flower.cli import app
from ldp_flower.clients import shared_sums as node

DIM = 6
SETS = ("small set", "unknown key", "signature", "commit reused", "one sum a commit")


@pytest.fixture(scope="module")
def query():
    return with_noise_at_node("Counts", DIM, 2.0, "shared")[0]


def failed(query):
    attack = Attack(query, ldp_client_app, extremes(query, DIM))
    return {name for name, right in attack.checks(200, 0.001, 1).items() if not right}


@pytest.mark.usefixtures("half_the_variance")
def test_half_of_the_variance_is_found(query):
    assert failed(query) == {"noise"}


def test_a_mask_that_is_left_out_is_found(query, monkeypatch):
    honest = node.masks

    def without_one(secret, name, members, session, dim):
        fewer = type(members)(members.commits[:-1])
        return honest(secret, name, fewer, session, dim)

    monkeypatch.setattr(node, "masks", without_one)
    assert "noise" in failed(query)


#: Where a planted fault is, what takes the place, and the checks that find it.
FAULTS = {
    "small": ("ldp_flower.clients.shared_sums.max", lambda *sizes: 0, {"small set"}),
    "any key": (
        "ldp_flower.guarantee.peers.PinnedPeers.accepts",
        lambda *_: True,
        {"unknown key"},
    ),
    "any signature": (
        "ldp_flower.guarantee.shared_sums.Commit.is_valid",
        lambda *_: True,
        {"signature", "commit reused"},
    ),
    "any session": (
        "ldp_flower.clients.shared_sums.checked_session",
        lambda report, _: report,
        set(SETS),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_set_that_should_be_refused_is_found(query, monkeypatch, fault):
    assert all(refusal_checks(query, ldp_client_app, DIM).values())
    place, instead, names = FAULTS[fault]
    monkeypatch.setattr(place, instead, raising=False)
    found = refusal_checks(query, ldp_client_app, DIM)
    assert {name for name, right in found.items() if not right} == names


def test_an_honest_client_passes():
    arguments = ["audit", "Counts", "--noise", "shared", "--dim", "2", "--reports", "100"]
    found = CliRunner().invoke(app.app, [*arguments, "--seed", "1", "--json"])
    assert found.exit_code == 0, found.output
    (audit,) = json.loads(found.stdout)["audits"]
    assert list(audit["checks"]) == ["loss", "user bound", "noise", "replay", *SETS]
    assert audit["claimed"] > 2.0  # the epsilon if all other nodes collude
