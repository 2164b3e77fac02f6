import sys
from pathlib import Path

import pytest

from ldp_flower.guarantee.ledger import SqliteLedger

# The processes that tests start here must find `deployed_node` under the same name.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def ledger(tmp_path):
    return SqliteLedger.create(tmp_path / "ledger.db")
