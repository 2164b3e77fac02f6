"""One bad entry, of every type and in every library's column: all answer, as if it were missing."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from deployed_node import SALT, ask
from flwr.app import Message

from ldp_flower import Categories, InProcessGrid, Numeric, Schema, Users
from ldp_flower.clients import LdpClientApp
from ldp_flower.data import entries as entries_of
from ldp_flower.data.tables import collected
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.questions import Mean
from ldp_flower.randomizers import SubsetHypercube

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

USERS, BAD = 6, 2
NAMES = [f"patient-{i}" for i in range(USERS)]
OTHERS = np.arange(USERS) != BAD
NO_UTF8, FAR = b"a\xff", 2**62
MOMENT = datetime.datetime(2020, 1, 1, 12)


class Fatal(BaseException):
    """As what libraries written in Rust raise."""


class Odd(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.int64(), "ldp_flower.odd")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()

    def __arrow_ext_scalar_class__(self):
        return OddScalar


class OddScalar(pa.ExtensionScalar):
    def as_py(self, **options):
        number = None if self.value is None else self.value.as_py()
        if number == FAR:
            raise Fatal
        return number


def stored(plain, kind, good, bad):
    """Return a function to a column of a type, from the bad entry as it is stored, or None."""
    entries = [good[i % len(good)] for i in range(USERS)]

    def column(use_bad):
        held = [*entries[:BAD], bad if use_bad else None, *entries[BAD + 1 :]]
        return pa.array(held, plain).view(kind)

    return column


def nested(make, inner):
    return lambda use_bad: make(inner(use_bad))


def coded(use_bad, word=b"b"):
    words = pa.array([b"a", word], pa.binary()).view(pa.string())
    codes = pa.array([0, 0, (9 if word == b"b" else 1) if use_bad else None, 0, 0, 0], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, words, safe=False)


def listed(inner):
    return pa.ListArray.from_arrays(pa.array(range(USERS + 1), pa.int32()), inner)


def structured(inner):
    return pa.StructArray.from_arrays([inner], ["x"])


TEXT = stored(pa.binary(), pa.string(), [b"a", b"7", b"x"], NO_UTF8)
TYPES = {
    **{
        f"{sign}int{bits}": stored(
            kind := pa.type_for_alias(f"{sign}int{bits}"),
            kind,
            [7, 0, 1],
            (1 << bits - (sign == "")) - 1,
        )
        for bits in (8, 16, 32, 64)
        for sign in ("", "u")
    },
    **{
        f"{name} {bad}": stored(kind := pa.type_for_alias(name), kind, [7.0, 1.5], bad)
        for name in ("halffloat", "float", "double")
        for bad in (math.nan, -math.inf)
    },
    **{
        f"decimal{kind.bit_width}": stored(kind, kind, [Decimal(7), Decimal(2)], Decimal(10**37))
        for kind in (pa.decimal128(38), pa.decimal256(60))
    },
    "bool": stored(pa.bool_(), pa.bool_(), [True, False], True),
    "string": TEXT,
    "large_string": stored(pa.large_binary(), pa.large_string(), [b"a", b"7"], NO_UTF8),
    "binary": stored(pa.binary(), pa.binary(), [b"a", b"7"], NO_UTF8),
    "date32": stored(pa.int32(), pa.date32(), [0, 18_000], 2**31 - 1),
    "date64": stored(pa.int64(), pa.date64(), [0, 86_400_000], 86_400_000 * 10**9),
    "time32[ms]": stored(pa.int32(), pa.time32("ms"), [0, 7], 2**31 - 1),
    "time64[us]": stored(pa.int64(), pa.time64("us"), [0, 7], FAR),
    **{
        f"timestamp[{unit}, {zone}]": stored(pa.int64(), pa.timestamp(unit, zone), [0, 7], far)
        for unit, far in (("s", 2**40), ("ms", 2**50), ("us", FAR), ("ns", FAR))
        for zone in (None, "Europe/Berlin")
    },
    **{
        f"duration[{unit}]": stored(pa.int64(), pa.duration(unit), [0, 7000], far)
        for unit, far in (("s", 2**50), ("ms", FAR), ("us", FAR), ("ns", FAR))
    },
    "dictionary of a word without UTF-8": lambda bad: coded(bad, NO_UTF8),
    "dictionary without a word": coded,
    "list": nested(listed, TEXT),
    "struct": nested(structured, TEXT),
    "null": lambda bad: pa.nulls(USERS),
    "extension": nested(
        lambda inner: pa.ExtensionArray.from_storage(Odd(), inner),
        stored(pa.int64(), pa.int64(), [1, 2], FAR),
    ),
}


def of_duckdb(table):
    return duckdb.connect().from_arrow(table)


LIBRARIES = {
    "pyarrow": lambda table: table,
    "chunks": lambda table: pa.concat_tables(table[i : i + 1] for i in range(len(table))),
    "pandas": lambda table: pd.DataFrame(table.to_pandas()),
    "pandas on Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "lazy polars": lambda table: pl.from_arrow(table).lazy(),
    "duckdb": of_duckdb,
}
CODED = ("dictionary of a word without UTF-8", "dictionary without a word")
BOUNDS, KINDS = Numeric(-10, 2e18), ("number", "code")
POLARS = ("polars", "lazy polars")
# What a library has no column of, or makes none of with such an entry: no column to be read.
WITHOUT = {
    *((library, "decimal256") for library in (*POLARS, "duckdb")),
    *((library, "dictionary without a word") for library in POLARS),
    *(("duckdb", f"halffloat {bad}") for bad in ("nan", "-inf")),
    *(("duckdb", f"duration[{unit}]") for unit in ("s", "ms")),
    *(("pandas", name) for name in ("list", "struct", "date32", "date64", *CODED)),
    *(("pandas", name) for name in ("time32[ms]", "time64[us]")),
}


def table_of(column):
    return pa.table({"number": column, "code": column, "y": column})


def categories_of(name):
    entries = [scalar.as_py() for scalar in TYPES[name](False)]
    known = dict.fromkeys(str(entry) for entry in entries if entry is not None)
    return Categories([*known, "one", "more"], other="other")


def loaded(library, name, use_bad):
    schema = Schema({"number": BOUNDS, "code": categories_of(name)}, "y", BOUNDS)
    return schema.users(LIBRARIES[library](table_of(TYPES[name](use_bad))), NAMES)


def bits(users):
    kept = users.take(np.flatnonzero(OTHERS))
    return [getattr(kept, each).tobytes() for each in ("features", "targets", "missing")]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", TYPES)
def test_a_bad_entry_is_one_missing_entry(library, name):
    if (library, name) in WITHOUT:
        with pytest.raises(BaseException):  # noqa: B017 -- the library's own, of any type
            collected(LIBRARIES[library](table_of(TYPES[name](True))))
        return
    users = loaded(library, name, True)
    assert bits(users) == bits(loaded(library, name, False))
    if name in ("string", "dictionary without a word"):
        assert np.isnan(users.targets[BAD]) and users.missing[BAD, 1:].all()


@pytest.mark.parametrize("library", LIBRARIES)
def test_everybody_answers_beside_bad_entries_of_all_types(library, tmp_path):
    """Through the handlers, on an operator's node with its ledger; others report the same bits."""
    names = [name for name in TYPES if (library, name) not in WITHOUT]
    assert len(names) > 25
    kinds = {f"number {name}": BOUNDS for name in names}
    schema = Schema(kinds | {f"code {name}": categories_of(name) for name in names})
    dim = schema.num_features
    query = Query(Mean(np.zeros(dim)), SubsetHypercube(2.0, dim), SALT, 0, HASH_END, 1)

    def loader(use_bad):
        table = {f"{kind} {name}": TYPES[name](use_bad) for name in names for kind in KINDS}
        return lambda context: schema.users(LIBRARIES[library](pa.table(table)), NAMES)

    SqliteLedger.create(tmp_path / "ledger.db")
    config = {"max-epsilon": 2.0, "ledger-path": str(tmp_path / "ledger.db")}
    reply = ask(LdpClientApp(loader(True)), query, config)
    slots = Report.from_record_dict(reply.content).arrays["slots"]
    assert slots.tolist() == list(range(USERS))
    found = []
    for use_bad in (True, False):
        grid = InProcessGrid(LdpClientApp(loader(use_bad), seed=3), 1)
        (reply,) = grid.send_and_receive([Message(query.to_record_dict(), 1, "query.report")])
        found.append(Report.from_record_dict(reply.content).arrays["reports"][OTHERS])
    np.testing.assert_array_equal(*found)


