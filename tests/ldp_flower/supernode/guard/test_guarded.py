"""Training by a stranger: what it can reach, and what its reply can say."""

import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from guarded_node import EPSILON, MODEL, SECRET, Node, fab_of, report_in

from ldp_flower.supernode.guard.sandbox import Sandbox
from ldp_flower.supernode.guard.training import Guarded

HONEST = "def train(message, context):\n    return returned(message)\n"


def test_an_app_without_a_mod_reports_its_update_and_pays(tmp_path, updates):
    node = Node(tmp_path)
    node.operator.check(node.node_config)

    reply = node.ask(fab_of(HONEST))

    assert set(report_in(reply).arrays) == {"slots", "reports"}
    assert updates[0].tolist() == [[1.0] * 5]  # to the last bit that of the mod in the app
    assert node.spent() == {"the silo": EPSILON}


def test_an_app_with_the_mod_trains_as_well(tmp_path, updates):
    code = (
        "def unused(message, context):\n    pass\n\nfrom ldp_flower.clients import LdpUpdateMod\n"
        "app = ClientApp(mods=[LdpUpdateMod()])\n\n@app.train()\n"
    )
    Node(tmp_path).ask(fab_of(code + HONEST))
    assert updates[0].tolist() == [[1.0] * 5]


#: What training may return or do; all of it is the update 0, or one of the app's choice.
BAD = {
    "raises": "raise ValueError(DATA)",
    "interrupts": "raise KeyboardInterrupt(DATA)",
    "exits": "sys.exit(DATA)",
    "dies": "os._exit(len(DATA))",
    "kills": "os.kill(1, 9)",
    "None": "return None",
    "its data": "return DATA",
    "other shape": "return returned(message, weight=Array(np.zeros(3)))",
    "texts": "return returned(message, weight=Array(np.array([[DATA] * 2] * 2)))",
    "complex": "return returned(message, weight=Array(np.full((2, 2), 1j)))",
    "NaN": "return returned(message, np.nan)",
    "short": "os.write(answer(), DATA.encode()); os._exit(0)",
    "closed": "os.close(answer()); return returned(message)",
    "hangs": "import time; time.sleep(60)",
    "floods its output": "while True: os.write(2, DATA.encode() * 4096)",
}
QUICK = ("raises", "kills", "other shape", "short", "hangs")
BODY = """
def train(message, context):
    DATA = Path(context.node_config["data-path"], "rows.csv").read_text()

    def answer():
        return 3  # the first that Python opens

    WHAT
"""


@pytest.mark.parametrize(
    "what",
    [what if what in QUICK else pytest.param(what, marks=pytest.mark.hostile) for what in BAD],
)
def test_replies_have_one_form_whatever_training_does(what, tmp_path, updates, caplog):
    node = Node(tmp_path, seconds=2 if what in ("hangs", "floods its output") else 60)

    reply = node.ask(fab_of(BODY.replace("WHAT", BAD[what])))

    assert set(report_in(reply).arrays) == {"slots", "reports"}
    assert np.isnan(updates[0]).any() or not updates[0].any()
    assert node.spent() == {"the silo": EPSILON}
    assert SECRET not in repr(vars(reply.metadata))


def test_an_answer_of_numbers_is_what_it_says_and_what_follows_is_not_read(tmp_path, updates):
    lie = "os.write(answer(), np.arange(6.0)[1:].tobytes() + DATA.encode() * 999); os._exit(0)"
    Node(tmp_path).ask(fab_of(BODY.replace("WHAT", lie)))
    before = np.concatenate([MODEL["temperature"][None], MODEL["weight"].ravel()])
    assert updates[0].tolist() == [(np.arange(6.0)[1:] - before).tolist()]


# ---------------------------------------------------------------------------- the way out

