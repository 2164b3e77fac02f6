"""No entry's conversion depends on another one: 48 odd values, each beside each."""

import datetime
import math
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from ldp_flower import Categories, Numeric, Users, hash_items
from ldp_flower.data.names import as_names
from ldp_flower.data.numbers import as_numbers, as_table


class Hostile:
    """A cell that fails whatever it is asked."""

    def __float__(self):
        raise KeyError("secret")

    def __str__(self):
        raise KeyError("secret")


# Each value with its number and its item; NaN where it has none.
NONE = math.nan
ODD = [
    (7, 7.0, 7.0),
    (0, 0.0, 0.0),
    (-1, -1.0, NONE),
    (2**53 - 1, 2.0**53 - 1, 2.0**53 - 1),
    (2**53 + 1, 2.0**53, NONE),
    (2**63, 2.0**63, NONE),
    (-(2**63) - 1, -(2.0**63), NONE),
    (2**64, 2.0**64, NONE),
    (10**400, NONE, NONE),
    (7.0, 7.0, 7.0),
    (1.5, 1.5, NONE),
    (-0.0, -0.0, 0.0),
    (5e-324, 5e-324, NONE),
    (1e308, 1e308, NONE),
    (math.nan, NONE, NONE),
    (math.inf, math.inf, NONE),
    (True, 1.0, NONE),
    (False, 0.0, NONE),
    ("7", 7.0, "7"),
    (" 1e3\n", 1000.0, " 1e3\n"),
    ("n/a", NONE, "n/a"),
    ("", NONE, ""),
    ("nan", NONE, "nan"),
    ("a\0", NONE, "a\0"),
    ("\ud800", NONE, "\ud800"),
    ("x" * 500_000, NONE, "x" * 500_000),
    ("1" * 500_000, NONE, "1" * 500_000),
    (b"7", 7.0, NONE),
    (None, NONE, NONE),
    (Decimal("7"), 7.0, NONE),
    (Fraction(1, 2), 0.5, NONE),
    (3 + 0j, NONE, NONE),
    (np.int8(7), 7.0, 7.0),
    (np.uint64(2**64 - 1), 2.0**64, NONE),
    (np.float16(1.5), 1.5, NONE),
    (np.float32(7), 7.0, 7.0),
    (np.bool_(True), 1.0, NONE),
    (np.str_("7"), 7.0, "7"),
    (np.complex64(3), NONE, NONE),
    (np.datetime64("2020-01-01", "ns"), NONE, NONE),
    (np.timedelta64(5, "ns"), NONE, NONE),
    (datetime.datetime(2020, 1, 1), NONE, NONE),
    (datetime.timedelta(5), NONE, NONE),
    (pd.Timestamp("2020-01-01"), NONE, NONE),
    (pd.NaT, NONE, NONE),
    (pd.NA, NONE, NONE),
    ([7], NONE, NONE),
    (Hostile(), NONE, NONE),
]
VALUES = [value for value, _, _ in ODD]
LABELLED = Categories([7, 0, "n/a", True, "2020-01-01", ""])
NUMBER = Numeric(-10, 10)


def listed(*entries):
    return list(entries)


def in_objects(*entries):
    column = np.empty(len(entries), object)
    for i, entry in enumerate(entries):
        column[i] = entry
    return column


def in_series(*entries):
    return pd.Series(in_objects(*entries), dtype=object)


def inferred(*entries):
    """Return a column whose type pandas chose."""
    if any(isinstance(entry, complex | np.complexfloating) for entry in entries):
        return in_series(*entries)  # NumPy makes complex numbers of all, as it is told to
    try:
        return pd.Series(list(entries))
    except (OverflowError, KeyError, UnicodeEncodeError):  # of which pandas makes no column
        return in_series(*entries)


def inferred_in_arrow(*entries):
    """Return the same where pandas keeps texts in Arrow, as it does with pyarrow installed."""
    pytest.importorskip("pyarrow")
    with pd.option_context("mode.string_storage", "pyarrow"):
        return inferred(*entries)


def inferred_in_python(*entries):
    """Return the same as it is without pyarrow."""
    with pd.option_context("mode.string_storage", "python"):
        return inferred(*entries)


INFERRED = (inferred_in_arrow, inferred_in_python)


def features_of(column):
    return Users.from_rows([[1.0, entry] for entry in column], num_features=2).features


def rows_of(column):
    """Take each entry for a row, which hardly any of them is."""
    return as_table(list(column), 1)


