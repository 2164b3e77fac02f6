"""Users from a table on disk, in simulations and deployments."""

import importlib.util
import json

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from ldp_flower import Categories, Numeric, Schema
from ldp_flower.clients import LdpClientApp
from ldp_flower.simulation.grid import InProcessGrid
from ldp_flower.strategies import NonInteractiveIht, PrivateRegression

SCHEMA = Schema(
    {"age": Numeric(0, 100), "job": Categories(["a", "1"])}, target="wage", bounds=Numeric(0, 10)
)
CSV = "name,person,age,wage,job\nx,007,20,1.5,a\ny,7,50,2,1\nz,007,70,,b\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(CSV)
    return path


def context(**node_config):
    return Context(1, 2, node_config, RecordDict(), {})


def same(one, other):
    assert one.ids.tolist() == other.ids.tolist()
    for name in ("features", "targets", "offsets", "missing"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_file_gives_the_users_of_its_rows(table):
    users = SCHEMA.loader(table, user_column="person")(context())
    frame = pd.DataFrame(
        {
            "person": ["007", "7", "007"],
            "age": [20, 50, 70],
            "wage": [1.5, 2, np.nan],
            "job": ["a", 1, "b"],
        }
    )
    assert users.ids.tolist() == ["007", "7"]
    same(users, SCHEMA.users(frame, "person"))


def test_the_operator_names_files_where_the_app_does_not(table, tmp_path):
    (tmp_path / "everyone.txt").write_text("007\n7\nnobody\n")
    loader = SCHEMA.loader(user_column="person")
    config = {"data-path": str(table), "ids-path": str(tmp_path / "everyone.txt")}
    assert loader(context(**config)).ids.tolist() == ["007", "7", "nobody"]
    given = SCHEMA.loader(table, user_column="person", ids=tmp_path / "everyone.txt")
    same(given(context()), loader(context(**config)))
    with pytest.raises(ValueError, match="data-path in node_config"):
        loader(context())


def test_one_cell_of_a_csv_file_changes_no_other(table):
    """pandas would take the column for texts, and 1.0 for another category than 1."""
    rows = "\n".join(f"q,u{i},{i}.0,0.1,1.0" for i in range(3))
    path = table.with_name("other.csv")
    loaded = []
    for last in ("q,v,30.0,0.1,1.0", 'q,v,"about 30",True,"x"'):
        path.write_text(f"name,person,age,wage,job\n{rows}\n{last}\n")
        loaded.append(SCHEMA.loader(path, user_column="person")(context()))
    first, second = (users[:3] for users in loaded)
    same(first, second)
    assert not np.array_equal(loaded[0].features[3], loaded[1].features[3])


def test_a_file_is_read_again_when_it_has_changed(table):
    loader = SCHEMA.loader(table, user_column="person")
    users = loader(context())
    assert loader(context()) is users
    table.write_text(CSV + "w,8,1,1,a\n")
    assert len(loader(context())) == 3


def test_a_simulation_takes_its_nodes_share_of_a_table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 90), "job": rng.choice(["a", "1"], 90)})
    frame["wage"] = 5 + frame.age / 50
    frame["person"] = np.arange(90)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    app = LdpClientApp(SCHEMA.loader(path, user_column="person"), seed=1)
    strategy = NonInteractiveIht(SCHEMA.num_features, sparsity=1, epsilon=4.0, min_reports=2)
    result = strategy.start(InProcessGrid(app, 3), seed=1, timeout=60, num_nodes=3)
    assert result.num_users == 90


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (CSV, {"user_column": "persn"}, r"columns \['persn'\] in .*table.csv, got \['name', "),
        (CSV.replace(",age", ",years"), {"user_column": "person"}, r"columns \['age'\]"),
        (
            CSV.replace("7,50", ",50"),
            {"user_column": "person"},
            r"groups without missing entries, got 1 of 3 \(row 1, counted",
        ),
        ("", {"user_column": "person"}, "names of columns in the first line"),
        (CSV.replace("name", "age"), {"user_column": "person"}, r"more of \['age'\]"),
        (CSV.replace("name", "person"), {"user_column": "person"}, r"more of \['person'\]"),
        (CSV + "z, 7,70,,b\n", {"user_column": "person"}, "one spelling .* got ' 7' and '7'"),
        (
            CSV + "z,ren\u00e9,70,,b\nz,rene\u0301,70,,b\n",
            {"user_column": "person"},
            r"got 'rene\\u0301' and 'ren\\xe9'",
        ),
    ],
)
def test_what_is_wrong_with_a_table_is_said(table, text, options, message):
    table.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=message):
        SCHEMA.loader(table, **options)(context())


