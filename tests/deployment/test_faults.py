"""What goes wrong in production, done to real processes; what the strategy then reports.

Slow, and not part of the usual tests: ``pytest -m faults``.
"""

import json
import sqlite3
import subprocess
import time
from contextlib import closing, contextmanager
from typing import NamedTuple

import pytest
from clock import Clock
from federation import FORGOTTEN, Deployment, wait_for, write

from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import ErrorCode, Report
from ldp_flower.supernode.bookkeeping import charges

pytestmark = [pytest.mark.deployment, pytest.mark.faults]

USERS = 40  # on each node
BRIEFLY = 20.0  # seconds of a cut that neither end notices
EPSILON = 2.0
SPENT = (
    ErrorCode.EXHAUSTED,
    "No addressed user can afford this query: the cost is above what the privacy budget leaves.",
)

APP = {
    "pyproject.toml": """
[project]
name = "faulty"
version = "1.0.0"

[tool.flwr.app]
publisher = "ldp-flower"

[tool.flwr.app.components]
serverapp = "faulty.server_app:app"
clientapp = "faulty.client_app:app"

[tool.flwr.app.config]
folder = ""
name = ""
num-nodes = 1
timeout = 120.0
epsilon = 2.0
""",
    "faulty/__init__.py": "",
    # A node writes down each time that it is asked, and finds out what is to go wrong then.
    "faulty/client_app.py": """
import os
import time
from itertools import count
from pathlib import Path

import numpy as np

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp


def load_users(context):
    folder = Path(context.node_config["folder"])
    call = next(number for number in count() if not (folder / f"call-{number}").exists())
    (folder / f"call-{call}").touch()
    if (folder / f"die-{call}").exists():
        os._exit(1)
    while (folder / f"wait-{call}").exists():
        time.sleep(0.1)
    number = context.node_config["users"]
    x = np.random.default_rng(0).choice([-1.0, 1.0], (number, 4))
    return Users.from_rows(x, x[:, 0], [f"{folder.name}-{i}" for i in range(number)])


app = LdpClientApp(load_users)
""",
    "faulty/server_app.py": """
import json
from pathlib import Path

import numpy as np
from flwr.serverapp import ServerApp

from ldp_flower.questions import Gradient
from ldp_flower.randomizers import SubsetHypercube
from ldp_flower.strategies import Ask, LdpStrategy, LinearResult

app = ServerApp()


class Halves(LdpStrategy):
    def protocol(self, run):
        half = run.num_users // 2
        for cohort in run.cohorts([half, run.num_users - half]):
            randomizer = SubsetHypercube(self.epsilon, 4)
            answer = yield Ask(cohort, Gradient(np.zeros(4)), randomizer)
        return LinearResult(coef=answer.mean, std_error=answer.std_error)


@app.main()
def main(grid, context):
    config = context.run_config
    folder, name = Path(config["folder"]), config["name"]
    result = Halves(epsilon=config["epsilon"], min_reports=1).start(
        grid, num_nodes=config["num-nodes"], timeout=config["timeout"], store=folder / f"{name}.db"
    )
    (folder / f"{name}.json").write_text(json.dumps(result.to_dict()))
""",
}


class Node(NamedTuple):
    """One operator's SuperNode."""

    name: str
    folder: object
    ledger: SqliteLedger
    node_config: str

    def asked(self, call):
        """Return whether the node has been asked so often, from 0 for the census on."""
        return (self.folder / f"call-{call}").exists()

    def spent(self):
        return self.ledger.spent()


class Federation(Deployment):
    """A federation whose nodes fail when told to."""

    def __init__(self, folder, **arguments):
        super().__init__(folder, **arguments)
        write(folder / "app", APP)

    def node(self, name, ledger=None, max_epsilon=EPSILON, **how):
        """Start a SuperNode."""
        folder = self.folder / "nodes" / name
        folder.mkdir(parents=True)
        path = ledger or folder / "ledger.db"
        config = f'max-epsilon={max_epsilon} ledger-path="{path}" folder="{folder}" users={USERS}'
        node = Node(name, folder, SqliteLedger.create(path), config)
        if self.secure:
            self.register(name)
        self.start_supernode(name, config, **how)
        return node

    def start(self, name, **config):
        """Start a run of the app and return the run's number."""
        config |= {"folder": str(self.folder), "name": name}
        given = " ".join(f"{key.replace('_', '-')}={json.dumps(v)}" for key, v in config.items())
        return self.submit(self.folder / "app", given)

    def result(self, name, run):
        """Wait for a run to end and return its result."""
        wait_for(lambda: self.status(run).startswith("finished"), pause=2)
        assert self.status(run) == "finished:completed", self.log("superlink")
        return json.loads((self.folder / f"{name}.json").read_text())

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()


@pytest.fixture
def federation(tmp_path, request):
    started = Federation(tmp_path, secure=getattr(request, "param", False))
    try:
        started.start_superlink()
        yield started
    finally:
        started.stop()


@contextmanager
def disk(folder):
    """Mount a disk of 128 kB, with a ledger's directory on it."""
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder, option):
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