# --------------------------------------------------------------- objects, whatever they do


def failing(error):
    def method(self, *_):
        raise error

    names = "float int index str hash eq ne bool len iter abs format array".split()
    return type("Failing", (), {f"__{name}__": method for name in names})


class Text(str):
    """A text that is like none, not even itself, and has no hash."""

    __eq__ = __ne__ = failing(Fatal).__eq__
    __hash__ = failing(Fatal).__hash__

    def __str__(self):
        return self


class Number(float):
    __float__ = __abs__ = __eq__ = __ne__ = __lt__ = is_integer = failing(SystemExit).__float__
    __hash__ = failing(Fatal).__hash__


class Unhashed(type):
    """Whose classes are like no class, and have no hash."""

    __eq__ = __ne__ = failing(Fatal).__eq__
    __hash__ = failing(Fatal).__hash__


class OfSuch(metaclass=Unhashed):
    pass


class Pretending:
    @property
    def __class__(self):
        raise Fatal


OBJECTS = {
    **{error.__name__: failing(error)() for error in (KeyError, SystemExit, Fatal, MemoryError)},
    "Text": Text("a"),
    "Number": Number(7),
    "Pretending": Pretending(),
    "OfSuch": OfSuch(),
}


def in_objects(column):
    array = np.empty(len(column), object)
    for i, entry in enumerate(column):
        array[i] = entry
    return array