#: Attempts to get something out, or to reach what is not the training's; true if one succeeds.
ATTEMPTS = """
def crowd(): [os.fork() or os.execvp("sleep", ["sleep", "47.11"]) for _ in range(200)]
def memory(): bytearray(1 << 31)
def disk(): [Path("/tmp", str(i)).write_bytes(bytes(1 << 26)) for i in range(20)]
def open_files(): [os.open("/dev/null", os.O_RDONLY) for _ in range(2000)]
def hypervisor(): socket.socket(socket.AF_VSOCK)
def packets(): socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
def hidden_memory(): os.memfd_create("x")
def lease(): fcntl.fcntl(os.open(AT["data"] + "/rows.csv", os.O_RDONLY), fcntl.F_SETLEASE, 0)
def keys(): call("syscall", 250 if os.uname().machine == "x86_64" else 219, 0, -3, 0)
def nested(): call("syscall", 56 if os.uname().machine == "x86_64" else 220, 0x10000011, 0, 0, 0, 0)
def tcp(): socket.create_connection(("127.0.0.1", AT["tcp"]), 1).sendall(DATA)
def udp(): socket.socket(type=socket.SOCK_DGRAM).sendto(DATA, ("127.0.0.1", AT["udp"]))
def abstract(): unix("\\0" + AT["abstract"])
def named(): unix(AT["named"])
def outside(): Path(AT["outside"]).write_bytes(DATA)
def shared(): Path("/dev/shm", AT["name"]).write_bytes(DATA)
def scratch(): Path("/tmp", AT["name"]).write_bytes(DATA)
def data(): Path(AT["data"], "rows.csv").write_bytes(b"0")
def new_data(): Path(AT["data"], "new.csv").write_bytes(DATA)
def library(): Path(flwr.__file__).open("ab").close()
def python(): Path(sys.executable).open("ab").close()
def ledger(): Path(AT["ledger"]).read_bytes()
def environment(): assert AT["secret"] in all_of("environ")
def commands(): assert AT["ledger"] in all_of("cmdline")
def parent(): assert Path("/proc", str(AT["pid"]), "cmdline").read_text()
def signals(): os.kill(AT["pid"], 0)
def root(): Path("/proc/1/root" + AT["ledger"]).read_bytes()
def becomes_root(): os.setuid(0)
def namespaces(): call("unshare", 0x10000000)
def mounts(): call("mount", b"none", b"/mnt", b"tmpfs", 0, None)
def remounts(): call("mount", None, AT["data"].encode(), None, 0x1020, None)
def traces(): call("ptrace", 16, AT["pid"], 0, 0)
def host(): assert socket.gethostname() == AT["host"]
def devices(): assert {"mem", "kmsg", "vda", "sda", "nvme0n1"} & set(os.listdir("/dev"))
def kernel(): Path("/proc/sys/kernel/core_pattern").open("w").close()
def processes(): assert sum(n.isdigit() for n in os.listdir("/proc")) > 4
def descriptors(): assert {n for n in os.listdir("/proc/self/fd")} - set("012345")
def spared(): Path("/proc/self/oom_score_adj").write_text("0")
def hurried(): os.nice(-1)
def devshm(): assert AT["name"] + "-host" in os.listdir("/dev/shm")
"""
ESCAPE = """
def train(message, context):
    import ctypes, fcntl, flwr, socket
    ATTEMPTS = json.loads(context.node_config["at"])["code"]

    DATA = b"patient-4711"
    AT = json.loads(context.node_config["at"])

    def unix(name):
        with socket.socket(socket.AF_UNIX) as opened:
            opened.connect(name)
            opened.sendall(DATA)

    def all_of(name):
        found = ""
        for path in Path("/proc").glob(f"[0-9]*/{name}"):
            try:
                found += path.read_text(errors="replace")
            except OSError:
                pass
        return found

    def call(name, *arguments):
        if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) < 0:
            raise OSError(ctypes.get_errno())

    scope = {**globals(), **locals()}
    exec(ATTEMPTS, scope)
    for name in AT["attempts"]:
        try:
            scope[name]()
            print("did", name)
        except Exception as error:
            print("could not", name, repr(error))
    return returned(message)
"""
ATTEMPT_NAMES = re.findall(r"^def (\w+)", ATTEMPTS, re.MULTILINE)
#: What succeeds wherever it runs; whether it meant anything is seen from outside.
OWN = {"shared", "scratch", "udp", "outside"}
#: What the limits stop, wherever it runs, of somebody who is not root.
LIMITED = {"crowd", "memory", "disk", "open_files"}
#: What depends on the machine and the account that runs the tests.
DEPENDS = {"devices", "descriptors", "lease", "root", "becomes_root", "packets", "hurried"}
#: What would harm the machine that runs the tests, if nothing stopped it.
HARMFUL = {
    "library",
    "python",
    "namespaces",
    "mounts",
    "remounts",
    "traces",
    "kernel",
    "signals",
    "nested",
}


