import json
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_flower import Categories, Numeric, Schema

SCHEMA = Schema(
    {
        "age": Numeric(18, 98),
        "pay": Numeric(0, 1000, centre=200, scale=100),
        "weekday": Categories([1, 2, "3", 4]),
    },
    target="score",
    bounds=Numeric(-10, 30),
)
AGE = Numeric(18, 98)
ROWS = {
    "age": [18, 58, 98, 200, float("nan")],
    "pay": [200, 0, 1000, float("inf"), -1e308],
    "weekday": [1, 2, 3, 4, 5],
    "score": [-10.0, 10.0, 30.0, 15.0, None],
}


def test_columns_are_standardised_by_what_is_declared():
    x = SCHEMA.features(ROWS)
    assert SCHEMA.names == [
        *["intercept", "age", "pay"],
        *[f"weekday={day}" for day in (1, 2, 3, 4)],
    ]
    assert SCHEMA.num_features == 7 == x.shape[1]
    np.testing.assert_allclose(x[:, 0], 1)
    np.testing.assert_allclose(x[:, 1], [-2, 0, 2, 2, 0])
    np.testing.assert_allclose(x[:, 2], [0, -2, 8, 8, -2])
    np.testing.assert_allclose(x[:4, 3:], np.eye(4) - 0.25)
    np.testing.assert_allclose(x[4, 3:], 0)
    np.testing.assert_allclose(SCHEMA.targets(ROWS), [-2, 0, 2, 0.5, np.nan])


def test_what_is_declared_is_known():
    declared = [True, False, True, *[True] * 4, False]
    assert SCHEMA.centred.tolist() == declared == SCHEMA.scaled.tolist()
    half = Schema({"age": Numeric(0, 9, centre=3), "pay": Numeric(0, 9, scale=1)}, "y", AGE)
    assert half.centred.tolist() == [True, True, False, False]
    assert half.scaled.tolist() == [True, False, True, False]


def test_predictions_return_to_the_targets_units():
    targets = np.array([-10.0, 3.0, 30.0])
    restored = SCHEMA.in_units(SCHEMA.targets({"score": targets}))
    np.testing.assert_allclose(restored, targets)
    assert SCHEMA.in_units([4.0]) == 50  # predictions are not clipped


def test_a_data_frame_is_as_good_as_a_mapping():
    frame = pd.DataFrame(ROWS).iloc[::-1]
    np.testing.assert_array_equal(SCHEMA.features(frame), SCHEMA.features(ROWS)[::-1])
    # A missing value makes pandas' integers floats, or its own type of integers.
    for dtype in ("float64", "Int64", "object", "string", "category"):
        days = pd.Series([3, None, 1]).astype("Int64").astype(dtype)
        missing = SCHEMA.features({"age": days, "pay": days, "weekday": days})
        np.testing.assert_allclose(missing[1, 1:], 0)
        np.testing.assert_allclose(missing[[0, 2], 3:], np.eye(4)[[2, 0]] - 0.25)
        np.testing.assert_allclose(missing[[0, 2], 2], [-1.97, -1.99])


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(10**400), st.just([7])
)


@given(st.lists(st.tuples(anything, anything, anything), min_size=1, max_size=6))
def test_every_row_is_finite_bounded_and_depends_on_itself_alone(rows):
    table = {name: [row[i] for row in rows] for i, name in enumerate(SCHEMA.columns)}
    x = SCHEMA.features(table)
    assert x.shape == (len(rows), 7)
    low, high = [1, -2, -2, *[-0.25] * 4], [1, 2, 8, *[0.75] * 4]
    assert ((low <= x) & (x <= high)).all()
    alone = [SCHEMA.features({k: v[i : i + 1] for k, v in table.items()}) for i in range(len(rows))]
    np.testing.assert_array_equal(x, np.concatenate(alone))


def test_it_survives_json():
    again = Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict())))
    assert again == SCHEMA
    np.testing.assert_array_equal(again.features(ROWS), SCHEMA.features(ROWS))


class Answer(IntEnum):
    NO = 1
    YES = 2


class Named(Enum):
    NO = "no"
    YES = "yes"


