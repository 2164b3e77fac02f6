"""Small Flower apps that nobody of this library has written, from one template.

A logistic regression of six numbers on five columns. What an app does with its update before
it leaves, and what it tells beside it, are snippets of code; see :class:`App`.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

PROJECT = """
[project]
name = "{name}"
version = "1.0.0"
dependencies = ["flwr"]

[tool.flwr.app]
publisher = "somebody"

[tool.flwr.app.components]
serverapp = "{name}.server_app:app"
clientapp = "{name}.client_app:app"
{declared}

[tool.flwr.app.config]
num-server-rounds = {rounds}

[tool.flwr.federations]
default = "local"

[tool.flwr.federations.local]
options.num-supernodes = {nodes}
"""

TASK = '''
"""Data and training."""

import numpy as np


{load}


def as_binary(y):
    return (y == 1).astype(float)


def fit(w, b, x, y, steps=5, rate=0.5):
    """Return the change of weights and bias by a few steps of gradient descent."""
    start, target = (w, b), as_binary(y)
    for _ in range(steps):
        error = 1 / (1 + np.exp(-np.clip(x @ w + b, -30, 30))) - target
        w = w - rate * x.T @ error / max(len(y), 1)
        b = b - rate * error.sum(keepdims=True) / max(len(y), 1)
    return [w - start[0], b - start[1]]


def loss(w, b, x, y):
    odds = np.clip(x @ w + b, -30, 30)
    return float(np.mean(np.log1p(np.exp(odds)) - as_binary(y) * odds))


def length(update):
    return float(np.sqrt(sum((u ** 2).sum() for u in update)))


def clipped(update, norm):
    """Shorten all arrays together; what is not finite is 0."""
    if not np.isfinite(length(update)):
        return [np.zeros_like(u) for u in update]
    factor = min(1.0, norm / max(length(update), 1e-12))
    return [u * factor for u in update]


def sigma_of(norm, epsilon, delta):
    """Return the classical noise: two updates differ by twice the norm; epsilon of at most 1."""
    return 2 * norm * np.sqrt(2 * np.log(1.25 / delta)) / epsilon


def gaussian(update, sigma, rng=None):
    rng = np.random.default_rng() if rng is None else rng
    return [u + sigma * rng.normal(size=u.shape) for u in update]
'''

BY_PARTITION = '''
def load_data(partition_id, num_partitions):
    """Return features and labels 0, 1 or 2 of one partition."""
    rng = np.random.default_rng(1000 + partition_id)
    x = rng.normal(size=(30 + 5 * partition_id, 5))
    return x, (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)
'''

BY_PATH = '''
def load_data(path):
    """Return features and labels 0, 1 or 2."""
    with np.load(path) as kept:
        return kept["x"], kept["y"]
'''

CLIENT = '''
"""The client."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from {name}.task import as_binary, clipped, fit, gaussian, length, load_data, loss, sigma_of
{top}

app = ClientApp(mods=[{mods}])


def data_of(context):
    return load_data({where})


@app.train()
def train(message, context):
    w, b = message.content["arrays"].to_numpy_ndarrays()
    server_round = int(message.content["config"]["server-round"])
    x, y = data_of(context)
    update = fit(w, b, x, y)
    metrics = {{"num-examples": 1}}
{train}
    arrays = {{"weight": w + update[0], "bias": b + update[1]}}
{reply}
    arrays = ArrayRecord({{name: Array(np.asarray(a)) for name, a in arrays.items()}})
    content = RecordDict({{"arrays": arrays, "metrics": MetricRecord(metrics)}})
{content}
    return Message(content, reply_to=message)
{handlers}
'''

EVALUATE = """

@app.evaluate()
def evaluate(message, context):
    w, b = message.content["arrays"].to_numpy_ndarrays()
    x, y = data_of(context)
    metrics = {{"num-examples": 1}}
{evaluate}
    return Message(RecordDict({{"metrics": MetricRecord(metrics)}}), reply_to=message)
"""

QUERY = """

@app.query()
def query(message, context):
    x, y = data_of(context)
    answer = {{}}
{query}
    return Message(RecordDict({{"answer": MetricRecord(answer)}}), reply_to=message)
"""

SERVER = '''
"""The server: federated averaging."""

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg{imports}

app = ServerApp()


@app.main()
def main(grid, context):
    model = {{"weight": Array(np.zeros(5)), "bias": Array(np.zeros(1))}}
    strategy = FedAvg(fraction_evaluate={evaluated})
    {wrapped}
    rounds = context.run_config["num-server-rounds"]
    strategy.start(grid=grid, initial_arrays=ArrayRecord(model), num_rounds=rounds)
'''

#: A server of its own, which takes whatever it gets.
OWN_SERVER = '''
"""The server: averages what has the form of a model, whatever else there is."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    model = [np.zeros(5), np.zeros(1)]
    for server_round in range(1, context.run_config["num-server-rounds"] + 1):
        arrays = ArrayRecord(dict(zip(["weight", "bias"], map(Array, model), strict=True)))
        config = ConfigRecord({{"server-round": server_round, "seed": 17 * server_round}})
        told = RecordDict({{"arrays": arrays, "config": config}})
        nodes = grid.get_node_ids()
        replies = grid.send_and_receive([Message(told, node, "train") for node in nodes])
        found = [r.content["arrays"] for r in replies if r.has_content() and "arrays" in r.content]
        found = [{{k: v.numpy() for k, v in a.items()}} for a in found]
        found = [a for a in found if {{"weight", "bias"}} <= set(a)]
        if found:
            model = [np.mean([a[k] for a in found], axis=0) for k in ("weight", "bias")]
        {query}
'''

ASKED = 'grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes])'


#: Of Flower before messages: a client with ``fit`` and ``evaluate``.
LEGACY_CLIENT = """
import numpy as np
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from {name}.task import clipped, fit, gaussian, load_data, loss


