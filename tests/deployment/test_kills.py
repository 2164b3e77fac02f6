"""``kill -9`` at random moments of real SuperNodes, which come back with their keys.

The handler alone is killed far more often in ``tests/clients/test_kill.py``. Not part of
the usual tests: ``pytest -m faults``.
"""

import json
import sqlite3
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from federation import FORGOTTEN, Deployment, wait_for, write

from ldp_flower.guarantee.ledger import SqliteLedger

pytestmark = [pytest.mark.deployment, pytest.mark.faults]

NUM_NODES = 10
KILLS = 5  # of each node
USERS = 100  # on each node, more than can be asked
SHORTEST, LONGEST = 0.1, 6.0  # seconds from a question's arrival to the kill
EPSILON = 1.0  # the budget, and what a question costs; every user is asked two

APP = {
    "pyproject.toml": """
[project]
name = "killed"
version = "1.0.0"

[tool.flwr.app]
publisher = "ldp-flower"

[tool.flwr.app.components]
serverapp = "killed.server_app:app"
clientapp = "killed.client_app:app"

[tool.flwr.app.config]
folder = ""
num-nodes = 1
users = 1
""",
    "killed/__init__.py": "",
    "killed/client_app.py": """
import time
from itertools import count
from pathlib import Path

import numpy as np

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp


def load_users(context):
    folder = Path(context.node_config["folder"])
    next(path for n in count() if not (path := folder / f"call-{n}").exists()).touch()
    time.sleep(0.4)  # data that take their time, so that a kill can come before the answer
    x = np.ones((context.node_config["users"], 4))
    return Users.from_rows(x, x[:, 0], [f"patient-{i:04d}" for i in range(len(x))])


app = LdpClientApp(load_users)
""",
    # Asks every node one question after the other, and one again that gets no answer.
    "killed/server_app.py": """
import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Message
from flwr.serverapp import ServerApp

from ldp_flower.guarantee.messages import NodeKeys
from ldp_flower.guarantee.messages import Query, Report
from ldp_flower.questions import Gradient
from ldp_flower.randomizers import SubsetHypercube
from ldp_flower.strategies.runtime.census import wait_for_nodes

SALT = 7
app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    folder = Path(config["folder"])
    nodes = wait_for_nodes(grid, config["num-nodes"], 120)
    places = {n: NodeKeys(n % 2**64, 0, config["users"]).hashes(SALT).tolist() for n in nodes}
    at, asked, waiting = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0.0), {}

    def query(node, number):
        place = places[node][number // 2]
        question = Gradient(np.zeros(4))
        return Query(question, SubsetHypercube(1.0, 4), SALT, place, place + 1, number + 1)

    def question(node):
        return Message(query(node, at[node]).to_record_dict(), node, "query.report")

    def digest(node, number):  # by which the node's ledger knows the question
        return query(node, number).digest(node % 2**64, 0, f"patient-{number // 2:04d}")

    with (folder / "heard").open("w", buffering=1) as heard:
        while not (folder / "stop").exists():
            due = [node for node in nodes if time.monotonic() > asked[node] + 20]
            if due:
                pushed = grid.push_messages([question(node) for node in due])
                for number, node in zip(pushed, due):
                    waiting[number], asked[node] = (node, at[node]), time.monotonic()
            for reply in grid.pull_messages(list(waiting)):
                node, number = waiting.pop(reply.metadata.reply_to_message_id)
                code, content = None, None
                if reply.has_error():
                    code = reply.error.code
                else:
                    content = Report.from_record_dict(reply.content).to_bytes().hex()
                line = {"digest": digest(node, number), "number": number}
                line |= {"code": code, "content": content}
                heard.write(json.dumps(line) + chr(10))
                if code in (None, 102) and number == at[node]:
                    at[node], asked[node] = number + 1, 0.0
            time.sleep(0.3)
""",
}


def replies(path):
    """Return the encoded replies on a ledger, by what they answer."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT digest, content FROM reply")
        return {digest: content.hex() for digest, content in rows}


def test_no_killed_node_replies_unpaid_or_spends_twice(tmp_path):
    federation = Deployment(tmp_path, secure=True)
    write(tmp_path / "app", APP)
    ledgers = {f"node-{number}": tmp_path / f"{number}.db" for number in range(NUM_NODES)}

    def start(name):
        config = f'max-epsilon={EPSILON} ledger-path="{ledgers[name]}" users={USERS}'
        federation.start_supernode(name, f'{config} folder="{tmp_path / "calls" / name}"')

    def heard():
        # The last line may still be on its way.
        whole, _, _ = (tmp_path / "heard").read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def arrived():
        return [(line["digest"], line["content"]) for line in heard() if line["content"]]

    def assert_paid():
        answers = arrived()  # before the ledgers are read, which go on
        paid = {pair for path in ledgers.values() for pair in replies(path).items()}
        assert set(answers) <= paid

    def kill_often(name):
        """Kill a node soon after it has got a question, and start it again."""
        rng, paid = np.random.default_rng(int(name[-1])), Counter()
        for _ in range(KILLS):
            before, calls = replies(ledgers[name]), list((tmp_path / "calls" / name).iterdir())
            wait_for((tmp_path / "calls" / name / f"call-{len(calls)}").exists)
            time.sleep(SHORTEST * (LONGEST / SHORTEST) ** rng.uniform())
            federation.kill(name)
            assert_paid()
            paid[len(replies(ledgers[name])) - len(before)] += 1
            print(f"killed {name}; {len(heard())} replies so far", flush=True)
            time.sleep(FORGOTTEN)
            start(name)
        return paid

    try:
        federation.start_superlink()
        for name, path in ledgers.items():
            SqliteLedger.create(path)
            (tmp_path / "calls" / name).mkdir(parents=True)
            federation.register(name)
            start(name)
        run = federation.submit(
            tmp_path / "app", f'folder="{tmp_path}" num-nodes={NUM_NODES} users={USERS}'
        )
        wait_for((tmp_path / "heard").exists)
        with ThreadPoolExecutor(NUM_NODES) as executor:
            paid = sum(executor.map(kill_often, ledgers), Counter())
        before = len(heard())
        wait_for(lambda: len(heard()) >= before + 2 * NUM_NODES)  # all is well afterwards
        (tmp_path / "stop").touch()
        wait_for(lambda: federation.status(run).startswith("finished"), pause=1)
    finally:
        federation.stop()
    assert_paid()
    print(f"{sum(paid.values())} kills; answers paid in a node's life: {dict(paid)}")
    print(f"heard: {Counter(line['code'] for line in heard())}")
    answers = defaultdict(set)
    for line in heard():
        if line["code"] in (None, 102):
            # Every user's second question is one too many; the first, asked again, is free.
            assert (line["code"] == 102) == bool(line["number"] % 2)
            answers[line["digest"]].add(line["content"])
    assert all(len(same) == 1 for same in answers.values())
    for path in ledgers.values():
        ledger = SqliteLedger(path)
        assert {cost.epsilon for cost in ledger.spent().values()} == {EPSILON}
        assert len(ledger.spent()) == len(replies(path))
    lost = sum(len(replies(path)) for path in ledgers.values()) - len(set(arrived()))
    assert 0 <= lost <= NUM_NODES  # at most the answers that were about to leave
