"""Synthetic columns, and the errors of results about them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from ldp_flower import Categories, Numeric, Schema
from ldp_flower.planning import Setting
from ldp_flower.strategies.forecasts.columns import (
    Columns,
    column_users,
    error_of_description,
    error_of_ranks,
)

SCHEMA = Schema({"x": Numeric(-10, 30), "kind": Categories(list("abcd"))})


def drawn(users, stand_in=False, **setting):
    population = column_users(
        SCHEMA, ["x", "kind"], Setting(num_users=users, **setting), "error", error_of_ranks
    )
    return population.draw(users, stand_in, np.random.default_rng(0)).users


def test_users_have_the_law_that_a_plan_states():
    """A mean of 4,000 users with 3 rows each is off by 5 errors of .0012 once in a million."""
    users = drawn(4000, rows_per_user=3)
    entries = (users.features[:, 1] + 2) / 4  # from -2 and 2 to 0 and 1
    assert abs(abs(entries.mean() - 0.5) - 1 / 8) < 5 * 0.0012
    assert entries.std() == pytest.approx(1 / 8, rel=0.05)
    assert np.bincount(np.argmax(users.features[:, 2:], axis=1)).min() > 2700


def test_users_who_stand_in_for_more_have_a_smooth_column():
    entries = np.sort(drawn(200_000, True, num_nodes=3).features[:, 1])
    middle = np.diff(entries)[1500:2500]
    assert len(entries) == 4000 and middle.max() < 3 * middle.min()


def test_every_user_counts_once_however_many_rows_it_has():
    columns = Columns({"x": np.array([1.0, 5.0, 5.0, 9.0])}, np.array([0, 1, 4]), 10)
    assert columns.below("x", np.array([0.0, 1.0, 5.0, 9.0])) == pytest.approx([0, 1 / 2, 5 / 6, 1])
    assert columns.below("x", np.array([5.0]), "left") == pytest.approx([1 / 2])
    assert columns.variance("x") == pytest.approx(np.var([1, 19 / 3]) / 10)
    found = SimpleNamespace(column="x", levels=np.array([0.6, 0.9]), values=np.array([5.0, 5.0]))
    # .6 is among those who share the value 5, up to 5 / 6.
    assert error_of_ranks(found, columns) == pytest.approx((0.9 - 5 / 6) / math.sqrt(2))


def test_a_mean_that_is_not_estimated_has_an_infinite_error():
    columns = Columns({"x": np.array([1.0, 5.0])}, np.arange(3), 2)
    errors = np.full((6, 1), np.nan)
    found = SimpleNamespace(numbers=["x"], std_error=errors, schema=SCHEMA)
    assert error_of_description(found, columns) == math.inf
