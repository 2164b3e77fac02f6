"""No cell of a file changes another user's arrays, whatever the file's format and types are."""

import csv
import datetime
import io
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from ldp_flower import Categories, Numeric, Schema, Users, read_table

ODD = 2  # the user whose cell it is, of six
IDENTIFIER = 123456789012345678  # of 18 digits, as SNOMED's are: no float holds it
COLUMNS = ("number", "code", "target")


def loaded(path, categories, **options):
    everyone = path.with_name("everyone.txt")
    everyone.write_text("".join(f"u{i}\n" for i in range(6)))
    schema = Schema(
        {"number": Numeric(-10, 2e18), "code": Categories(categories, other="other")},
        target="target",
        bounds=Numeric(-10, 2e18),
    )
    loader = schema.loader(path, user_column="person", ids=everyone, **options)
    return loader(Context(1, 2, {}, RecordDict(), {}))


def others(users):
    """Return the bits of everybody but the one with the odd cell."""
    assert users.ids.tolist() == [f"u{i}" for i in range(6)]
    kept = users.take(np.delete(np.arange(6), ODD))
    return [getattr(kept, name).tobytes() for name in ("features", "targets", "offsets", "missing")]


# -------------------------------------------------------------------------------- CSV

TEXTS = ["7", "01", str(IDENTIFIER), "1.5", "True", "5' 7"]
CELLS = ["", "nan", "n/a", "NULL", "1e400", "9" * 5000, "x" * 200_000, "1.0", "False", "\0", "'"]
QUOTES = ['"', '"7', '7"', '""', '"7"', '7"7', '"7,', ',"', "7,8", "7,8,9", ",", '","', '"""']
NEWLINES = ["\n", "7\n8", "\nu0,1,1,1\n", '\n"u0",1,1,1\n', '"\nu0,1,1,1\n"', "\r", "\r\n", '"\n']
BYTES = ["\udcff", "7\udce9", "\udced\udca0\udc80", "\udce2", "\udcef\udcbb\udcbf"]  # no UTF-8


def lines_of(cell, place):
    rows = [[f"u{i}", *[text] * 3] for i, text in enumerate(TEXTS)]
    rows[ODD][place] = cell
    return [["person", *COLUMNS], *rows]


def quoted_file(path, cell, place, quoting):
    file = io.StringIO()
    csv.writer(file, quoting=quoting).writerows(lines_of(cell, place))
    path.write_bytes(file.getvalue().encode("utf-8", "surrogateescape"))


def unquoted_file(path, cell, place):
    text = "".join(",".join(row) + "\n" for row in lines_of(cell, place))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_no_cell_of_a_csv_file_changes_another_user(tmp_path, place, quoting):
    path, found = tmp_path / "table.csv", {}
    for cell in ["7", *CELLS, *QUOTES, *NEWLINES, *BYTES]:
        quoted_file(path, cell, place, quoting)
        found[cell[:20]] = others(loaded(path, TEXTS))
    assert [cell for cell in found if found[cell] != found["7"]] == []


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"quoted": False}])
def test_no_cell_of_a_file_without_quotes_changes_another_user(tmp_path, place, options):
    """Where it holds newlines, nothing can tell them from those between records."""
    path, found = tmp_path / "table.csv", {}
    for cell in ["7", *CELLS, *QUOTES, *BYTES]:
        unquoted_file(path, cell, place)
        found[cell[:20]] = others(loaded(path, TEXTS, **options))
    assert [cell for cell in found if found[cell] != found["7"]] == []


def test_a_text_is_itself_and_a_line_that_is_no_record_is_logged(tmp_path, caplog):
    path = tmp_path / "table.csv"
    path.write_bytes(b'person,code\nu1,01\nu2,"a\nu3,1,2\nu4,\xe9\n')
    read = read_table(path, ["code", "person"])
    assert read == {"code": ["01", "\udce9"], "person": ["u1", "u4"]}
    utf8, left_out = (record.getMessage() for record in caplog.records)
    assert "is not UTF-8, first on line 5" in utf8
    assert left_out.startswith("2 lines of ") and "the first is line 3" in left_out
    assert read_table(path, ["code"], quoted=False) == {"code": ["01", '"a', "\udce9"]}
    with pytest.raises(ValueError, match="quoted=False for a CSV file only"):
        read_table(tmp_path / "table.parquet", ["code"], quoted=False)