class Marked(int):
    def __str__(self):
        return "marked"


class Spoken(float):
    def __str__(self):
        return "spoken"


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0],
        [1.5, 2.0, 3],
        [7, "8", True],
        [False, True],
        [0.0, 1.0],
        ["a", "", "1.0"],
        [np.float32(0.5), np.float64(2), np.int8(3), np.bool_(True), np.str_("x")],
        [float("inf"), -0.0],
        [10**30, 2**53],
        [Decimal("1.0"), Decimal(2), Fraction(1, 3)],
        [b"x", b"y"],
        [date(2020, 1, 1), np.datetime64("2020-01-02"), timedelta(3)],
        [pd.Timestamp(2020, 1, 1), pd.Timestamp(2021, 1, 1)],
        list(Answer),
        list(Named),
        [Marked(7), Marked(8)],
        [Spoken(2.5), Spoken(3.0)],
        [(1, 2), (1.0, 3)],
    ],
    ids=repr,
)
@pytest.mark.parametrize("other", [None, "rest"])
def test_categories_of_every_type_survive_json(values, other):
    """Before, 1.0 became "1.0" in JSON and is the category "1", so that no entry matched."""
    schema = Schema({"x": Categories(values, other)}, "y", Categories(values))
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema and again.digests() == schema.digests()
    places = list(range(len(values)))
    for kind in (schema.columns["x"], again.columns["x"]):
        assert kind.coded(pd.Series(values, dtype=object)).tolist() == places
        assert kind.coded(list(kind.declared[: len(values)])).tolist() == places


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"columns": {"x": {"low": 0}}, "target": "y", "bounds": {"low": 0, "high": 1}},
        {"columns": {"x": {"low": 0, "high": 1, "hgih": 2}}, "target": "y", "bounds": {}},
        {"columns": [], "target": "y", "bounds": {"low": 0, "high": 1}},
        {"columns": {"x": {"low": 1, "high": 0}}, "target": "y", "bounds": {"low": 0, "high": 1}},
    ],
)
def test_what_is_no_schema_is_refused(plain):
    with pytest.raises(ValueError, match="Expected"):
        Schema.from_dict(plain)


def test_a_schema_with_other_keys_is_refused_by_the_columns_name():
    plain = {"columns": {"age": {"kind": "number", "low": 0, "high": 100}}}
    told = r"""Expected 'age' as \{"low": 0, "high": 100\} or .*, got \{'kind': 'number', """
    with pytest.raises(ValueError, match=told):
        Schema.from_dict(plain)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Numeric(1, 1),
        lambda: Numeric(0, np.inf),
        lambda: Numeric(0, 1, centre=2),
        lambda: Numeric(0, 1, centre=np.nan),
        lambda: Numeric(0, 1, scale=0),
        lambda: Numeric(-1e308, 1e308),
        lambda: Numeric(0, 1e300, scale=1e-300),
        lambda: Numeric(0, 5e-324),
        lambda: Categories(["one"]),
        lambda: Categories([7, 7.0]),
        lambda: Categories("ab"),
        lambda: Schema({}, "y", Numeric(0, 1)),
        lambda: Schema({"y": Numeric(0, 1)}, "y", Numeric(0, 1)),
    ],
)
def test_bad_declarations_are_refused(make):
    with pytest.raises(ValueError, match="Expected"):
        make()


def test_tables_that_do_not_fit_are_refused():
    for table in (np.zeros((3, 2)), [[1.0, 2.0]]):
        with pytest.raises(ValueError, match=f"named columns, .* got {type(table).__name__}"):
            SCHEMA.features(table)
    with pytest.raises(ValueError, match="column 'pay'"):
        SCHEMA.features({"age": [1.0], "weekday": [1]})
    with pytest.raises(ValueError, match="one length"):
        SCHEMA.features({"age": [1.0], "pay": [1.0, 2.0], "weekday": [1]})
    with pytest.raises(ValueError, match="one length"):
        Schema(SCHEMA.columns).users({"age": [1.0], "pay": [1.0, 2.0], "weekday": [1]})
    with pytest.raises(ValueError, match="one value a row"):
        SCHEMA.targets({"score": np.zeros((2, 2))})


