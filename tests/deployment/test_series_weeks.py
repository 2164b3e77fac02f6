"""Series on a SuperNode that is another process, and another node, with other users, each week."""

import json

import pytest
from federation import Deployment, write
from weekly import APP

from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = [pytest.mark.deployment, pytest.mark.long]

STAY, COME, WEEKS = 300, 30, 2


def test_users_keep_their_panels_and_their_noise_on_nodes_that_are_restarted(tmp_path):
    federation = Deployment(tmp_path)
    write(tmp_path / "app", APP)
    path, names = tmp_path / "ledger.db", tmp_path / "names"
    ledger = SqliteLedger.create(path)
    stay = [f"m{user:03d}" for user in range(STAY)]
    config = f'max-epsilon=8.0 ledger-path="{path}" allow-public-changes=true folder="{tmp_path}"'
    settings = f'folder="{tmp_path}" kinds="panels memoised" weeks={WEEKS}'
    try:
        federation.start_superlink()
        for week in range(1, WEEKS + 1):
            # Others are there each week, before those who stay, as a node sorts users by name.
            names.write_text(" ".join([f"a{week}{user:02d}" for user in range(COME)] + stay))
            node = federation.start_supernode("node", config)
            status, log = federation.run(tmp_path / "app", f"{settings} week={week}")
            assert status == "finished:completed", log
            node.terminate()
            node.wait()
    finally:
        federation.stop()
    panels, memoised = (
        json.loads((tmp_path / f"{kind}-{WEEKS}.json").read_text())
        for kind in ("panels", "memoised")
    )
    assert panels["users"] == memoised["users"] == [STAY + COME] * WEEKS
    assert panels["reports"] == panels["asked"] and memoised["reports"] == [STAY + COME] * WEEKS
    assert panels["no_budget"] == memoised["no_budget"] == 0
    assert memoised["change"][1:] == [[0.0] * 3] * (WEEKS - 1)
    # Whoever stayed has been in one panel, and has paid the memoised series once.
    spent = {user: cost.epsilon for user, cost in ledger.spent().items()}
    assert all(spent[user] == 8.0 for user in stay)
    assert len(spent) == STAY + COME * WEEKS and set(spent.values()) == {4.0, 8.0}
    assert list(spent.values()).count(8.0) == sum(panels["reports"])
