"""Processes that share a ledger race for its users' budgets."""

import multiprocessing
from collections import Counter
from functools import partial

import numpy as np
import pytest
from deployed_node import answer, hashes, query, users

from ldp_flower.clients import Refusal
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import HASH_END, Report

NUM_PROCESSES = 3
EPSILON = 1 / 16  # of a report; sums of it are exact
TIMEOUT = 120.0  # seconds; a pool whose processes cannot start would wait for ever


@pytest.fixture(scope="module")
def pool():
    processes = multiprocessing.get_context("spawn")
    at_the_start = processes.Barrier(NUM_PROCESSES)
    with processes.Pool(NUM_PROCESSES, at_the_start.wait) as pool:
        yield pool


@pytest.fixture
def race(pool, ledger, tmp_path):
    """Return a function that lets processes compete to answer questions.

    Each user's budget allows ``cap`` reports.
    """

    def compete(questions, num_users, cap):
        node_config = {
            "max-epsilon": cap * EPSILON,
            "ledger-path": str(tmp_path / "ledger.db"),
            "num-users": num_users,
        }
        answer_one = partial(answer, node_config=node_config)
        return pool.map_async(answer_one, questions, chunksize=1).get(TIMEOUT)

    return compete


def test_every_user_reports_exactly_as_often_as_the_budget_allows(race, ledger):
    # Each question goes to some of the users, so some can pay and others cannot, and
    # who they are changes while a process is at work on its answer.
    num_users, cap = 8, 25
    rng = np.random.default_rng(0)
    cuts = [*sorted(hashes(num_users)), HASH_END]
    ranges = [sorted(rng.choice(len(cuts), 2, replace=False)) for _ in range(250)]
    questions = [
        query(step, cuts[low], cuts[high], EPSILON)
        for step, (low, high) in enumerate(ranges, start=1)
    ]

    answers = race(questions, num_users, cap)

    reports = [Report.from_bytes(each) for each in answers if each != Refusal.EXHAUSTED]
    accepted = Counter(int(slot) for report in reports for slot in report.arrays["slots"])
    assert accepted == {slot: cap for slot in range(num_users)}
    assert ledger.spent() == {name: Cost(cap * EPSILON) for name in users(num_users).ids}


@pytest.mark.slow
def test_one_question_has_one_answer_whoever_gives_it(race, ledger):
    # After the first of a user's two questions there is budget left, after the second
    # there is none; every process is asked each.
    num_users, cap = 40, 2
    places = np.repeat(hashes(num_users), cap).tolist()
    questions = [
        query(step, place, place + 1, EPSILON) for step, place in enumerate(places, start=1)
    ]

    answers = race(
        [question for question in questions for _ in range(NUM_PROCESSES)], num_users, cap
    )

    for start in range(0, len(answers), NUM_PROCESSES):
        first, *others = answers[start : start + NUM_PROCESSES]
        assert isinstance(first, bytes)
        assert others == [first] * len(others)
    assert ledger.spent() == {name: Cost(cap * EPSILON) for name in users(num_users).ids}