def test_a_target_may_be_classes_or_none():
    classes = Schema({"age": AGE}, target="promoted", bounds=Categories(["no", "yes"]))
    assert classes.classes == ("no", "yes") and SCHEMA.classes == ()
    table = {"age": [18, 58, 98], "promoted": ["yes", "maybe", "no"]}
    np.testing.assert_array_equal(classes.targets(table), [1, np.nan, 0])
    with pytest.raises(ValueError, match="a number"):
        classes.in_units([0.0])
    none = Schema({"age": AGE})
    with pytest.raises(ValueError, match="without"):
        none.targets(table)
    assert not none.users(table).has_targets
    for schema in (classes, none, SCHEMA):
        assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_columns_know_their_places():
    assert SCHEMA.places("age") == range(1, 2)
    assert SCHEMA.places("weekday") == range(3, 7)
    assert SCHEMA.places("score") == range(7, 8)
    assert SCHEMA.kind("score") == SCHEMA.bounds and SCHEMA.kind("age") == AGE
    with pytest.raises(ValueError, match="'wage'"):
        SCHEMA.places("wage")


def test_users_know_what_is_missing():
    groups = ["b", "a", "b", "a", "c"]
    users = SCHEMA.users({**ROWS, "who": groups}, groups="who", ids=["a", "b", "c", "d"])
    assert users.ids.tolist() == ["a", "b", "c", "d"]
    order = [1, 3, 0, 2, 4]
    np.testing.assert_array_equal(users.features, SCHEMA.features(ROWS)[order])
    assert np.flatnonzero(users.missing.any(axis=1)).tolist() == [4]
    assert users.missing[4].tolist() == [False, True, False, True, True, True, True]
    np.testing.assert_array_equal(users[2:3].missing, users.missing[4:])
    np.testing.assert_array_equal(users.take(np.array([2, 0])).missing, users.missing[[4, 0, 1]])
    # The last row has no target, but its user has no other.
    assert len(users.finite().targets) == 5
    same = SCHEMA.users(ROWS, groups=["a"] * 5).finite()
    assert len(same.targets) == 4 == len(same.missing)
    with pytest.raises(
        ValueError, match=r"column 'who' .* Without groups each row is a separate user"
    ):
        SCHEMA.users(ROWS, groups="who")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((["g"],), "mapping"),
        (({"g": (0, 1)},), "'g'"),
        (({"g": AGE}, "y"), "bounds"),
        (({"g": AGE}, None, AGE), "target"),
        (({"g": AGE}, "y", (0, 1)), "'y'"),
    ],
)
def test_a_schema_of_something_else_is_refused_by_name(arguments, told):
    with pytest.raises(ValueError, match=told):
        Schema(*arguments)


@pytest.mark.parametrize("bounds", [(0, None), ("0", 1), (0, 1, "a"), (True, 2)])
def test_bounds_are_numbers(bounds):
    with pytest.raises(ValueError, match="to be a number"):
        Numeric(*bounds)


def test_values_that_are_not_listed_count_as_other_or_are_left_out():
    cells = ["a", "x", None, float("nan"), pd.NA, 7, "b"]
    left_out, counted = Categories(["a", "b"]), Categories(["a", "b"], other="rest")
    np.testing.assert_array_equal(left_out.coded(cells), [0, *[np.nan] * 5, 1])
    np.testing.assert_array_equal(counted.coded(cells), [0, 2, *[np.nan] * 3, 2, 1])
    assert counted.values == ("a", "b", "rest") == Categories(["a", "b", "rest"], "rest").values
    assert Categories(["rest", "a"], "rest").coded(["q"]) == [0]
    assert np.isnan(counted.coded([""])) and Categories(["", "a"], "rest").coded([""]) == [0]
    schema = Schema({"sort": counted})
    assert Schema.from_dict(schema.to_dict()) == schema
    missing = schema.missing({"sort": pd.Series(cells, dtype="object")})
    assert missing[:, 1].tolist() == [False, False, True, True, True, False, False]
    with pytest.raises(ValueError, match="other to be a text, got 3"):
        Categories(["a", "b"], other=3)