HOLDERS = {
    "list": list,
    "tuple": tuple,
    "array": in_objects,
    "series": lambda column: pd.Series(in_objects(column), dtype=object),
    "polars": lambda column: pl.Series(column, dtype=pl.Object),
}
KIND = Numeric(-10, 10)
OBJECT_SCHEMA = Schema({"number": KIND, "code": Categories(["7", "1", "z"], other="z")}, "y", KIND)
WAYS = {
    "schema": lambda column: OBJECT_SCHEMA.users(dict.fromkeys(("number", "code", "y"), column)),
    "items": Users.from_items,
    "targets": lambda column: Users.from_rows(np.ones((USERS, 1)), column),
    "rows": lambda column: Users.from_rows([[1.0, each] for each in column], num_features=2),
    "no rows": lambda column: Users.from_rows(list(column), num_features=1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_that_fails_in_any_way_costs_itself_alone(name, holder, way):
    def held(entry):
        return HOLDERS[holder]([entry if i == BAD else 7 + i for i in range(USERS)])

    users, without = WAYS[way](held(OBJECTS[name])), WAYS[way](held(None))
    for each in ("features", "targets", "missing"):
        found, expected = (getattr(some, each) for some in (users, without))
        assert found is expected is None or found[OTHERS].tobytes() == expected[OTHERS].tobytes()


# ------------------------------------------------------------------- tables without a schema


@pytest.mark.parametrize("library", ["pyarrow", "chunks", "pandas on Arrow", "polars"])
@pytest.mark.parametrize("name", ["string", "date32", "timestamp[us, None]"])
def test_a_table_of_any_library_is_taken_column_by_column(library, name):
    """Its names are those of its columns; pyarrow's ``columns`` are the entries themselves."""
    columns = {"odd": TYPES[name](True), "code": pa.array([2**53 + 1, None, 3, 4, 5, 6])}
    users = Users.from_rows(LIBRARIES[library](pa.table(columns)))
    assert users.columns == ["odd", "code"]
    np.testing.assert_array_equal(users.features[:, 1], [2.0**53, np.nan, 3, 4, 5, 6])


def test_labels_of_an_index_are_no_methods_of_a_column():
    """Users may choose what they are called."""
    labels = ["to_pylist", "iterchunks", "codes", "categories", "dtype", "null_count"]
    column = pd.Series([7, None, 1, 7, 1, 7], index=labels, dtype=object)
    users = OBJECT_SCHEMA.users({"number": column, "code": column, "y": column})
    np.testing.assert_array_equal(users.targets * 5, [7, np.nan, 1, 7, 1, 7])


def test_what_a_mask_hides_is_missing():
    hidden = [False, True]
    for entries in ([1.5, 7.5], [1, 7], ["1", "7"]):
        users = Users.from_rows(np.ma.MaskedArray([[each] for each in entries], [[False], [True]]))
        np.testing.assert_array_equal(np.isnan(users.features[:, 0]), hidden)
        masked = np.ma.MaskedArray(entries, hidden)
        coded = Categories([str(entries[0]), str(entries[1])]).coded(masked)
        np.testing.assert_array_equal(coded, [0.0, np.nan])


SCHEMA_OF_BOTH = Schema({"number": Numeric(-10, 10), "code": Categories(["a", "b"], other="z")})
MASKED = {
    "text": (["ann", "?", "cy"], "cy"),
    "bytes": ([b"a", b"?", b"c"], "b'c'"),
    "integer": ([1, 999999, 3], "3"),
    "boolean": ([True, True, False], "False"),
    "float": ([1.5, 1e20, 3.0], "3"),
    "complex": ([1j, 2j, 3j], "3j"),
    "object": (np.array(["ann", 7, "cy"], object), "cy"),
    "moment": (np.arange(3).astype("M8[s]"), "1970-01-01T00:00:02"),
    "duration": (np.arange(3).astype("m8[s]"), "2 seconds"),
    "record": (np.array([(1, 2), (3, 4), (5, 6)], "i4,i4"), "(5, 6)"),
}


@pytest.mark.parametrize("name", MASKED)
def test_a_hidden_entry_of_every_kind_is_as_none(name):
    """What lies beneath a mask, and what NumPy fills in for it, is nobody's entry."""
    plain, shown = MASKED[name]
    masked = np.ma.MaskedArray(plain, [False, True, False])
    before = masked.data.copy()
    categories = Categories([shown, "?", "N/A", "None", "999999"], other="other")
    column = [masked[0], None, masked[2]]
    np.testing.assert_array_equal(categories.coded(masked)[1:], [np.nan, 0])
    np.testing.assert_array_equal(categories.coded(masked), categories.coded(column))
    found = SCHEMA_OF_BOTH.users({"number": masked, "code": masked})
    expected = SCHEMA_OF_BOTH.users({"number": column, "code": column})
    np.testing.assert_array_equal(found.missing, expected.missing)
    np.testing.assert_array_equal(found.features, expected.features)
    items = (Users.from_items(each).features for each in (masked, column))
    np.testing.assert_array_equal(*items)
    assert (masked.data == before).all()


def test_everybody_answers_beside_a_hidden_moment(tmp_path):
    moments = np.ma.MaskedArray(np.arange(USERS).astype("M8[s]"), ~OTHERS)
    dim = SCHEMA_OF_BOTH.num_features
    query = Query(Mean(np.zeros(dim)), SubsetHypercube(2.0, dim), SALT, 0, HASH_END, 1)
    SqliteLedger.create(tmp_path / "ledger.db")
    app = LdpClientApp(
        lambda context: SCHEMA_OF_BOTH.users({"number": moments, "code": moments}, NAMES)
    )
    config = {"max-epsilon": 2.0, "ledger-path": str(tmp_path / "ledger.db")}
    slots = Report.from_record_dict(ask(app, query, config).content).arrays["slots"]
    assert slots.tolist() == list(range(USERS))


def test_hidden_names_are_missing_names():
    for names in (["ann", "bob", "cy", "dan"], [1, 2, 3, 4]):
        groups = np.ma.MaskedArray(names, [False, True, False, True])
        for column in (groups, list(groups)):
            with pytest.raises(ValueError, match=r"got 2 of 4 \(rows 1, 3"):
                Users.from_rows(np.ones((4, 1)), None, column)
            users = Users.from_rows(np.ones((4, 1)), None, column, missing_ids="drop")
            assert users.ids.tolist() == [str(names[0]), str(names[2])]


def test_a_mask_in_a_list_is_missing():
    for hidden in (np.ma.masked, np.ma.array(7, mask=True)):
        assert entries_of.is_missing(hidden)
        coded = Categories(["7", "x"], other="x").coded([7, hidden, 8])
        np.testing.assert_array_equal(coded, [0, np.nan, 1])
    assert not entries_of.is_missing(np.ma.array(7, mask=False))


@pytest.mark.parametrize("kind", ["Int128", "UInt128"])
def test_integers_that_numpy_has_no_type_for_are_numbers(kind):
    if not hasattr(pl, kind):
        pytest.skip("This polars has no such type.")
    column = pl.Series([None, 2**100, 2], dtype=getattr(pl, kind))
    users = SCHEMA_OF_BOTH.users({"number": column, "code": column})
    assert users.missing[:, 1].tolist() == [True, False, False]
    assert users.features[:, 1].tolist() == [0, 2, 0.4]


def test_tensors_that_numpy_does_not_take_are_read():
    torch = pytest.importorskip("torch")
    for tensor in (torch.tensor([1.0, 2]).bfloat16(), torch.tensor([1.0, 2], requires_grad=True)):
        users = SCHEMA_OF_BOTH.users({"number": tensor, "code": tensor})
        np.testing.assert_allclose(users.features[:, 1], [0.2, 0.4])


@pytest.mark.parametrize("column", [{1, 2}, frozenset((1, 2)), {1: "a", 2: "b"}])
def test_what_has_no_order_of_rows_is_no_column(column):
    for take in (entries_of.entries, Users.from_items, Categories(["1", "2"]).coded):
        message = f"Expected a column, one entry a row, got {type(column).__name__}"
        with pytest.raises(ValueError, match=message):
            take(column)


@pytest.mark.parametrize("library", ["pyarrow", "pandas on Arrow"])
def test_each_chunk_decodes_the_words_it_uses(library, monkeypatch):
    words = pa.array([f"word {i}" for i in range(500)])
    chunks = [pa.DictionaryArray.from_arrays(pa.array([i, None]), words) for i in range(100)]
    table = LIBRARIES[library](pa.table({"x": pa.chunked_array(chunks)}))
    decoded, collect = [], entries_of._collect

    def counted(column, found):
        before = len(found)
        collect(column, found)
        decoded.append(len(found) - before)

    monkeypatch.setattr(entries_of, "_collect", counted)
    found = entries_of.entries(table["x"])
    assert found == [each for i in range(100) for each in (f"word {i}", None)]
    assert sum(decoded) <= 5 * len(found)


def test_how_many_entries_cannot_be_read_is_logged_with_the_column(caplog):
    loaded("polars", "string", True)
    told = [record.message for record in caplog.records]
    for name in ("number", "code", "y"):
        assert any(f"1 of 6 entries of column '{name}' cannot be read" in each for each in told)
    assert not any(NAMES[BAD] in each for each in told)


@pytest.mark.parametrize("library", ["pyarrow", "chunks", "pandas on Arrow", "polars"])
def test_many_bad_entries_cost_no_more_each(library, monkeypatch):
    """A column is cut into halves until they can be read: less than twice as many as entries."""
    parts, collect = [], entries_of._collect

    def counted(column, found):
        parts.append(column)
        collect(column, found)

    monkeypatch.setattr(entries_of, "_collect", counted)
    for size in (64, 1024):
        parts.clear()
        column = pa.array([NO_UTF8] * size, pa.binary()).view(pa.string())
        table = LIBRARIES[library](pa.table({"x": column}))
        assert entries_of.entries(table["x"]) == [None] * size
        assert len(parts) <= 2 * size + 8
