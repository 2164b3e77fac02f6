"""The process that checks and trains a network: what it can get at, and what it takes."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_network_app import LABELS, PLAN, ROWS, network, wide

from ldp_flower.clients.private_training.child import Child, ChildError, ChildLimits
from ldp_flower.clients.private_training.network_round import Round
from ldp_flower.clients.private_training.records import Data
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.models import Limits
from ldp_flower.models.graph import NetworkError
from ldp_flower.randomness import KeyedRandom, derive

TASK = Round(network(), PLAN, "adam", 0.5, len(ROWS), Limits())
EVERY, NOBODY = Data(ROWS, LABELS), Data(ROWS[:0], LABELS[:0])


def test_a_round_without_records_is_noise_and_nothing_else():
    """To the last bit what is trained where nobody has a record, with the same noise."""

    def noise():
        return KeyedRandom(derive(np.arange(1)))

    for task in (TASK, replace(TASK, optimizer="sgd")):
        alone = task.without_records(noise())
        assert np.array_equal(alone["w"], task.trained(NOBODY, noise())["w"])
        assert not np.array_equal(alone["w"], task.trained(EVERY, noise())["w"])


def in_a_process(code, *arguments):
    """Return what a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_TRIES = """
import os, socket, sqlite3, subprocess, sys
from ldp_flower.clients.private_training.child import confine
ledger, file = sys.argv[1:]
tries = {
    "ledger": lambda: sqlite3.connect(ledger).execute("SELECT * FROM spent"),
    "data": lambda: open(file),
    "copy": lambda: open(file + ".copy", "w"),
    "folder": lambda: os.listdir("/"),
    "network": lambda: socket.socket(),
    "local socket": lambda: socket.socketpair(),
    "pipe": lambda: os.pipe(),
    "another descriptor": lambda: os.dup(1),
    "program": lambda: subprocess.run(["cat", file], stdout=subprocess.DEVNULL),
    "limit": lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_NOFILE, (9, 9)),
}
def works(attempt):
    try:
        attempt()
    except Exception:
        return False
    return True
before = [name for name, attempt in tries.items() if works(attempt)]
if os.getuid() == 0:  # which may lift limits
    os.setuid(65534)
confine()
print(before == [*tries], [name for name, attempt in tries.items() if works(attempt)])
"""


def test_a_process_that_is_confined_can_open_nothing(tmp_path):
    """The attempts work before."""
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        folder.chmod(0o755)
    SqliteLedger.create(tmp_path / "ledger.db")
    (tmp_path / "data").write_text("patient 4711")
    for file in tmp_path.iterdir():
        file.chmod(0o644)
    tried = in_a_process(_TRIES, tmp_path / "ledger.db", tmp_path / "data")
    assert tried == "True []\n"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="looks into /proc")
def test_the_process_knows_of_nothing_and_has_nothing_open(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "credential-of-the-node")
    monkeypatch.setenv("LEDGER", "path-of-the-ledger")
    with open(__file__) as opened, Child(ChildLimits()) as child:
        os.set_inheritable(opened.fileno(), True)
        child.prepare(TASK)
        of = Path(f"/proc/{child._process.pid}")
        environment = (of / "environ").read_bytes()
        assert b"credential" not in environment and b"path-of" not in environment
        assert all("torch" in each.name for each in (of / "cwd").iterdir())  # PyTorch's own cache
        ends = time.monotonic() + 20
        while "Max open files            0 " not in (of / "limits").read_text():
            assert time.monotonic() < ends
            time.sleep(0.01)
        links = {os.readlink(each).partition(":")[0] for each in (of / "fd").iterdir()}
        own = os.readlink("/proc/self/fd/2").partition(":")[0]
        assert links <= {"pipe", own}
        trained = child.train(TASK, EVERY)  # and yet it trains
    assert trained["w"].any()


_DENORMAL = """
import sys
import torch
from contextlib import nullcontext
from ldp_flower.clients.private_training.denormals import flushed

def found():
    return sum(
        int((torch.full((1 << 22,), torch.finfo(dtype).tiny, dtype=dtype) * 0.25).view(
            torch.int64).count_nonzero())
        for dtype in (torch.float32, torch.float64)
    )

torch.set_num_threads(4)
with flushed() if sys.argv[1] == "flushed" else nullcontext():
    print(found())
    with flushed():
        pass
    print(found())
"""


@pytest.mark.slow
def test_numbers_next_to_zero_are_zero_in_all_threads():
    assert in_a_process(_DENORMAL, "flushed") == "0\n0\n"
    first, second = in_a_process(_DENORMAL, "not").split()
    assert first == second == str(3 << 21)


def test_a_child_that_dies_is_an_error():
    with Child(ChildLimits()) as child:
        os.kill(child._process.pid, signal.SIGKILL)
        child._process.wait()
        with pytest.raises(ChildError):
            child.prepare(TASK)
        with pytest.raises(ChildError):
            child.train(TASK, EVERY)


@pytest.mark.slow
def test_a_child_that_dies_while_it_trains_is_an_error(monkeypatch):
    with Child(ChildLimits()) as child:
        child.prepare(TASK)
        send = Child._send

        def sent_before_it_dies(child, value):
            send(child, value)
            child._process.kill()
            child._process.wait()

        monkeypatch.setattr(Child, "_send", sent_before_it_dies)
        with pytest.raises(ChildError, match="for lack of time or memory"):
            child.train(TASK, Data(np.repeat(ROWS, 10_000, 0), np.repeat(LABELS, 10_000)))


@pytest.mark.slow
def test_a_round_that_would_take_too_long_is_refused_without_data():
    """By the time of one block of zeros: the noise of so many steps is quick."""
    plan = replace(PLAN, steps=2000, sampling_rate=1.0)
    slow = replace(TASK, network=wide(), plan=plan, count=50)
    with Child(ChildLimits(seconds=60)) as child, pytest.raises(NetworkError, match="time limit"):
        child.prepare(slow)