def fill(folder):
    with (folder / "filler").open("wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(512))


def answered(result):
    """Return, per step, what became of it: users, and nodes by what they did instead."""
    return [
        (step["reports"], step["errors"], step["rejected"], step["silent"])
        for step in result["steps"]
    ]


def test_each_failing_node_is_reported_as_what_it_is_and_sends_nothing_unpaid(federation, tmp_path):
    with disk(tmp_path / "full") as full, disk(tmp_path / "read-only") as read_only:
        healthy, killed, crashed, slow = map(
            federation.node, ("healthy", "killed", "crashed", "slow")
        )
        without_disk = federation.node("full", full / "ledger.db")
        without_right = federation.node("read-only", read_only / "ledger.db")
        fill(full)
        remount(read_only, "ro")
        (killed.folder / "wait-1").touch()
        (crashed.folder / "die-1").touch()
        (slow.folder / "wait-1").touch()
        run = federation.start("first", num_nodes=6)
        wait_for(lambda: killed.asked(1))
        federation.kill("killed")
        wait_for(lambda: healthy.asked(2))  # the first step has timed out
        (slow.folder / "wait-1").unlink()
        result = federation.result("first", run)

        # A ledger that cannot be written shows in the census; that a disk is full, later.
        assert answered(result)[0] == (5, 1, 0, 0)
        assert not without_disk.spent() and not without_right.spent() and not killed.spent()
        refused = "error 103: The ledger cannot be used."
        census, first, second = (step["reasons"] for step in result["steps"])
        assert census[refused] == first[refused] == second[refused] == 1
        # The node whose client has died is asked again, and answers. The other one stays away.
        assert answered(result)[1][1:] == (2, 0, 1)
        assert answered(result)[2][1:] == (2, 0, 0)
        for reasons in (first, second):
            assert {text[:8] for text in reasons} == {"error 5:", "error 10"}
        assert len(crashed.spent()) == USERS and crashed.asked(3)
        reports = sum(step["reports"] for step in result["steps"][1:])
        assert result["num_reports"] == reports
        everybody = {f"healthy-{i}": Cost(EPSILON) for i in range(USERS)}
        assert healthy.spent() == everybody
        assert len(slow.spent()) == USERS  # what came too late is spent
        in_time = second_half(slow, run)
        assert reports == USERS + len(crashed.spent()) + in_time

        # Both ledgers are usable again: nobody's budget was touched by what failed.
        (full / "filler").unlink()
        remount(read_only, "rw")
        result = federation.result("second", federation.start("second", num_nodes=5))
        for node in (without_disk, without_right):
            assert set(node.spent().values()) == {Cost(EPSILON)}
            assert len(node.spent()) == USERS


def second_half(node, run):
    """Return the number of users that a node has charged for its last answer to a run."""
    charged = [row for row in charges(node.ledger) if row[2] == run]
    return sum(row[0] == charged[-1][0] for row in charged)


@pytest.mark.parametrize("federation", [True], indirect=True)
def test_a_killed_server_and_a_killed_node_go_on_and_nobody_answers_twice(federation, tmp_path):
    _, late, killed = nodes = [federation.node(f"node-{number}") for number in range(3)]
    (late.folder / "wait-2").touch()
    (killed.folder / "wait-2").touch()
    federation.start("run", num_nodes=3)
    stored = tmp_path / "run.db"
    wait_for(lambda: late.asked(2) and killed.asked(2) and replies(stored, 2))

    federation.kill("superlink")  # and the server app with it
    federation.kill(killed.name)
    (late.folder / "wait-2").unlink()
    wait_for(lambda: len(late.spent()) == USERS)  # it answers, and nobody listens
    before = replies(stored)
    federation.start_superlink()
    time.sleep(FORGOTTEN)
    (killed.folder / "wait-2").unlink()
    federation.start_supernode(killed.name, killed.node_config)
    result = federation.result("run", federation.start("run", num_nodes=3))

    assert result["num_reports"] == result["num_users"] == 3 * USERS
    assert answered(result)[0] == (3, 0, 0, 0)
    assert all(outcome[1:] == (0, 0, 0) for outcome in answered(result))
    # Only what had not arrived was asked again.
    assert [node.asked(3) for node in nodes] == [False, True, True]
    assert set(before.items()) < set(replies(stored).items())
    assert_all_charged_once(nodes)


@pytest.mark.parametrize("federation", [True], indirect=True)
def test_a_cut_network_loses_what_comes_too_late_and_nobody_answers_twice(federation):
    whole = federation.node("node-0")
    wires = [federation.wire() for _ in range(3)]
    cut = [federation.node(f"node-{number}", wire=wire) for number, wire in enumerate(wires, 1)]
    _, long, swallowed = cut
    for node in cut:
        (node.folder / "wait-1").touch()
    run = federation.start("first", num_nodes=4)
    wait_for(lambda: all(node.asked(1) for node in cut))
    for node, wire in zip(cut, wires, strict=True):
        wire.cut(swallows=node is swallowed)
        (node.folder / "wait-1").unlink()
    wait_for(lambda: all(node.spent() for node in cut))  # they answer, and nobody hears
    time.sleep(BRIEFLY)
    wires[0].restore()
    result = federation.result("first", run)
    assert [outcome[1:] for outcome in answered(result)] == [(0, 0, 0), (2, 0, 0), (2, 0, 0)]
    assert all(text[:8] == "error 5:" for step in result["steps"] for text in step["reasons"])
    assert result["num_reports"] == 2 * USERS
    lost = len(long.spent()) + len(swallowed.spent())
    assert 0 < lost < 2 * USERS  # the second question has never reached them

    # Flower (1.41) takes a TLS handshake that nobody answers for a refusal: that SuperNode
    # gives up, its process stays, and does nothing any more.
    wait_for(lambda: "SSL/TLS handshake error" in federation.log(swallowed.name))
    for wire in wires[1:]:
        wire.restore()
    federation.kill(swallowed.name)
    federation.start_supernode(swallowed.name, swallowed.node_config)
    result = federation.result("second", federation.start("second", num_nodes=4))
    assert result["num_reports"] == 2 * USERS - lost
    assert_all_charged_once([whole, *cut])


def test_a_clock_that_jumps_ahead_and_back_gives_nobody_a_new_budget(federation, tmp_path):
    clock = Clock(tmp_path)
    right, wrong = federation.node("right"), federation.node("wrong", environment=clock.environment)
    (wrong.folder / "wait-2").touch()
    run = federation.start("first", num_nodes=2)
    wait_for(lambda: wrong.asked(2))
    clock.set(days=400)
    (wrong.folder / "wait-2").unlink()
    result = federation.result("first", run)

    # What a SuperNode signs says when, and the SuperLink does not believe it: it ends.
    assert [outcome[1:] for outcome in answered(result)] == [(0, 0, 0), (0, 0, 0), (1, 0, 0)]
    assert next(iter(result["steps"][2]["reasons"]))[:8] == "error 5:"
    wait_for(lambda: len(wrong.spent()) == USERS)  # its client has answered, and paid

    # Retention goes by the date, and neither the date nor retention is about budgets.
    def forgotten(days):
        path = wrong.folder / "ledger.db"
        return clock.run("ldp-flower", "ledger", "forget", path, "--days", str(days))

    assert forgotten(90) == "1 reply deleted.\n"  # of today, to a clock that is ahead
    clock.set(days=-400)
    assert forgotten(90) == "0 replies deleted.\n"
    clock.set(days=0)
    assert forgotten(0.001) == "0 replies deleted.\n"  # the other is from the future
    assert forgotten(0) == "1 reply deleted.\n"
    assert wrong.spent() == {f"wrong-{i}": Cost(EPSILON) for i in range(USERS)}

    federation.kill("wrong")  # its client still waits for it
    federation.start_supernode("wrong", wrong.node_config, environment=clock.environment)
    run = federation.start("second", num_nodes=2)
    wait_for(lambda: federation.status(run).startswith("finished"), pause=2)
    assert federation.status(run) == "finished:failed"
    assert errors(tmp_path / "second.db") == [SPENT, SPENT]
    assert_all_charged_once([right, wrong])


def assert_all_charged_once(nodes):
    for node in nodes:
        charged = [user for _, user, *_ in charges(node.ledger)]
        assert len(charged) == len(set(charged)) == USERS


def replies(path, step=None):
    """Return the replies that are in a strategy's store: of a step, or all."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT step, node, content FROM reply WHERE content NOT NULL")
        return {(at, node): content for at, node, content in rows if step in (None, at)}


def test_two_runs_at_once_do_not_get_more_than_one(federation, tmp_path):
    nodes = [federation.node(f"node-{number}") for number in range(2)]
    for node in nodes:
        (node.folder / "wait-1").touch()
    runs = {name: federation.start(name, num_nodes=2) for name in ("one", "other")}
    wait_for(lambda: all((tmp_path / f"{name}.db").exists() for name in runs))
    for node in nodes:
        (node.folder / "wait-1").unlink()
    wait_for(lambda: all(federation.status(r).startswith("finished") for r in runs.values()), 2)

    # Whoever comes second is refused; a run that is left with too few says so and stops.
    statuses = [federation.status(run) for run in runs.values()]
    assert "finished:completed" in statuses
    assert {each for name in runs for each in errors(tmp_path / f"{name}.db")} <= {SPENT}
    charged = [user for node in nodes for _, user, *_ in charges(node.ledger)]
    assert len(charged) == len(set(charged))
    assert all(set(node.spent().values()) == {Cost(EPSILON)} for node in nodes)
    stores = [replies(tmp_path / f"{name}.db") for name in runs]
    assert len(charged) == sum(map(num_reports, stores))


def errors(path):
    """Return the codes and texts of the errors in a strategy's store."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute("SELECT code, error FROM reply WHERE error NOT NULL"))


def num_reports(kept):
    """Return the number of reports among the replies in a strategy's store."""
    reports = [Report.from_bytes(content).arrays for (step, _), content in kept.items() if step]
    return sum(
        len(each["reports"]) if "reports" in each else int(each["count"][0]) for each in reports
    )
