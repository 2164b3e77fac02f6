"""Real SuperNodes that hold a file of records and no app train a network that comes as data."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from federation import Deployment

from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = pytest.mark.deployment

APP = Path(__file__).parents[2] / "simulations" / "silo-networks"
EPSILON, COUNT = 8.0, 300


OF_UNIT = {"record": f'unit="record" num-records={COUNT}', "user": 'noise="node"'}


@pytest.mark.slow
@pytest.mark.parametrize("unit", [pytest.param("record", marks=pytest.mark.long), "user"])
def test_nodes_without_an_app_train_a_network(tmp_path, unit):
    """For records, and for patients with three images each."""
    sys.path.insert(0, str(APP))
    try:
        from silo_networks.task import invented
    finally:
        sys.path.remove(str(APP))
    federation, ledgers = Deployment(tmp_path), []
    try:
        federation.start_superlink()
        for number in (1, 2):
            images, labels = invented(COUNT, number)
            data, path = tmp_path / f"{number}.npz", tmp_path / f"{number}.db"
            owners = [f"patient-{number}-{image // 3}" for image in range(COUNT)]
            np.savez(data, records=images, targets=labels, owners=owners)
            ledgers.append(SqliteLedger.create(path))
            for file in (data, path):
                file.chmod(0o600)
            federation.start_supernode(
                f"node-{number}",
                f"max-epsilon={EPSILON} max-delta=1e-5 {OF_UNIT[unit]} "
                f'allow-inexact=true user-id="clinic-{number}" ledger-path="{path}"',
                pinned=["--records", str(data)],
            )
        status, log = federation.run(
            APP,
            f"num-nodes=2 epsilon={EPSILON} num-rounds=2 steps=6 sampling-rate=0.3 "
            f'unit="{unit}" output-dir="{tmp_path}"',
        )
    finally:
        federation.stop()
    assert status == "finished:completed", log
    result = json.loads((tmp_path / "result.json").read_text())
    assert unit == "user" or result["notes"] == []  # a hundred patients are few
    assert set(result["rounds"]) == {"1", "2"} and result["rounds"]["2"]["nodes"] == 2
    assert result["rounds"]["2"][f"{unit}s"] == 2 * COUNT / (3 if unit == "user" else 1)
    assert result["rounds"]["1"]["epsilon-spent"] < result["epsilon"] <= EPSILON
    for number, ledger in enumerate(ledgers, 1):
        patients = [f"patient-{number}-{patient}" for patient in range(COUNT // 3)]
        accounts = patients if unit == "user" else [f"clinic-{number}"]
        assert ledger.spent() == dict.fromkeys(accounts, Cost(EPSILON, 1e-5))
