"""Nodes of operators who have pinned each other's keys, as their SuperNodes run them.

A module of its own, so that processes that a test starts can import it.
"""

from dataclasses import replace
from uuid import uuid4

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.guarantee.peers import KeyFiles, Peer, encode, operators_files
from ldp_flower.guarantee.peers_file import write_peers
from ldp_flower.guarantee.shared_sums import Commit, Committed, Members
from ldp_flower.questions import Mean
from ldp_flower.randomizers import BallSum

NODES, DISHONEST, HONEST, USERS, DIM = 6, 1, 4, 8, 5
NAMES = [f"site-{i}" for i in range(NODES)]
SALT = 11


def values_of(name, dim=DIM):
    """Return the one row of each user of a node, of length at most 1."""
    rng = np.random.default_rng([3, int(name.rpartition("-")[2])])
    rows = rng.standard_normal((USERS, dim))
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


def query(step=1, parts=1000, salt=SALT, honest=HONEST, epsilon=1.0, dim=DIM):
    mechanism = BallSum(epsilon, 1e-6, dim, parts, honest)
    return Query(Mean(np.zeros(dim)), mechanism, salt, 0, HASH_END, step)


def digest_of(asked):
    return bytes.fromhex(asked.digest("shared sum"))


def committed(name, key, ephemeral, asked):
    """Return a commit signed by a key, whatever is in it."""
    public = key.public_key().public_bytes_raw()
    text = encode("commit", digest_of(asked), name, public, ephemeral)
    return Commit(name, public, ephemeral, key.sign(text))


class Hospitals:
    """The folders of some operators, and what their nodes answer."""

    app = LdpClientApp

    def __init__(self, folder, dim=DIM, **policy):
        self.folder, self.dim = folder, dim
        self.policy = {"max-epsilon": 3.0, "max-delta": 1e-5, "noise": "shared"}
        self.policy |= {"max-dishonest": DISHONEST, **policy}
        self.keys = {}
        for name in NAMES:
            self.new_key(name)
            SqliteLedger.create(folder / f"{name}.db")
        self.pin()

    def new_key(self, name):
        self.keys[name] = key = Ed25519PrivateKey.generate()
        file = self.folder / f"{name}.key"
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.chmod(0o600)

    def pin(self, *more, who=NAMES):
        """Write the peers files: all keys, and some more peers."""
        peers = [Peer(n, key.public_key().public_bytes_raw()) for n, key in self.keys.items()]
        for name in who:
            write_peers(self.folder / f"{name}.toml", [*peers, *more])

    def ledger(self, name):
        return SqliteLedger(self.folder / f"{name}.db")

    def send(self, name, kind, content, dim=None):
        """Hand a message to a node as its SuperNode does, and return the reply."""
        if vars(TaskIdentity)["_run_id"] is None:  # messages belong to one of Flower's processes
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
        rows = values_of(name, dim or self.dim)
        people = [f"{name}-{i}" for i in range(USERS)]
        columns = [*(f"x{j}" for j in range(rows.shape[1])), "y"]
        users = replace(Users.from_rows(rows, np.zeros(USERS), people), columns=columns)
        number = NAMES.index(name) + 1
        message = Message(content, number, kind)
        message.metadata.__dict__["_message_id"] = str(uuid4())
        config = {**self.policy, "ledger-path": str(self.folder / f"{name}.db")}
        context = Context(1, number, config, RecordDict(), {})
        file = self.folder / name
        token = operators_files.set(KeyFiles(f"{file}.key", f"{file}.toml"))
        try:
            return self.app(lambda _: users)(message, context)
        finally:
            operators_files.reset(token)

    def commit(self, name, asked):
        """Return a node's commit, or the code of its refusal."""
        reply = self.send(name, "query.commit", asked.to_record_dict())
        if reply.has_error():
            return reply.error.code
        return Committed.from_record(reply.content["commit"]).commit

    def commits(self, asked, names=NAMES):
        return [self.commit(name, asked) for name in names]

    def sum(self, name, asked, commits):
        """Return a node's masked sum as a report's arrays, or the code of its refusal."""
        content = asked.to_record_dict()
        content["set"] = Members(tuple(commits)).to_record()
        reply = self.send(name, "query.report", content)
        return reply.error.code if reply.has_error() else Report.from_record_dict(reply.content)

    def sums(self, asked, commits, names=NAMES):
        return [self.sum(name, asked, commits) for name in names]

    def run(self, asked):
        """Return the sum of all nodes in one honest step."""
        return total(self.sums(asked, self.commits(asked)))


def total(reports):
    """Return the sum of masked sums, as a server adds them."""
    parts = [report.arrays["masked"].view(np.uint64) for report in reports]
    return np.sum(parts, axis=0, dtype=np.uint64).view(np.int64)


def truth(asked, names=NAMES):
    """Return the exact sum of the users' values in integers."""
    mechanism = replace(asked.randomizer)
    return sum(mechanism.total(values_of(name, mechanism.dim)) for name in names)
