"""Rows without the name of a user: named, refused, or left out if that is asked for."""

import math

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from ldp_flower import Numeric, Schema, Users
from ldp_flower.guarantee.ledger import texts
from ldp_flower.guarantee.ledger_file import LedgerError

ROWS = 1000
MISSING = np.arange(0, ROWS, 4)  # 250
MISSING_ONES = [None, math.nan, pd.NA, pd.NaT, "", "  "]
SCHEMA = Schema({"x": Numeric(0, ROWS)})
TOLD = (
    "Expected groups without missing entries, got 250 of 1000 (rows 0, 4, 8, 12, 16, ..., counted "
    "from 0). "
)


def names(missing, name=str):
    return [missing if i % 4 == 0 else name(i // 8) for i in range(ROWS)]


WAYS = {
    "rows": lambda groups, **how: Users.from_rows(np.arange(ROWS)[:, None], None, groups, **how),
    "items": lambda groups, **how: Users.from_items(np.arange(ROWS), groups, **how),
    "schema": lambda groups, **how: SCHEMA.users({"x": np.arange(ROWS)}, groups, **how),
    "column": lambda groups, **how: SCHEMA.users(
        {"x": np.arange(ROWS), "person": groups}, "person", **how
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("missing", MISSING_ONES, ids=repr)
def test_rows_without_an_id_are_named_and_left_out_if_asked(way, missing, caplog):
    for groups in (names(missing), np.array(names(missing), object), pd.Series(names(missing))):
        with pytest.raises(ValueError, match="without missing") as refused:
            WAYS[way](groups)
        assert str(refused.value).startswith(TOLD)
        assert 'missing_ids="drop" (--drop-missing-ids)' in str(refused.value)
        users = WAYS[way](groups, missing_ids="drop")
        assert users.ids.tolist() == sorted(str(i) for i in range(ROWS // 8))
        numbers = users.take(np.argsort(users.ids.astype(int))).features[:, -1]
        kept = WAYS[way](np.arange(ROWS)).features[:, -1]
        np.testing.assert_array_equal(numbers, np.delete(kept, MISSING))
        assert "left out: 250 of 1000 (rows 0, 4, 8, 12, 16, ..., counted from 0)." in caplog.text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float64", "Int64", "object", "int64[pyarrow]"])
def test_integers_beside_a_missing_one_are_the_same_accounts(way, dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    groups = pd.Series(names(None, int), dtype=dtype)
    with pytest.raises(ValueError, match="without missing entries, got 250 of 1000"):
        WAYS[way](groups)
    users = WAYS[way](groups, missing_ids="drop")
    assert users.ids.tolist() == [str(i) for i in range(ROWS // 8)]


def test_integers_that_pandas_has_merged_are_no_accounts():
    large = 2**53
    groups = pd.Series([large + 1, None, large])
    assert groups.nunique() == 1  # of two people
    with pytest.raises(ValueError, match=r"below 2\*\*53 in groups, .* not told apart"):
        Users.from_rows(np.ones((3, 1)), None, groups, missing_ids="drop")
    exact = pd.Series([large + 1, None, large], dtype="Int64")
    users = Users.from_rows(np.ones((3, 1)), None, exact, missing_ids="drop")
    assert users.ids.tolist() == [str(large), str(large + 1)]
    with pytest.raises(ValueError, match="all of one type, got float"):
        Users.from_rows(np.ones((3, 1)), None, [1.5, None, 2.0], missing_ids="drop")


def test_ids_of_all_users_are_names_too():
    x = np.ones((1, 1))
    for missing in MISSING_ONES:
        with pytest.raises(ValueError, match=r"Expected ids without missing .* \(row 1, counted"):
            Users.from_rows(x, None, ["a"], ids=["a", missing])
        users = Users.from_rows(x, None, ["a"], ids=["a", missing], missing_ids="drop")
        assert users.ids.tolist() == ["a"]
    for blank in ("", " "):
        with pytest.raises(ValueError, match="Expected ids that are not empty"):
            Users(x, np.ones(1), np.array([0, 1]), np.array([blank]))
    with pytest.raises(LedgerError, match="Expected ids that are not empty"):
        texts(np.array(["a", ""]))


def test_an_argument_without_effect_is_refused():
    for drop in (
        lambda: Users.from_rows(np.ones((1, 1)), missing_ids="drop"),
        lambda: SCHEMA.users({"x": [1]}, missing_ids="drop"),
        lambda: SCHEMA.loader("table.csv", missing_ids="drop"),
    ):
        with pytest.raises(ValueError, match="only where the user of each row is named"):
            drop()
    with pytest.raises(ValueError, match=r"missing_ids in \['raise', 'drop'\], got 'fill'"):
        Users.from_rows(np.ones((1, 1)), None, ["a"], missing_ids="fill")


def test_nobody_is_left_where_all_ids_are_missing():
    users = Users.from_rows(np.ones((2, 1)), None, [None, ""], missing_ids="drop")
    assert len(users) == 0 and users.num_features == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_with_such_rows_is_refused_or_they_are_left_out(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    if suffix == ".csv":
        path.write_text("x,person\n1,a\n2,\n3,b\n4, \n")
    else:
        pytest.importorskip("pyarrow")
        pd.DataFrame({"x": [1, 2, 3, 4], "person": ["a", None, "b", " "]}).to_parquet(path)
    context = Context(1, 2, {}, RecordDict(), {})
    with pytest.raises(ValueError, match=r"got 2 of 4 \(rows 1, 3, counted from 0\)"):
        SCHEMA.loader(path, user_column="person")(context)
    users = SCHEMA.loader(path, user_column="person", missing_ids="drop")(context)
    assert users.ids.tolist() == ["a", "b"] and users.num_rows.tolist() == [1, 1]
