"""A long simulation tells how far it is, to whoever looks, and wipes it."""

import logging
import sys

import numpy as np
import pytest

from ldp_flower import Numeric, Schema, Users, simulate
from ldp_flower.simulation import grid
from ldp_flower.simulation.grid import row_messages_merged
from ldp_flower.strategies import Means, NonInteractiveIht

USERS = Users.from_rows(np.ones((400, 2)), np.ones(400))


def run():
    return simulate(NonInteractiveIht(2, sparsity=1, epsilon=4.0), USERS, seed=0, num_nodes=4)


@pytest.mark.parametrize("looking", [True, False])
def test_a_line_is_told_where_somebody_looks(looking, monkeypatch, capsys):
    monkeypatch.setattr(grid, "_AFTER", 0.0)
    monkeypatch.setattr(grid, "_EVERY", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: looking, raising=False)
    run()
    told = capsys.readouterr().err
    if not looking:
        assert told == ""
        return
    lines = told.split("\r")
    assert lines[1].startswith("Step 0, node 1 of 4, ") and "Step 1, node 4 of 4, " in told
    assert {len(line) for line in lines[1:-1]} == {60}
    assert not lines[-2].strip() and not lines[-1]  # wiped


def test_what_is_quick_says_nothing(monkeypatch, capsys):
    monkeypatch.setattr(grid, "_AFTER", 1e9)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    run()
    assert capsys.readouterr().err == ""


def test_what_clients_warn_of_is_said_once_a_run(caplog):
    schema = Schema({"age": Numeric(0, 90)}, "wage", Numeric(0, 9))
    users = schema.users({"age": [30.0] * 800, "wage": [1.0, float("nan")] * 400})
    for _ in range(2):
        caplog.clear()
        result = simulate(Means(schema, ["wage"], epsilon=4.0), users, seed=0)
        assert len(result.steps) > 2
        (said,) = [record.getMessage() for record in caplog.records]
        assert "they have nothing that can be reported" in said


def test_numbers_of_cohorts_are_added_up(caplog):
    logger = logging.getLogger("ldp_flower.clients.values")
    with row_messages_merged():
        for bad, number in ((8, 116), (3, 100), (0, 50)):
            logger.warning("%d of %d users of %s", bad, number, "a")
        logger.warning("%d of %d users of %s", 1, 2, "b")
    assert [record.getMessage() for record in caplog.records] == [
        "11 of 266 users of a",
        "1 of 2 users of b",
    ]
