"""The guide of docs/deployment.md: TLS, authenticated SuperNodes, the app of the simulation.

Two nodes are their operators' own, with the app installed; the third, a plain one that takes it
from the run, holds a single aircraft, and its operator rehearses first.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from federation import Deployment

from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = pytest.mark.deployment

APP = Path(__file__).parents[2] / "simulations" / "flights"
INSTALLED = [str(APP), *filter(None, [os.environ.get("PYTHONPATH")])]
AIRCRAFT = (28, 15, 1)  # behind each node: three questions, each of which takes seconds
MOST_FLIGHTS = 30  # of an aircraft, which saves reading time
EPSILON = 4.0


@pytest.fixture(scope="module")
def rows():
    """Return the first flights of every aircraft."""
    sys.path.insert(0, str(APP))
    try:
        from flights.data import flights
    finally:
        sys.path.remove(str(APP))
    return flights().groupby("tailnum").head(MOST_FLIGHTS)


@pytest.mark.long
def test_three_authenticated_nodes_answer_the_simulations_app(rows, tmp_path):
    tails = rows.tailnum.drop_duplicates().to_numpy()
    federation = Deployment(tmp_path, secure=True)
    ledgers, start = [], 0
    try:
        federation.start_superlink()
        for number, size in enumerate(AIRCRAFT):
            mine = rows[rows.tailnum.isin(tails[start : start + size])]
            start += size
            data, path = tmp_path / f"{number}.csv", tmp_path / f"{number}.db"
            mine.to_csv(data, index=False)
            ledgers.append(SqliteLedger.create(path))
            federation.register(f"node-{number}")
            rehearsal = " rehearsal=true" if number == 2 else ""
            federation.start_supernode(
                f"node-{number}",
                f'max-epsilon={EPSILON} ledger-path="{path}" data-path="{data}"{rehearsal}',
                environment={"PYTHONPATH": os.pathsep.join(INSTALLED)},
                pinned=None if rehearsal else ["--app", "flights.client_app:app"],
            )
        status, log = federation.run(
            APP,
            f'evaluate=false num-nodes=3 epsilon={EPSILON} protocol="LDP-IHT" '
            f'output-dir="{tmp_path}"',
        )
    finally:
        federation.stop()
    assert status == "finished:completed", log
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["num_users"] == sum(AIRCRAFT)
    assert result["privacy"]["epsilon"] == EPSILON and not result["privacy"]["seeded"]
    assert "1 of the nodes ran in rehearsal mode: their reports hold only noise." in result["notes"]
    # Whoever was asked has spent everything, once; and as many were asked as reported.
    spent = [ledger.spent() for ledger in ledgers]
    assert all(cost == Cost(EPSILON) for each in spent for cost in each.values())
    assert not spent[2]
    assert 0 <= result["num_reports"] - sum(len(each) for each in spent) <= 1
    assert result["num_reports"] > 0.5 * sum(AIRCRAFT)
