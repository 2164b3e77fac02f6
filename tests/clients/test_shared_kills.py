"""Two of six nodes die at any places of a shared sum and come back: one sum, paid once."""

import itertools
import multiprocessing
import os
import sqlite3
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from nodes_of_peers import NAMES, NODES, USERS, Hospitals, query, total, truth

from ldp_flower.cli.studies import as_toml
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import Report
from ldp_flower.guarantee.shared_sums import Commit
from ldp_flower.guarantee.studies import Study
from ldp_flower.randomizers.discrete_gaussian import SIGMA
from ldp_flower.supernode.bookkeeping import InStudy, spent_in_studies

#: A method of the ledger, and whether the process ends before or after it.
PLACES = {
    "before the commit": ("commit", "before"),
    "commit written": ("commit", "after"),
    "before the payment": ("reserve", "before"),
    "paid": ("reserve", "after"),
    "before the answer is written": ("fulfil", "before"),
    "answer written": ("fulfil", "after"),
}
DIED = 137


def _answer(sender, hospitals, place, method, arguments):
    if place is not None:
        name, when = PLACES[place]
        whole = getattr(SqliteLedger, name)

        def dying(*given):
            if when == "after":
                whole(*given)
            os._exit(DIED)

        setattr(SqliteLedger, name, dying)
    sender.send(getattr(hospitals, method)(*arguments))


def answered(hospitals, place, method, *arguments):
    """Return what a node's process answers; None if it has died."""
    processes = multiprocessing.get_context("fork")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=_answer, args=(sender, hospitals, place, method, arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return None
    finally:
        process.join()


def step_with_deaths(hospitals, asked, deaths):
    """Return the answers of one honest step; each node that dies does so once."""
    deaths = dict(deaths)

    def ask(name, method, *arguments):
        found = answered(hospitals, deaths.get(name), method, *arguments)
        if found is None:
            del deaths[name]
            found = answered(hospitals, None, method, *arguments)
        return found

    commits = [ask(name, "commit", name, asked) for name in NAMES]
    assert all(isinstance(each, Commit) for each in commits)
    reports = [ask(name, "sum", name, asked, commits) for name in NAMES]
    assert not deaths
    return reports


PAIRS = list(itertools.product(PLACES, PLACES))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(*pair, marks=[] if i % 7 == 0 else pytest.mark.long)
        for i, pair in enumerate(PAIRS)
    ],
)
def test_two_nodes_die_and_everybody_pays_once(tmp_path, first, second):
    hospitals, asked = Hospitals(tmp_path), query(parts=5000)
    reports = step_with_deaths(hospitals, asked, {NAMES[1]: first, NAMES[4]: second})
    assert all(isinstance(each, Report) for each in reports)
    noise = (total(reports) - truth(asked)) / (SIGMA * NODES**0.5)
    assert np.abs(noise).max() < 7  # 5 numbers: once in 1e11 times
    for name in NAMES:
        spent = hospitals.ledger(name).spent()
        whole = Cost(1.0, 1e-6, alone=asked.randomizer.alone)
        assert spent == {f"{name}-{i}": whole for i in range(USERS)}
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            assert {row for row in connection.execute("SELECT used FROM plan")} == {(5000,)}
            assert connection.execute("SELECT COUNT(*) FROM shared").fetchone() == (1,)
            assert connection.execute("SELECT secret FROM shared").fetchone() == (None,)


@pytest.mark.parametrize("place", PLACES)
def test_a_study_pays_for_one_step_wherever_a_node_dies(tmp_path, place):
    file, asked = tmp_path / "studies.toml", replace(query(parts=5000), study="sums")
    columns = ("x0", "x1", "x2", "x3", "x4", "y")
    limits = {"delta": 1e-6, "epsilon_alone": 4.0}
    study = Study("sums", ("mean",), columns, ("shared",), 1.0, 1, date(2999, 1, 1), **limits)
    file.write_text(f"format = 1\n{as_toml(study)}")
    file.chmod(0o644)
    hospitals = Hospitals(tmp_path, studies=str(file))
    reports = step_with_deaths(hospitals, asked, {NAMES[1]: place})
    assert all(isinstance(each, Report) for each in reports)
    whole = InStudy(USERS, Cost(1.0, 1e-6, alone=asked.randomizer.alone), 1)
    for name in NAMES:
        assert spent_in_studies(hospitals.ledger(name)) == {"sums": whole}


def test_processes_that_answer_two_sets_at_once_give_one_answer(tmp_path):
    hospitals, asked = Hospitals(tmp_path), query()
    commits = hospitals.commits(asked)
    processes = multiprocessing.get_context("fork")
    waiting = []
    for number in range(6):
        receiver, sender = processes.Pipe(duplex=False)
        members = commits if number % 2 else commits[:-1]
        arguments = (sender, hospitals, None, "sum", ("site-0", asked, members))
        process = processes.Process(target=_answer, args=arguments)
        process.start()
        sender.close()
        waiting.append((receiver, process))
    found = [receiver.recv() for receiver, _ in waiting]
    for _, process in waiting:
        process.join()
    reports = [each.to_bytes() for each in found if isinstance(each, Report)]
    assert len(reports) == 3 and len(set(reports)) == 1
    with sqlite3.connect(tmp_path / "site-0.db") as connection:
        assert {row for row in connection.execute("SELECT used FROM plan")} == {(1000,)}
