import sys
from pathlib import Path

import pytest

# Modules of tests here share what they send.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def node_config(ledger, tmp_path):
    """Return the configuration of a clinic that lets 50 records be trained on."""
    return {
        "max-epsilon": 2.0,
        "max-delta": 1e-5,
        "ledger-path": str(tmp_path / "ledger.db"),
        "unit": "record",
        "num-records": 50,
        "allow-inexact": True,
        "user-id": "clinic",
    }
