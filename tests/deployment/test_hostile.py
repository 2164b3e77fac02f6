"""Every kind of hostile app, against a node that guards training, and against one that does not."""

import pickle
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import psutil
import pytest
from federation import Deployment, write
from hostile_apps import ATTACKS, CLIENT, HONEST, PYPROJECT, SERVER

from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = [pytest.mark.deployment, pytest.mark.sandbox]

QUICK = ("an exception", "a numpy of its own", "the ledger is emptied")
SECONDS = 20  # of training, after which it is ended
LIMITED = ["--train-seconds", str(SECONDS), "--train-memory", "2048"]
AT_ONCE = 4
PATIENCE = 150.0  # seconds for replies of a guarded node that others attack at the same time
IMPATIENCE = 40.0  # for one that may never reply
LARGEST_LOG = 1 << 20  # bytes a message
REFUSED = (101, "This client answers training messages only.")


class Operator:
    """Whoever has data, a ledger and a SuperNode, guarded or not."""

    def __init__(self, federation, name, guarded):
        folder = federation.folder / name
        self.name, self.guarded, self._federation = name, guarded, federation
        self.secret = f"patient-4711-of-{name}"
        self.data, self.path = folder / "data", folder / "ledger" / "ledger.db"
        for each in (self.data, self.path.parent):
            each.mkdir(parents=True)
        (self.data / "rows.csv").write_text(self.secret)
        self.ledger = SqliteLedger.create(self.path)
        self.node = None
        self.start()

    def start(self):
        self._federation.start_supernode(
            self.name,
            f'max-epsilon=1000.0 ledger-path="{self.path}" user-id="it" data-path="{self.data}"',
            environment={"OPERATORS_SECRET": "OPERATORS_SECRET", "OMP_NUM_THREADS": "1"},
            pinned=[*LIMITED, "--train-on", str(self.data)] if self.guarded else None,
        )

    def restored(self):
        """Put back what an attack has changed."""
        for path in (*self.data.iterdir(), *self.path.parent.iterdir()):
            path.unlink()
        (self.data / "rows.csv").write_text(self.secret)
        self.ledger = SqliteLedger.create(self.path)

    def restart(self):
        self._federation.kill(self.name)
        self.node = None
        self.start()

    @property
    def log(self):
        return self._federation.folder / f"{self.name}.log"

    def changed(self):
        """Say what of the operator's own is no longer as it was."""
        if [path.name for path in self.data.iterdir()] != ["rows.csv"]:
            yield "the data's files"
        if (self.data / "rows.csv").read_text() != self.secret:
            yield "the data"
        try:
            self.ledger.spent()
        except Exception:
            yield "the ledger"


class Sinks:
    """Where an attack may put what it has taken."""

    def __init__(self, folder, number, operator):
        self.folder = folder
        folder.mkdir(parents=True)
        self.heard = []
        name = f"ldp-flower-{operator.name}-{number}-{time.monotonic_ns()}"
        self._sockets = [socket.socket(), socket.socket(type=socket.SOCK_DGRAM)]
        self._sockets += [socket.socket(socket.AF_UNIX) for _ in range(2)]
        places = [("127.0.0.1", 0)] * 2 + ["\0" + name, str(folder.parent / f"{number}.s")]
        for opened, place in zip(self._sockets, places, strict=True):
            opened.bind(place)
            threading.Thread(target=self._listen, args=(opened,), daemon=True).start()
        self._files = [Path("/dev/shm", name), Path("/tmp", name)]
        self.sleep = f"97.{number:03}{operator.node or 0}"
        self.at = {
            "tcp": self._sockets[0].getsockname()[1],
            "udp": self._sockets[1].getsockname()[1],
            "abstract": name,
            "socket": str(folder.parent / f"{number}.s"),
            "folder": str(folder),
            "data": [str(operator.data)],
            "ledgers": [str(operator.path)],
            "node": str(operator._federation.folder / "homes" / operator.name),
            "sleep": self.sleep,
        }

    def _listen(self, opened):
        try:
            if opened.type == socket.SOCK_STREAM:
                opened.listen()
            while True:
                end = opened
                if opened.type == socket.SOCK_STREAM:
                    end, _ = opened.accept()
                self.heard.append(end.recv(4096))
        except OSError:  # closed
            return

    def arrived(self):
        """Say what has arrived, and remove it."""
        if any(self.heard):
            yield "a socket heard"
        if any(self.folder.iterdir()):
            yield "a file was written"
        for path in self._files:
            if path.exists():
                yield f"{path.parent} was written"
            for left in path.parent.glob(f"{path.name}*"):
                left.unlink()
        for process in psutil.process_iter(["cmdline"]):
            if self.sleep in (process.info["cmdline"] or ()):
                yield "processes are left"
                process.kill()
        for opened in self._sockets:
            opened.close()