# ---------------------------------------------------------------------------- Parquet


def of_parquet():
    """Return types with six entries, and what a cell can be instead of one."""
    pa = pytest.importorskip("pyarrow")
    moment, day = datetime.datetime(2020, 1, 1, 12), datetime.date(2020, 1, 1)
    texts = ["7", "01", str(IDENTIFIER), "1.5", "True", "Ann"]
    floats = [7.0, 1.5, -0.0, 1e308, 5e-324, 2.0**53]
    types = {
        f"{sign}int{bits}": ([7, 0, 1, 2, 3, 100], [(1 << bits - (sign == "")) - 1, 8])
        for bits in (8, 16, 32, 64)
        for sign in ("", "u")
    }
    types["int64"] = ([IDENTIFIER + i for i in range(6)], [2**63 - 1, -(2**63), 0])
    types["uint64"] = ([2**63 + i for i in range(6)], [2**64 - 1, 0])
    types |= {
        "halffloat": ([7.0, 1.5, 0.0, 1.0, 2.0, 100.0], [math.nan, math.inf, 0.1]),
        "float": ([7.0, 1.5, 0.0, 1.0, 2.0, 100.0], [math.nan, math.inf, 0.1]),
        "double": (floats, [math.nan, math.inf, -math.inf, 0.1]),
        "bool": ([True, False] * 3, [True, False]),
        "string": (texts, ["", '"', "n/a", "a\nb", "x" * 200_000, "\0", b"\xff", b"\xed\xa0\x80"]),
        "large_string": (texts, ["", '"', "n/a", b"\xff"]),
        "binary": ([text.encode() for text in texts], [b"", b"\xff", b"8"]),
        "date32": ([day] * 6, [-(2**31), 2**31 - 1, 0]),
        "date64": ([day] * 6, [0]),
        "time64[us]": ([datetime.time(1)] * 6, [0]),
    }
    types |= {f"timestamp[{unit}]": ([moment] * 6, [-(2**62), 2**62, 0]) for unit in ("us", "ns")}
    types["timestamp[ms]"] = ([moment] * 6, [-(2**50), 2**50, 0])
    types["duration[ms]"] = ([datetime.timedelta(1)] * 6, [-(2**62), 2**62, 0])
    named = {name: (pa.type_for_alias(name), *rest) for name, rest in types.items()}
    decimals = [Decimal(number) for number in (IDENTIFIER, 7, 0, 1, 2, 3)]
    named |= {
        "decimal": (pa.decimal128(38), decimals, [Decimal(10**37), Decimal(-1)]),
        "decimal256": (pa.decimal256(60), decimals, [Decimal(10**59)]),
        "dictionary of texts": (pa.dictionary(pa.int8(), pa.string()), texts, ["", "8"]),
        "dictionary of numbers": (
            pa.dictionary(pa.int32(), pa.int64()),
            [IDENTIFIER + i for i in range(6)],
            [2**63 - 1, 0],
        ),
        "list": (pa.list_(pa.int64()), [[IDENTIFIER + i] for i in range(6)], [[], [1, None]]),
        "struct": (pa.struct({"x": pa.int64()}), [{"x": IDENTIFIER + i} for i in range(6)], [{}]),
        "null": (pa.null(), [None] * 6, []),
    }
    return named