CONVERSIONS = {
    "numbers": (as_numbers, (listed, in_objects, in_series, *INFERRED)),
    "items": (lambda c: Users.from_items(c).features, (listed, in_objects, in_series, *INFERRED)),
    "features": (features_of, (listed,)),
    "frame": (lambda c: Users.from_rows(pd.DataFrame({"x": c})).features, (in_series, *INFERRED)),
    "rows": (rows_of, (listed,)),
    "targets": (lambda c: Users.from_rows(np.ones((len(c), 1)), c).targets, (listed, in_objects)),
    "numeric column": (NUMBER.standardise, (listed, in_objects, in_series, *INFERRED)),
    "categories": (LABELLED.standardise, (listed, in_objects, in_series)),
}


def test_there_are_48_odd_values():
    assert len(ODD) == 48


@pytest.mark.parametrize(
    ("convert", "column"),
    [
        pytest.param(
            convert,
            column,
            id=f"{name}-{column.__name__}",
            marks=pytest.mark.slow  # as of a column by itself
            if column is inferred_in_python and name in ("frame", "items")
            else (),
        )
        for name, (convert, columns) in CONVERSIONS.items()
        for column in columns
    ],
)
def test_no_conversion_depends_on_another_row(convert, column):
    alone = [np.asarray(convert(column(value)))[0] for value in VALUES]
    moved = [
        (i, j)
        for i, value in enumerate(VALUES)
        for j, other in enumerate(VALUES)
        for converted in [np.asarray(convert(column(value, other)))]
        if not _same(converted[0], alone[i]) or not _same(converted[1], alone[j])
    ]
    assert moved == []  # of 2,304


def _same(one, other):
    return np.asarray(one, np.float64).tobytes() == np.asarray(other, np.float64).tobytes()


@pytest.mark.parametrize(("value", "number", "item"), ODD, ids=lambda value: type(value).__name__)
def test_every_odd_value_is_what_is_promised(value, number, item):
    np.testing.assert_array_equal(as_numbers([value]), [number])
    wanted = hash_items([item])[0] if isinstance(item, str) else item
    np.testing.assert_array_equal(Users.from_items([value]).features, [[wanted]])


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g", "Int64", "Float32", "boolean"]
)
def test_arrays_are_converted_at_once_as_entry_by_entry(dtype):
    entries = [0, 1, 1] if dtype in ("?", "boolean") else [0, 1, 100]
    numbers = pd.Series(entries, dtype=dtype) if dtype[0] in "IFb" else np.array(entries, dtype)
    if dtype in ("i8", "u8"):
        numbers = np.array([0, 2**53 + 1, 2**63 - 1], dtype)
    for convert in (as_numbers, lambda column: Users.from_items(column).features):
        if dtype in ("?", "boolean") and convert is not as_numbers:
            continue
        np.testing.assert_array_equal(convert(numbers), convert(list(numbers)))
    assert as_numbers(numbers).dtype == np.float64


def test_arrays_of_numbers_are_not_looked_at_one_by_one(monkeypatch):
    for module in ("numbers", "items", "names"):
        monkeypatch.setattr(f"ldp_flower.data.{module}.entries", None)
    table = np.ones((5, 2))
    assert as_table(table) is table or np.shares_memory(as_table(table), table)
    for dtype in ("f4", "i4", "u8", "?"):
        as_table(np.ones((5, 2), dtype))
        as_numbers(pd.Series(np.ones(5, dtype)))
    Users.from_items(pd.Series([1, 2]))
    Users.from_rows(table, groups=np.arange(5))


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "timedelta64[ns]", "datetime64[D]", "c16"])
def test_arrays_of_dates_durations_and_complex_numbers_hold_no_numbers(dtype):
    column = np.array([1, 2, 3]).astype(dtype)
    assert np.isnan(as_numbers(column)).all()
    assert not NUMBER.standardise(column).any()


def test_rows_of_another_length_are_no_rows():
    odd = [[1, 2], [1], [3, "4"], [1, 2, 3], None, "ab", 7.0, {1: 2, 3: 4}, (5, None), np.ones(2)]
    table = as_table(odd)
    expected = [[1, 2], NONE, [3, 4], NONE, NONE, NONE, NONE, NONE, [5, NONE], [1, 1]]
    np.testing.assert_array_equal(
        table, [row if isinstance(row, list) else [row] * 2 for row in expected]
    )
    np.testing.assert_array_equal(as_table(in_objects(*odd)), table)
    # Declared, the number of features is nobody's to change.
    declared = Users.from_rows([[1.0], [2.0], [3.0, 4.0]], num_features=2)
    np.testing.assert_array_equal(declared.features, [[NONE] * 2, [NONE] * 2, [3, 4]])
    assert Users.from_rows(["n/a"], num_features=3).num_features == 3
    assert Users.from_rows([], num_features=3).num_features == 3
    with pytest.raises(ValueError, match="Expected rows of 3 columns, got shape"):
        Users.from_rows(np.ones((4, 2)), num_features=3)
    with pytest.raises(ValueError, match="Expected rows of numbers, shape"):
        Users.from_rows([1.0, 2.0])