@pytest.mark.parametrize("other", ["a ", "\ta", "a\u00a0"])
def test_the_file_of_all_users_has_one_spelling_of_each(table, tmp_path, other):
    ids = tmp_path / "ids.txt"
    ids.write_text(f"a\n{other}\n", "utf-8")
    table.write_text("person,age\na,50\n")
    loader = Schema({"age": Numeric(0, 100)}).loader(table, user_column="person", ids=ids)
    with pytest.raises(ValueError, match="one spelling of each name in ids, got"):
        loader(context())


def test_files_of_windows_are_read(table, tmp_path):
    users = SCHEMA.loader(table, user_column="person")(context())
    table.write_text(CSV.replace("\n", "\r\n"), "utf-8-sig")
    (tmp_path / "everyone.txt").write_text("007\r\n7\r\n", "utf-8-sig")
    loader = SCHEMA.loader(table, user_column="person", ids=tmp_path / "everyone.txt")
    same(loader(context()), users)


def test_what_is_wrong_with_files_is_said(table, tmp_path):
    for path, message in (
        (tmp_path / "none.csv", "none.csv cannot be read: No such file"),
        (tmp_path, "csv or .parquet file"),
    ):
        with pytest.raises(ValueError, match=message):
            SCHEMA.loader(path, user_column="person")(context())
    with pytest.raises(ValueError, match="none of the schema's, got 'age'"):
        SCHEMA.loader(table, user_column="age")
    with pytest.raises(ValueError, match="with ids"):
        SCHEMA.loader(table, ids=table)


def test_parquet_is_read_or_its_reader_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "table.parquet"
    frame = pd.DataFrame({"person": [7, 8], "age": [20, 30], "wage": [1.0, 2.0], "job": ["a", "1"]})
    if importlib.util.find_spec("pyarrow") is not None:
        frame.to_parquet(path)
        users = SCHEMA.loader(path, user_column="person")(context())
        same(users, SCHEMA.users(frame, "person"))
    path.write_bytes(b"PAR1")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "ldp_flower.data.table_file.find_spec",
        lambda name: None if name == "pyarrow" else find(name),
    )
    with pytest.raises(ValueError, match=r"pip install \"ldp-flower\[parquet\]\""):
        SCHEMA.loader(path, user_column="person")(context())


# --------------------------------------------------------- the schema in the census

OTHERS = {
    "it declares otherwise column age": Schema(
        SCHEMA.columns | {"age": Numeric(0, 99)}, "wage", SCHEMA.bounds
    ),
    "it lacks column job": Schema({"age": Numeric(0, 100)}, "wage", SCHEMA.bounds),
    "it has besides column zip": Schema(
        SCHEMA.columns | {"zip": Numeric(0, 1)}, "wage", SCHEMA.bounds
    ),
    "it declares otherwise target wage": Schema(SCHEMA.columns, "wage", Numeric(0, 11)),
    "it declares otherwise column age, column job": Schema(
        dict(reversed(SCHEMA.columns.items())), "wage", SCHEMA.bounds
    ),
}


@pytest.mark.parametrize("difference", OTHERS)
def test_another_schema_is_found_before_anybody_pays(table, difference):
    app = LdpClientApp(OTHERS[difference].loader(table, user_column="person"), seed=1)
    table.write_text(
        "name,person,age,wage,job,zip\n" + "".join(f"x,{i},1,1,a,1\n" for i in range(40))
    )
    grid = InProcessGrid(app, 2)
    with pytest.raises(
        ValueError, match=f"of 2 with another one the first is node 1, where {difference}\\. "
    ):
        PrivateRegression(SCHEMA, epsilon=4.0, min_reports=2).start(grid, timeout=60, num_nodes=2)
    assert all(not context.state for context in grid.contexts.values())


def test_a_schema_is_the_same_by_what_it_declares():
    same = Schema(
        {"age": Numeric(0.0, np.int64(100)), "job": Categories(["a", 1])},
        target="wage",
        bounds=Numeric(0, 10.0),
    )
    assert same.digests() == SCHEMA.digests()
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))).digests() == same.digests()
    assert all(0 <= number < 1 << 63 for number in same.digests().values())
    assert len({*same.digests().values()}) == 3
    explicit = Schema(SCHEMA.columns | {"age": Numeric(0, 100, centre=50)}, "wage", SCHEMA.bounds)
    assert explicit.digests() != SCHEMA.digests()  # a declared centre is not estimated