KINDS = [
    *(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")),
    *("halffloat float double bool string large_string binary date32 date64 time64[us]".split()),
    *("timestamp[us] timestamp[ns] timestamp[ms] duration[ms] decimal decimal256".split()),
    *("dictionary of texts", "dictionary of numbers", "list", "struct", "null"),
]


def column(entries, kind):
    """Return a column in which integers stand for dates and bytes for texts, valid or not."""
    import pyarrow as pa

    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        plain = pa.binary() if pa.types.is_string(kind) else pa.large_binary()
        texts = [entry.encode() if isinstance(entry, str) else entry for entry in entries]
        return pa.array(texts, plain).view(kind)
    if pa.types.is_temporal(kind):
        plain = {32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return pa.concat_arrays(
            pa.array([entry], plain).view(kind)
            if isinstance(entry, int)
            else pa.array([entry], kind)
            for entry in entries
        )
    return pa.array(entries, kind)


def parquet_file(path, entries, kind, place, row_group_size=None):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    usual = [entries[0] if i == ODD else entry for i, entry in enumerate(entries)]
    columns = {name: column(usual, kind) for name in COLUMNS}
    columns[COLUMNS[place]] = column(entries, kind)
    table = pa.table({"person": [f"u{i}" for i in range(6)], **columns})
    parquet.write_table(table, path, row_group_size=row_group_size)


def test_all_types_are_tried():
    assert set(KINDS) == set(of_parquet())


@pytest.mark.parametrize("name", KINDS)
def test_no_cell_of_a_parquet_file_changes_another_user(tmp_path, name):
    kind, entries, cells = of_parquet()[name]
    path = tmp_path / "table.parquet"
    categories = [str(entry) for entry in dict.fromkeys(map(str, entries))] + ["else"]
    for place in range(3):
        found = []
        for cell in [entries[0], None, *cells]:
            for size in (None, 1):
                parquet_file(path, [*entries[:ODD], cell, *entries[ODD + 1 :]], kind, place, size)
                found.append(others(loaded(path, categories)))
        assert all(one == found[0] for one in found)


def test_codes_of_18_digits_keep_their_category_beside_a_missing_entry(tmp_path):
    pa = pytest.importorskip("pyarrow")
    codes = [IDENTIFIER + i for i in range(6)]
    parquet_file(tmp_path / "table.parquet", [*codes[:2], None, *codes[3:]], pa.int64(), 1)
    users = loaded(tmp_path / "table.parquet", codes)
    indicators = users.features[:, 2:]  # all 0 where the code is missing
    np.testing.assert_array_equal(indicators > 0, np.eye(6, 7) * (np.arange(6) != ODD)[:, None])
    assert users.missing[:, 2].tolist() == [False, False, True, False, False, False]


# ------------------------------------------------------------------- columns in memory


def in_memory(dtype, cells):
    if dtype == "arrow":
        return pytest.importorskip("pyarrow").chunked_array([cells])
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    return list(cells) if dtype == "list" else pd.Series(cells, dtype=dtype)


IDENTIFIERS = [IDENTIFIER + i for i in range(6)]
WHOLE, ANY = [None, 0], [None, 0, "x", 10**400, math.nan]
WORDS = [None, "", "x" * 10_000, "\0", "nan"]


@pytest.mark.parametrize(
    ("dtype", "entries", "cells"),
    [
        *((dtype, IDENTIFIERS, WHOLE) for dtype in ("Int64", "UInt64", "int64[pyarrow]", "arrow")),
        *((dtype, IDENTIFIERS, ANY) for dtype in ("object", "list", "category")),
        *((f"string[{storage}]", TEXTS, WORDS) for storage in ("python", "pyarrow")),
        *((dtype, TEXTS, WORDS) for dtype in ("str", "category", "object", "list", "arrow")),
    ],
)
def test_no_cell_of_a_column_in_memory_changes_another_user(dtype, entries, cells):
    bounds = Numeric(-10, 2e18)
    schema = Schema({"number": bounds, "code": Categories(entries, other="other")}, "y", bounds)
    found = []
    for cell in [entries[0], *cells]:
        column = in_memory(dtype, [*entries[:ODD], cell, *entries[ODD + 1 :]])
        table = {"number": column, "code": column, "y": column}
        found.append(others(schema.users(table, [f"u{i}" for i in range(6)])))
    assert all(one == found[0] for one in found)


def test_an_arrow_text_without_utf8_is_missing_and_fails_nobody():
    pa = pytest.importorskip("pyarrow")
    texts = pd.Series(pd.arrays.ArrowExtensionArray(column([b"7", b"\xff", b"8"], pa.string())))
    users = Users.from_rows(pd.DataFrame({"x": texts, "y": [1, 2, 3]}))
    np.testing.assert_array_equal(users.features, [[7, 1], [math.nan, 2], [8, 3]])
    assert np.isnan(Users.from_items(texts).features[:, 0]).tolist() == [False, True, False]


MERGED = [2**53 + 1, 2**53, None, 7]  # of which pandas makes floats, the first two the same


def test_codes_that_pandas_has_merged_are_missing_and_told(caplog):
    kind = Categories([2**53, 2**53 + 1, 7], other="other")
    schema = Schema({"code": kind})
    users = schema.users({"code": pd.Series(MERGED)})
    assert users.missing[:, 1].tolist() == [True, True, True, False]
    (told,) = (record.getMessage() for record in caplog.records)
    assert told.startswith("2 of 4 entries in column 'code' are none of its categories")
    assert "Whole floats from 2**53 on" in told and "read the column as text" in told
    caplog.clear()
    for exact in (MERGED, pd.Series(MERGED, dtype="Int64"), pd.Series(MERGED, dtype=object)):
        assert kind.coded(exact)[[0, 1, 3]].tolist() == [1, 0, 2]
        assert schema.users({"code": exact}).missing[:, 1].tolist() == [False, False, True, False]
    assert not caplog.records
    with pytest.raises(ValueError, match=r"integers or texts for categories from 2\*\*53 on"):
        Categories([2.0**53, 7])


@pytest.mark.parametrize(("dtype", "bits"), [("f2", 11), (">f4", 24), ("f4", 24), ("f8", 53)])
def test_integers_that_floats_of_any_width_have_merged_are_nobody(dtype, bits, caplog):
    end = 2**bits
    last = np.array([end - 1, np.nan], dtype)
    merged = np.array([end, end + 1, np.nan, end - 1], dtype)
    assert merged[0] == merged[1]
    kind = Categories([end - 1, end, end + 1], other="other")
    for column in (merged, pd.Series(merged), list(merged)):
        np.testing.assert_array_equal(kind.coded(column), [np.nan, np.nan, np.nan, 0])
        items = Users.from_items(column).features[:, 0]
        np.testing.assert_array_equal(items, [np.nan, np.nan, np.nan, end - 1])
    Schema({"code": kind}).users({"code": merged})
    assert f"Whole floats from 2**{bits} on" in caplog.text
    with pytest.raises(ValueError, match=rf"below 2\*\*{bits} in groups, .* not told apart"):
        Users.from_rows(np.ones((4, 1)), None, merged, missing_ids="drop")
    users = Users.from_rows(np.ones((2, 1)), None, last, missing_ids="drop")
    assert users.ids.tolist() == [str(end - 1)]
    with pytest.raises(ValueError, match="integers or texts for categories"):
        Categories([merged[0], 7])


def test_codes_of_an_arrow_table_stay_apart_in_an_estimator():
    pa = pytest.importorskip("pyarrow")
    from ldp_flower.estimators.base import in_memory, named_columns

    table = pa.table({"code": MERGED, "x": [1.0, None, 2.0, 3.0]})
    for frame in (named_columns(table, ["code", "x"]), in_memory(table)):
        assert frame["code"].tolist() == MERGED
        assert frame["x"].isna().tolist() == [False, True, False, False]


def test_a_column_in_which_nothing_can_be_used_is_told_with_its_types(caplog):
    days = [datetime.date(2020, 1, i) for i in range(1, 29)]
    Schema({"day": Numeric(0, 1)}).users({"day": days})
    (told,) = (record.getMessage() for record in caplog.records)
    assert told == (
        "28 of 28 entries in column 'day' are not numbers and count as missing: none can be used. "
        "They are of type date."
    )


def test_duckdbs_own_values_without_a_python_one_are_missing():
    pytest.importorskip("pyarrow")  # by which DuckDB gives its columns
    duckdb = pytest.importorskip("duckdb")
    odd = ["'infinity'::timestamp", "'-infinity'::date", "'290000-01-01'::timestamptz"]
    for value in odd:
        kind = value.split("::")[1]
        rows = ", ".join([f"('2020-01-01'::{kind}, 1)", f"({value}, 2)", f"(NULL::{kind}, 3)"])
        relation = duckdb.sql(f"SELECT * FROM (VALUES {rows}) AS t(day, x) ORDER BY x")
        users = Schema({"x": Numeric(0, 4)}, "day", Categories(["a", "b"])).users(relation)
        np.testing.assert_array_equal(users.features[:, 1], [-1, 0, 1])
        assert np.isnan(users.targets).all()
