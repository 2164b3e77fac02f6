"""``kill -9`` at random moments: what has left the machine is paid for, once.

60 kills here; ``LDP_FLOWER_KILLS=950 pytest tests/clients/test_kill.py`` makes more, and
``tests/deployment/test_kills.py`` makes some on real SuperNodes.
"""

import multiprocessing
import os
import sqlite3
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from deployed_node import answer, hashes, query, sent_until_killed, users

from ldp_flower.clients import Refusal
from ldp_flower.guarantee.ledger import SqliteLedger

NUM_KILLS = int(os.environ.get("LDP_FLOWER_KILLS", "60"))
LONGEST_LIFE = 12  # times what an answer takes
NUM_USERS = max(1000, 5 * NUM_KILLS)  # more than can be asked in so many lives
CAP = 3  # reports of epsilon 1 about each user, who is asked once more than that


@pytest.fixture
def nursery():
    """Return a fresh process to fork nodes from, whatever threads the tests' own has."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and kills as POSIX does")
def test_a_killed_node_neither_forgets_a_cost_nor_charges_it_twice(nursery, tmp_path):
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger.create(path)
    node_config = {"max-epsilon": CAP, "ledger-path": str(path), "num-users": NUM_USERS}
    asked = np.repeat(users(NUM_USERS).ids, CAP + 1)
    places = np.repeat(hashes(NUM_USERS), CAP + 1).tolist()
    questions = [query(step, place, place + 1) for step, place in enumerate(places, start=1)]

    def charged():
        return Counter({name: cost.epsilon for name, cost in ledger.spent().items()})

    start = time.perf_counter()
    sent = [answer(question, node_config) for question in questions[:10]]
    longest = LONGEST_LIFE * (time.perf_counter() - start) / len(sent)

    num_deaths_inside = 0
    for delay in np.random.default_rng(0).uniform(0, longest, NUM_KILLS):
        # A server asks again what was not answered: a life begins where the last one ended.
        rest = questions[len(sent) : len(sent) + 200]
        life = nursery.submit(sent_until_killed, delay, rest, node_config)
        answers, inside = life.result()
        sent += answers
        num_deaths_inside += inside
        paid = Counter(
            name for name, each in zip(asked, sent, strict=False) if each != Refusal.EXHAUSTED
        )
        # Whatever was sent is charged; beyond it, at most the one answer about to leave.
        about_to_leave = Counter([asked[len(sent)]])
        assert charged() == paid or (inside and charged() == paid + about_to_leave)
    assert num_deaths_inside >= NUM_KILLS / 2

    # Every user has answered as often as the budget allows, and then no more.
    refused = [each == Refusal.EXHAUSTED for each in sent]
    assert refused == [number % (CAP + 1) == CAP for number in range(len(sent))]
    assert max(charged().values()) == CAP
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    # Asked again from the beginning, the node gives the very same answers, for free.
    before = charged()
    again = [answer(question, node_config) for question in questions[: len(sent)]]
    assert again == sent
    assert charged() == before