class Outside:
    """What a stranger may want to reach, and what has arrived there."""

    def __init__(self, folder, node):
        self.heard = []
        self._opened = [socket.socket(), socket.socket(type=socket.SOCK_DGRAM)]
        self._opened += [socket.socket(socket.AF_UNIX) for _ in range(2)]
        name = f"ldp-flower-{os.getpid()}-{folder.name}"
        addresses = [("127.0.0.1", 0)] * 2 + ["\0" + name, str(folder / "socket")]
        for opened, address in zip(self._opened, addresses, strict=True):
            opened.bind(address)
            if opened.type == socket.SOCK_STREAM:
                opened.listen()
            threading.Thread(target=self._listen, args=(opened,), daemon=True).start()
        self.files = [folder / "outside", Path("/dev/shm", name), Path("/tmp", name)]
        self.files.append(node.data / "new.csv")
        self.host = Path("/dev/shm", name + "-host")
        self.host.touch()
        self.at = {
            "tcp": self._opened[0].getsockname()[1],
            "udp": self._opened[1].getsockname()[1],
            "abstract": name,
            "named": str(folder / "socket"),
            "outside": str(self.files[0]),
            "name": name,
            "data": str(node.data),
            "ledger": str(node.path),
            "secret": "OPERATORS_SECRET",
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }

    def _listen(self, opened):
        try:
            while True:
                if opened.type == socket.SOCK_DGRAM:
                    self.heard.append(opened.recv(1024))
                else:
                    connection, _ = opened.accept()
                    self.heard.append(connection.recv(1024))
        except OSError:  # closed
            return

    def close(self):
        for opened in self._opened:
            opened.close()
        for path in (self.host, *self.files[1:3]):
            path.unlink(missing_ok=True)


@pytest.fixture
def outside(tmp_path):
    node = Node(tmp_path, memory=1024, scratch=512, processes=64)
    found = Outside(tmp_path, node)
    command = [sys.executable, "-c", "import time; time.sleep(600)", str(node.path)]
    with subprocess.Popen(command, env={"TOLD": found.at["secret"]}) as operators:
        yield node, found
        operators.kill()
    found.close()


def attempts_at(node, found, names, caplog):
    """Return which attempts succeeded, as far as they can tell."""
    ordered = sorted(names, key=lambda name: (name in LIMITED, name))  # these use up the limits
    node.node_config["at"] = json.dumps(found.at | {"attempts": ordered, "code": ATTEMPTS})
    with caplog.at_level(logging.INFO, "flwr"):
        node.ask(fab_of(ESCAPE))
    tried = dict(re.findall(r"^\| (?:did|could not) (\w+)(.*)", caplog.text, re.MULTILINE))
    assert set(tried) == set(names), caplog.text
    return set(re.findall(r"^\| did (\w+)", caplog.text, re.MULTILINE))


def still_runs(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_stranger_reaches_nothing_of_the_operators(outside, caplog):
    node, found = outside
    ledger = node.path.read_bytes()

    assert attempts_at(node, found, ATTEMPT_NAMES, caplog) <= OWN

    assert found.heard == []
    assert not any(path.exists() for path in found.files)
    assert (node.data / "rows.csv").read_text() == SECRET
    assert [path.name for path in node.path.parent.iterdir()] == ["ledger.db"]
    assert len(ledger) <= node.path.stat().st_size
    assert node.spent() == {"the silo": EPSILON}
    # The kernel kills what a sandbox has started when the sandbox ends, and takes a moment for it.
    left = [p for p in psutil.process_iter(["cmdline"]) if "47.11" in (p.info["cmdline"] or ())]
    deadline = time.monotonic() + 10
    while any(map(still_runs, left)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(still_runs, left))


def test_the_same_stranger_reaches_it_without_a_sandbox(outside, caplog):
    node, found = outside
    node.operator = Guarded(Sandbox((node.data,), kind="none"))
    names = set(ATTEMPT_NAMES) - HARMFUL - LIMITED
    assert attempts_at(node, found, names, caplog) >= names - DEPENDS
    assert found.heard.count(SECRET.encode()) == 4
    assert any(path.exists() for path in found.files)