def test_one_long_text_takes_no_memory_for_the_others():
    items = ["JFK"] * 2000 + ["x" * 500_000]
    tracemalloc.start()
    try:
        users = Users.from_items(items, groups=np.arange(len(items)))
        Users.from_rows([[item] for item in items])
        NUMBER.standardise(items)
        LABELLED.standardise(items)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6  # 4 GB as texts of one width
    assert users.features[0] == hash_items(["JFK"]) and users.features[-1] != users.features[0]


# ------------------------------------------------------------------ names, which are accounts


@pytest.mark.parametrize("column", [listed, in_objects, in_series])
def test_names_are_all_texts_or_all_integers(column):
    """Each pair is refused, or is the two names that its entries are alone."""

    def named(*entries):
        names, which = as_names("groups", column(*entries))
        return [names[i] for i in which]

    alone = {}
    for i, value in enumerate(VALUES):
        try:
            alone[i] = named(value)
        except ValueError as error:
            assert "Expected groups" in str(error)
    kinds = {i: isinstance(VALUES[i], str) for i in alone}
    assert {VALUES[i] for i in alone} >= {7, "7", 2**63, "n/a"}
    refused = 0
    for i, value in enumerate(VALUES):
        for j, other in enumerate(VALUES):
            if i in alone and j in alone and kinds[i] == kinds[j]:
                assert named(value, other) == alone[i] + alone[j]
                continue
            with pytest.raises(ValueError, match="Expected groups"):
                named(value, other)
            refused += 1
    assert 1000 < refused < 2304


@pytest.mark.parametrize(
    "groups", [[7, "b"], [7.0, "b"], [True, "b"], [7, 7.0], [7, True], ["7", b"7"], [7, "7"]]
)
def test_one_person_gets_one_account(groups):
    for names in (groups, in_objects(*groups), in_series(*groups), tuple(groups)):
        with pytest.raises(ValueError, match="to be strings or integers, all of one type, got"):
            Users.from_rows(np.zeros((2, 1)), groups=names)
        with pytest.raises(ValueError, match="Expected ids to be strings or integers, all of one"):
            Users.from_rows(np.zeros((1, 1)), groups=["b"], ids=names)


def test_integers_of_any_type_are_one_account():
    for groups in ([7, np.int8(7), np.uint64(7)], np.full(3, 7, np.uint8), in_objects(7, 7, 7)):
        assert Users.from_rows(np.zeros((3, 1)), groups=groups).ids.tolist() == ["7"]
    large = Users.from_rows(np.zeros((3, 1)), groups=[2**64, -1, 2**63])
    assert large.ids.tolist() == ["-1", str(2**63), str(2**64)]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a", "a\0"], "Expected groups without NUL and surrogates"),
        (["a", "\ud800"], "Expected groups without NUL and surrogates"),
        (["a", "x" * 257], "Expected groups of at most 256 characters, got 257"),
        (["a", "a "], "Expected one spelling of each name in groups, got 'a' and 'a '"),
        (["\u00e9", "e\u0301"], r"Expected one spelling .* got 'e\\u0301' and '\\xe9'"),
        ([1, 10**400], "Expected groups of at most 256 characters, got an integer of 1329 bits"),
        ("ab", "Expected a column, one entry a row, got str"),
        (np.zeros((2, 1), int), "Expected one entry a row in groups"),
    ],
)
def test_names_that_no_ledger_keeps_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        Users.from_rows(np.zeros((2, 1)), groups=groups)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("a\0b", "Expected ids without NUL and surrogates, got 'a.x00b'"),
        ("a\ud800", "Expected ids without NUL and surrogates"),
        ("x" * 257, "Expected ids of at most 256 characters, got 257"),
        (" good", "Expected one spelling of each name in ids, got 'good' and ' good'"),
    ],
)
def test_ids_that_no_ledger_keeps_are_refused_at_construction(wrong, message):
    with pytest.raises(ValueError, match=message):
        Users(np.zeros((2, 1)), np.zeros(2), np.arange(3), np.array(["good", wrong]))
    Users(np.zeros((2, 1)), np.zeros(2), np.arange(3), np.array(["good", "x" * 256]))