def test_numbers_beyond_their_bounds_are_told_to_whoever_loads_the_table(caplog):
    SCHEMA.users(ROWS)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "1 of 5 numbers in column 'age' are outside [18, 98] and count as the bound.",
        "2 of 5 numbers in column 'pay' are outside [0, 1000] and count as the bound.",
        "1 of 5 entries in column 'weekday' are none of its categories and count as missing.",
    ]
    caplog.clear()
    SCHEMA.users({name: [20, 30] for name in ROWS} | {"weekday": [1, 2]})
    assert not caplog.records


def test_entries_that_are_not_what_is_declared_are_told_to_whoever_loads_the_table(caplog):
    schema = Schema(
        {"age": AGE, "plan": Categories(["a", "b"]), "sort": Categories(["a", "b"], other="c")},
        target="left",
        bounds=Categories(["no", "yes"]),
    )
    table = {
        "age": ["old", 30, None, "", pd.NA],
        "plan": ["A", " b", None, "a", " "],
        "sort": ["A", " b", None, "a", " "],
        "left": ["no", "Yes", np.nan, "", "yes"],
    }
    schema.users(pd.DataFrame(table, dtype="object"))
    assert [record.getMessage() for record in caplog.records] == [
        "1 of 5 entries in column 'age' are not numbers and count as missing.",
        "2 of 5 entries in column 'plan' are none of its categories and count as missing.",
        "1 of 5 entries in column 'left' are none of its categories and count as missing.",
    ]


def test_truth_values_are_0_and_1_unless_both_are_categories():
    for values in ([0, 1], [False, True], ["0", "1"]):
        for held in ([True, False], np.array([1, 0]), ["True", "False"], [1.0, 0.0]):
            assert Categories(values).coded(held).tolist() == [1, 0]
    both = Categories([0, 1, False, True]).coded([1, True, 0, False])
    assert both.tolist() == [1, 3, 0, 2]
    assert np.isnan(Categories(["no", "yes"]).coded([True, 1, "1"])).all()
    assert np.isnan(Categories([1, 2]).coded([True, False])).all()


def test_of_a_wide_table_the_worst_columns_are_told(caplog):
    schema = Schema({f"x{i}": Numeric(0, 1) for i in range(9)})
    schema.users({f"x{i}": [2.0] * (i + 1) + [0.5] * (9 - i) for i in range(9)})
    told = [record.getMessage() for record in caplog.records]
    assert [line[:40] for line in told[:5]] == [
        f"{i + 1} of 10 numbers in column 'x{i}' are outsi" for i in range(4, 9)
    ]
    assert told[5:] == ["4 more columns have fewer such entries."]


def test_names_are_texts_and_columns_are_there_once():
    for columns, target in (({0: AGE}, "y"), ({"x": AGE}, 0), ({("a", "x"): AGE}, "y")):
        with pytest.raises(ValueError, match=r"Expected texts as names of columns, got .*map"):
            Schema(columns, target, Categories(["no", "yes"]))
    twice = pd.DataFrame([[20, 30]], columns=["age", "age"])
    with pytest.raises(ValueError, match="one column 'age' in the table, got 2"):
        Schema({"age": AGE}).users(twice)


def test_groups_of_other_rows_are_refused():
    table = pd.DataFrame({"age": [20, 30, 40], "who": ["a", "b", "b"]}, index=[7, 3, 9])
    schema = Schema({"age": AGE})
    wanted = schema.users(table, groups="who").features
    for same in (table["who"], table["who"].to_numpy(), ["a", "b", "b"]):
        np.testing.assert_array_equal(schema.users(table, groups=same).features, wanted)
    for other in (table["who"].sort_index(), table["who"].reset_index(drop=True)):
        with pytest.raises(ValueError, match=r"groups with the index.*groups\.to_numpy"):
            schema.users(table, groups=other)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_entry_is_no_category(missing):
    with pytest.raises(ValueError, match="categories without missing entries"):
        Categories(["a", "b", missing])


def test_sets_have_no_order_and_are_no_categories():
    with pytest.raises(ValueError, match="got a set"):
        Categories({"a", "b"})