class Client(NumPyClient):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def get_parameters(self, config):
        return [np.zeros(5), np.zeros(1)]

    def fit(self, parameters, config):
        w, b = parameters
        update = fit(w, b, self.x, self.y)
        update = UPDATE
        return [w + update[0], b + update[1]], len(self.x), {}


def client_fn(context):
    where = context.node_config["partition-id"], context.node_config["num-partitions"]
    return Client(*load_data(*where)).to_client()


app = ClientApp(client_fn=client_fn)
"""

LEGACY_SERVER = """
import numpy as np
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp


def server_fn(context):
    start = ndarrays_to_parameters([np.zeros(5), np.zeros(1)])
    strategy = FedAvg(fraction_evaluate=0.0, initial_parameters=start)
    rounds = context.run_config["num-server-rounds"]
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))


app = ServerApp(server_fn=server_fn)
"""

#: A handler under a name, as federated analytics have it.
NAMED_CLIENT = """
import numpy as np
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from {name}.task import load_data

app = ClientApp()


@app.query("histogram")
def histogram(message, context):
    where = context.node_config["partition-id"], context.node_config["num-partitions"]
    x, y = load_data(*where)
    counts = MetricRecord({"counts": np.bincount(y, minlength=3).tolist()})
    return Message(RecordDict({"counts": counts}), reply_to=message)
"""

NAMED_SERVER = """
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    nodes = list(grid.get_node_ids())
    asked = [Message(RecordDict(), node, "query.histogram") for node in nodes]
    grid.send_and_receive(asked)
"""


@dataclass(frozen=True)
class App:
    """A stranger's app.

    Attributes
    ----------
    train : str
        What is done to ``update`` (two arrays) and ``metrics``, from ``x``, ``y``, ``w``, ``b``,
        ``server_round``, ``message`` and ``context``.
    reply : str
        What is done to ``arrays``, by name, before they are sent.
    content : str
        What is done to the reply's ``content``.
    evaluate, query : str or None
        What is done to ``metrics``, or ``answer``; None: such messages are not known.
    top, mods : str
        Code of the module, and the app's mods.
    rounds : int
        Number of rounds.
    own_server : bool
        Whether the server takes replies of any form.
    wrapped : str
        A wrapper of Flower's strategy, of which ``imported`` is the name.
    sample : bool
        Whether data come from ``data-path``.
    client, server : str or None
        The whole module, in place of the template's.
    loader : str or None
        The function that returns data, if the project declares it.
    nodes : int
        Number of nodes.
    claim, delta, unit, runs
        Of the audit's options; large claims take more runs to contradict.
    """

    train: str = ""
    reply: str = ""
    content: str = ""
    evaluate: str | None = None
    query: str | None = None
    top: str = ""
    mods: str = ""
    rounds: int = 3
    own_server: bool = False
    wrapped: str = ""
    imported: str = ""
    sample: bool = False
    client: str | None = None
    server: str | None = None
    loader: str | None = None
    nodes: int = 4
    claim: float | None = None
    delta: float | None = None
    unit: str | None = None
    runs: int = 1500


def written(app: App, name: str, folder: Path) -> tuple[Path, Path | None]:
    """Write an app; return its directory, and the file of rows that it wants, if any."""
    root = folder / name
    package = root / name
    package.mkdir(parents=True)
    where = 'context.node_config["partition-id"], context.node_config["num-partitions"]'
    if app.sample:
        where = 'context.node_config["data-path"]'
    handlers = ""
    if app.evaluate is not None:
        handlers += EVALUATE.format(evaluate=_indented(app.evaluate))
    if app.query is not None:
        handlers += QUERY.format(query=_indented(app.query))
    client = app.client or CLIENT.format(
        name=name,
        top=app.top,
        mods=app.mods,
        where=where,
        train=_indented(app.train),
        reply=_indented(app.reply),
        content=_indented(app.content),
        handlers=handlers,
    )
    own = app.own_server or app.query is not None
    server = app.server or (
        OWN_SERVER.format(query=ASKED if app.query is not None else "pass")
        if own
        else SERVER.format(
            imports=f", {app.imported}" if app.imported else "",
            evaluated=float(app.evaluate is not None),
            wrapped=f"strategy = {app.wrapped}" if app.wrapped else "pass",
        )
    )
    declared = f'loader = "{name}.{app.loader}"' if app.loader else ""
    files = {
        root / "pyproject.toml": PROJECT.format(
            name=name, declared=declared, rounds=app.rounds, nodes=app.nodes
        ),
        package / "__init__.py": '"""An app."""\n',
        package / "task.py": TASK.format(load=BY_PATH if app.sample else BY_PARTITION),
        package / "client_app.py": client.replace("{name}", name),
        package / "server_app.py": server.replace("{name}", name),
    }
    for path, text in files.items():
        path.write_text(text)
    rows = None
    if app.sample:
        rows = root / "rows.npz"
        rng = np.random.default_rng(7)
        x = rng.normal(size=(60, 5))
        np.savez(rows, x=x, y=(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5))
    return root, rows


def _indented(code: str) -> str:
    lines = code.strip("\n").splitlines() or ["pass"]
    return "\n".join(f"    {line}" for line in lines)
