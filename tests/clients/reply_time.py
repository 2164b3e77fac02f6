"""How long a node's reply takes against how many rows its users have: run as a script."""

import tempfile
import time
from pathlib import Path

import numpy as np
from deployed_node import SALT, ask

from ldp_flower import Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Query
from ldp_flower.questions import ResidualCoefficients
from ldp_flower.randomizers import Codebook

USERS, DIM, ANSWERS, CAP = 100, 32, 21, 100


def median_seconds(rows, folder, **limits):
    """Return the median time of an answer about users of so many rows each."""
    x = np.random.default_rng(0).standard_normal((USERS * rows, DIM))
    ids = np.array([f"user-{i}" for i in range(USERS)])
    users = Users(x, x[:, 0].copy(), rows * np.arange(USERS + 1), ids)
    path = folder / f"{rows}-{len(limits)}.db"
    SqliteLedger.create(path)
    node_config = {"max-epsilon": 100.0, "ledger-path": str(path), **limits}
    question = ResidualCoefficients(np.zeros(DIM), np.ones(DIM), ridge=1.0)
    seconds = []
    for step in range(1, ANSWERS + 1):
        randomizer = Codebook(1.0, DIM, 1.0)
        query = Query(question, randomizer, SALT, 0, HASH_END, step)
        started = time.perf_counter()
        reply = ask(LdpClientApp(lambda _: users), query, node_config)
        seconds.append(time.perf_counter() - started)
        assert not reply.has_error(), reply.error
    return float(np.median(seconds))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        capped = {"max-rows": CAP}
        choices = [{}, capped, capped | {"reply-after": 0.3}]
        print(*choices, sep="; ")
        for rows in (1, 10, CAP, 10 * CAP):
            seconds = [median_seconds(rows, Path(folder), **choice) for choice in choices]
            print(f"{rows:5} rows a user:", *(f"{each:.3f} s" for each in seconds))