class Federation(Deployment):
    """One SuperLink and two operators, who answer everybody's runs."""

    def __init__(self, folder):
        super().__init__(folder)
        self._numbers = count(1)
        self.others = []  # nodes that no run is about

    def attacked(self, attack, operator, timeout=PATIENCE):
        """Run an app against one node; return what its server received, and the sinks."""
        number = next(self._numbers)
        sinks = Sinks(self.folder / "sinks" / str(number), number, operator)
        app, output = self.folder / f"app-{number}", self.folder / f"{number}.pickle"
        server = f"NODE, OTHERS, KINDS, TIMEOUT = {operator.node}, {self.others}, "
        server += f"{attack.kinds}, {timeout}\nOUTPUT = {str(output)!r}\n"
        own = {name: text.replace("AT[", f"{sinks.at}[") for name, text in attack.files.items()}
        write(
            app,
            {
                "pyproject.toml": PYPROJECT.replace("NAME", f"hostile-{number}"),
                "hostile/__init__.py": "",
                "hostile/client_app.py": CLIENT.replace("SINKS", repr(sinks.at)) + attack.client,
                "hostile/server_app.py": server + SERVER,
                **own,
            },
        )
        status, log = self.run(app, "")
        assert status == "finished:completed", log
        sinks.output = output
        return pickle.loads(output.read_bytes()), sinks


def form(received):
    """Return all that a server sees of a reply but when it came, and the bytes of the report."""
    metadata, error, records = received
    about = {name: metadata[name] for name in ("_group_id", "_message_type")}
    fields = {
        name: {
            key: (*value[:3], len(value[3])) if isinstance(value, tuple) else value
            for key, value in record.items()
        }
        for name, record in records.items()
    }
    return about, error, fields


def findings(received, sinks, operator, attack, honest):
    """Say what an attack has got out, or harmed; nothing, where a node is guarded."""
    found = [*operator.changed(), *sinks.arrived()]
    if any(operator.secret.encode() in form for form in forms(pickle.dumps(received))):
        found.append("the secret")
    for kind, replies in zip(attack.kinds, received, strict=True):
        if len(replies) != 1:
            found.append("the number of replies")
        for reply in replies:
            about, error, fields = form(reply)
            expected = honest if kind == "train" else (*honest[:1], REFUSED, {})
            if (about | {"_message_type": "train"}, error, fields) != expected:
                found.append("a reply's form")
    return found


def forms(received):
    yield received
    yield bytes(received).replace(b"\0", b"")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    federation = Federation(tmp_path_factory.mktemp("hostile"))
    try:
        federation.start_superlink()
        yield federation
    finally:
        federation.stop()


@pytest.fixture(scope="module")
def guarded(federation):
    """Return a guarded operator, and the form of its honest replies."""
    operator = Operator(federation, "guarded", True)
    operator.honest, operator.asked = honest_form(federation, operator), 1
    return operator


def honest_form(federation, operator):
    """Let an honest app train and return the form of the reply, and who replied."""
    received, sinks = federation.attacked(HONEST, operator)
    assert list(sinks.arrived()) == []
    (((metadata, error, records),),) = received
    assert error is None, error
    assert sorted(records) == ["arrays", "config"], records
    operator.node = metadata["_src_node_id"]
    return form((metadata, error, records))


def attempt(federation, operator, name, honest, timeout=PATIENCE):
    attack = ATTACKS[name]
    size = operator.log.stat().st_size
    received, sinks = federation.attacked(attack, operator, timeout)
    if "stays" in name:
        time.sleep(4)  # so long such a process would wait
    found = findings(received, sinks, operator, attack, honest)
    if operator.log.stat().st_size - size > AT_ONCE * LARGEST_LOG:
        found.append("the log")
    return found


def check(federation, operator, names):
    """Attack a guarded node, and look at what remains of it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        each = [pool.submit(attempt, federation, operator, name, operator.honest) for name in names]
        found = {name: task.result() for name, task in zip(names, each, strict=True)}
    assert {name: harm for name, harm in found.items() if harm} == {}

    operator.asked += sum(ATTACKS[name].kinds.count("train") for name in names) + 1
    assert honest_form(federation, operator) == operator.honest
    assert operator.ledger.spent() == {"it": Cost(float(operator.asked))}
    log = operator.log.read_text()
    assert log.count("may have trained, in a sandbox") >= operator.asked


@pytest.mark.slow
def test_an_operators_node_sends_reports_only_whatever_app_is_submitted(federation, guarded):
    check(federation, guarded, QUICK)


@pytest.mark.hostile
def test_so_it_is_for_every_kind_of_app(federation, guarded):
    assert len(ATTACKS) >= 50
    check(federation, guarded, [name for name in ATTACKS if name not in QUICK])


@pytest.mark.hostile
def test_a_node_without_the_guard_fails_all_of_it(federation, guarded):
    """So that what the others find would be found."""
    plain = Operator(federation, "plain", False)
    federation.others.append(guarded.node)
    found = {}
    for name in ATTACKS:
        plain.restored()
        found[name] = attempt(federation, plain, name, guarded.honest, IMPATIENCE)
        if "the number of replies" in found[name]:  # it hangs, or is no more
            plain.restart()
        print(f"{name}: {', '.join(sorted(set(found[name])))}")
    assert all(found.values())
    # Beside their replies, which are no reports, as without the guard nobody's are.
    by_their_own_way = [name for name, harm in found.items() if set(harm) - {"a reply's form"}]
    assert len(by_their_own_way) >= 30, by_their_own_way
