"""Rows that cannot be used are told by the names of their columns, where they are given."""

import logging

import numpy as np
import pandas as pd
import pytest

from ldp_flower import GeneratedUsers, Users, simulate
from ldp_flower.strategies import HeavyHitters, LdpIht

FRAME = pd.DataFrame({"age": [31, None, 40], "city": ["Rome", "Oslo", "Rome"], "ok": [1, 2, 3]})


def warnings_of(caplog):
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def test_columns_of_text_are_named(caplog):
    users = Users.from_rows(FRAME, [1.0, 2.0, 3.0])
    (told,) = warnings_of(caplog)
    assert told.startswith("3 of 3 rows cannot be used")
    assert "column 'city' (3 of 3 rows), 'age' (1 of 3 rows). A Schema" in told
    assert "Rome" not in told and users.columns == ["age", "city", "ok"]


@pytest.mark.parametrize("given", [FRAME[["ok"]], [[1.0], [2.0], [3.0]], np.ones((3, 2))])
def test_numbers_are_no_word_worth(given, caplog):
    Users.from_rows(given, [1.0, 2.0, 3.0])
    assert not warnings_of(caplog)


def test_many_columns_are_not_listed(caplog):
    Users.from_rows(pd.DataFrame(np.full((2, 9), np.inf)))
    (told,) = warnings_of(caplog)
    assert "'4' (2 of 2 rows) and 4 more." in told


def test_columns_without_names_have_numbers(caplog):
    """What is left out of them the client logs, when it is asked."""
    users = Users.from_rows([["x", "y"], [1.0, "z"]] * 50, np.ones(100))
    assert not warnings_of(caplog)
    with pytest.raises(ValueError, match=r"column 1 \(100 of 100 rows\), 0 \(50 of 100 rows\)"):
        simulate(LdpIht(2, sparsity=1, epsilon=4.0), users)


def test_a_simulation_of_no_usable_row_is_refused_by_name():
    users = Users.from_rows(FRAME, [1.0, 2.0, 3.0]).partition(0, 1)
    with pytest.raises(ValueError, match=r"column 'city' \(3 of 3 rows\), 'age' \(1 of 3 rows\)"):
        simulate(LdpIht(3, sparsity=1, epsilon=4.0), users)


def test_items_that_are_none_are_counted(caplog):
    users = Users.from_items(pd.Series([7, None, 3, None]))
    (told,) = warnings_of(caplog)
    assert told.startswith("2 of 4 rows hold no item")
    assert np.isnan(users.features[:, 0]).sum() == 2
    none = Users.from_items([0.5, -1] * 50)
    with pytest.raises(ValueError, match=r"items by Users\.from_items"):
        simulate(HeavyHitters(16, epsilon=4.0), none)


def test_no_representation_tells_a_row():
    users = Users.from_rows(np.full((3, 2), 0.12345), np.full(3, 0.54321), ["ann", "bob", "eve"])
    generated = GeneratedUsers(3, 2, lambda indices: users)
    for shown in (users, generated, users[0:2], users.finite()):
        told = repr(shown)
        assert not any(private in told for private in ("12345", "54321", "ann", "0x"))
        assert "num_features=2" in told
