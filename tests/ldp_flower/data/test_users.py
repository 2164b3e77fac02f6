from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from ldp_flower import GeneratedUsers, Users, hash_items


def ragged():
    x = np.arange(14.0).reshape(7, 2)
    return Users.from_rows(x, np.arange(7.0), groups=["b", "a", "b", "c", "a", "b", "b"])


def test_rows_are_collected_by_user_in_their_order():
    users = ragged()
    assert users.ids.tolist() == ["a", "b", "c"]
    assert users.num_rows.tolist() == [2, 4, 1]
    assert users.targets.tolist() == [1, 4, 0, 2, 5, 6, 3]
    np.testing.assert_array_equal(users.features[:, 0] / 2, users.targets)


def test_without_groups_every_row_is_a_user():
    users = Users.from_rows(np.zeros((5, 3)), np.zeros(5))
    assert len(users) == 5 and users.num_features == 3 and users.ids is None


def test_a_slice_shares_the_rows():
    users = ragged()
    part = users[1:3]
    assert part.ids.tolist() == ["b", "c"] and part.targets.tolist() == [0, 2, 5, 6, 3]
    assert np.shares_memory(part.features, users.features)
    assert len(users[2:1]) == 0


def test_take_keeps_order_and_caps_rows():
    users = ragged()
    some = users.take(np.array([2, 1]), max_rows=3)
    assert some.targets.tolist() == [3, 0, 2, 5]
    assert some.num_rows.tolist() == [1, 3]


@pytest.mark.parametrize("num_partitions", [1, 2, 3, 7, 10])
def test_partitions_are_those_of_array_split(num_partitions):
    users = Users.from_rows(np.zeros((7, 1)), np.arange(7.0))
    parts = [users.partition(i, num_partitions) for i in range(num_partitions)]
    expected = np.array_split(np.arange(7.0), num_partitions)
    for part, targets in zip(parts, expected, strict=True):
        assert part.targets.tolist() == targets.tolist()
        assert len(part) == 0 or part.first == targets[0]


def test_users_may_hold_no_rows():
    users = Users(np.zeros((2, 1)), np.zeros(2), np.array([0, 0, 2, 2]))
    assert users.num_rows.tolist() == [0, 2, 0]
    assert users.take(np.array([0, 2])).num_rows.tolist() == [0, 0]


@pytest.mark.parametrize("as_type", [str, int])
def test_ids_bring_in_users_without_rows(as_type):
    rows = [as_type(name) for name in (12, 7, 12)]
    users = Users.from_rows(np.zeros((3, 2)), np.arange(3.0), rows, ids=["7", "12", "9"])
    assert users.ids.tolist() == ["12", "7", "9"]
    assert users.num_rows.tolist() == [2, 1, 0]
    assert users.targets.tolist() == [0, 2, 1]
    empty = Users.from_rows(np.zeros((0, 2)), np.zeros(0), [], ids=[7, 12, 9])
    assert empty.ids.tolist() == users.ids.tolist()  # rows decide nothing about the order
    filled = Users.from_rows(np.zeros((1, 2)), np.zeros(1), [as_type(9)], ids=[7, 12, 9])
    assert filled.ids.tolist() == users.ids.tolist() and filled.num_rows.tolist() == [0, 0, 1]
    nobody = Users.from_rows(np.zeros((0, 2)), np.zeros(0), groups=[], ids=["phone"])
    assert nobody.ids.tolist() == ["phone"] and nobody.num_rows.tolist() == [0]
    items = Users.from_items([3, 3], groups=["a", "a"], ids=["a", "b"])
    assert items.num_rows.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("groups", "ids", "message"),
    [
        (["a", "b"], ["a"], "Expected ids to name the user of every row"),
        (["a", "b"], [], "Expected ids to name the user of every row"),
        (["a", "a"], ["a", "b", "a"], "Expected distinct ids, got 2 among 3"),
        (["a", "a"], [1.0], "Expected ids to be strings or integers, all of one type, got float"),
        ([0.0, 1.0], [1], "Expected groups to be strings or integers, all of one type, got float"),
        (None, ["a", "b"], r"Expected groups \(the user of each row\) together with ids"),
        (["a"], ["a"], "Expected 2 groups, one a row"),
    ],
)
def test_ids_that_do_not_fit_are_refused(groups, ids, message):
    with pytest.raises(ValueError, match=message):
        Users.from_rows(np.zeros((2, 1)), np.zeros(2), groups, ids)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3), np.zeros(3), np.array([0, 3])), "Expected features to be floats of shape"),
        ((np.zeros((3, 1)), np.zeros(2), np.array([0, 3])), "Expected targets to be floats"),
        ((np.zeros((3, 1)), np.zeros(3), np.array([0, 2])), "Expected offsets from 0 to 3"),
        ((np.zeros((3, 1)), np.zeros(3), np.array([0, 2, 1, 3])), "offsets that do not decrease"),
        (
            (np.zeros((2, 1)), np.zeros(2), np.array([0, 1, 2]), np.array(["a", "a"])),
            "Expected 2 distinct ids",
        ),
        (
            (np.zeros((1, 1)), np.zeros(1), np.array([0, 1]), np.array([1])),
            "Expected 1 distinct ids of type str",
        ),
    ],
)
def test_inconsistent_users_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Users(*arguments)


@pytest.mark.parametrize("groups", [None, ["b", "a", "b"]])
@pytest.mark.parametrize(
    "missing",
    [
        *(np.zeros(shape, bool) for shape in [(3, 1), (3,), (2, 2), (4, 2), (3, 3)]),
        *(np.zeros((3, 2)), [[False, False]] * 3),
    ],
)
def test_missing_entries_are_those_of_the_features(missing, groups):
    """One row too many would be dropped, and the others be told of the wrong rows."""
    with pytest.raises(ValueError, match=r"missing to be an array of booleans of shape \(3, 2\)"):
        Users.from_rows(np.zeros((3, 2)), np.zeros(3), groups, missing=missing)


@pytest.mark.parametrize("offsets", [[0.0, 3.0], [0, None], [False, True], [[0, 3]], [], 3])
def test_offsets_are_integers(offsets):
    with pytest.raises(ValueError, match="Expected offsets to be integers of shape"):
        Users(np.zeros((3, 1)), np.zeros(3), offsets)


def test_offsets_without_a_sign_must_not_decrease_either():
    with pytest.raises(ValueError, match="offsets that do not decrease"):
        Users(np.zeros((3, 1)), np.zeros(3), np.array([0, 2, 1, 3], np.uint64))
    users = Users(np.zeros((3, 1)), np.zeros(3), np.array([0, 2, 3], np.uint8))
    assert users.offsets.dtype == np.int64 and users.num_rows.tolist() == [2, 1]


@pytest.mark.parametrize("ids", [[1], ["a"], np.array(["a"], object), "a", np.array([b"a"])])
def test_the_constructors_ids_are_an_array_of_texts(ids):
    with pytest.raises(ValueError, match="Expected 1 distinct ids of type str"):
        Users(np.zeros((1, 1)), np.zeros(1), np.array([0, 1]), ids)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int64, np.float16, object, "U5", bool]
)
def test_numbers_are_kept_as_float64_in_rows_whatever_they_come_as(dtype):
    x = np.asfortranarray(np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype))
    if dtype == "U5":
        x = np.asfortranarray([["0", "1"], ["1", "0"], ["1", "1"]])
    for users in (Users(x, x[:, 0], np.arange(4)), Users.from_rows(x, x[:, 0], [3, 1, 2])):
        assert users.features.dtype == users.targets.dtype == np.float64
        assert users.features.flags.c_contiguous and users.targets.flags.c_contiguous
        assert users.features.sum() == 4 and users.targets.sum() == 2


def test_targets_may_be_left_out():
    users = Users.from_rows(np.ones((3, 2)), groups=["a", "b", "a"])
    assert users.num_rows.tolist() == [2, 1] and not users.targets.any()
    assert not Users.from_rows(np.ones((3, 2))).targets.any()


def test_a_record_that_is_not_finite_is_left_out_where_its_user_has_others():
    x = np.arange(18.0).reshape(9, 2)
    y = np.arange(9.0)
    x[1, 0], y[3], x[5], y[6], y[7] = np.nan, np.inf, np.nan, np.nan, -np.inf
    users = Users(x, y, np.array([0, 3, 3, 5, 6, 8, 9]), np.array(list("abcdef")), 4)
    finite = users.finite()
    # User 3 has one record and user 4 two, none of them finite: those stay.
    assert finite.num_rows.tolist() == [2, 0, 1, 1, 2, 1]
    np.testing.assert_array_equal(finite.targets, [0, 2, 4, 5, np.nan, -np.inf, 8])
    assert finite.ids.tolist() == users.ids.tolist() and finite.first == 4
    for i in range(len(users)):
        alone = users[i : i + 1].finite()
        np.testing.assert_array_equal(alone.features, finite[i : i + 1].features)
    assert users[5:].finite().num_rows.tolist() == [1] and len(Users.from_items([]).finite()) == 0


def test_the_representation_shows_no_row_and_no_id():
    x = np.full((3, 2), 123.25)
    users = Users.from_rows(x, x[:, 0], ["patient-a", "patient-b", "patient-b"])
    assert repr(users) == str(users) == f"{users}" == "Users(users=2, num_features=2)"
    generated = GeneratedUsers(2, 2, partial(np.add, x))
    assert repr(generated) == "GeneratedUsers(num_users=2, num_features=2, first=None)"
    with pytest.raises(ValueError) as error:
        Users(x, x[:, 0], np.array([0, 1, 2]))
    assert "123" not in str(error.value)


def test_ids_are_the_same_for_integers_and_their_texts_and_floats_are_refused():
    x, y = np.zeros((3, 1)), np.zeros(3)
    assert Users.from_rows(x, y, [101, 7, 101]).ids.tolist() == ["7", "101"]
    assert Users.from_rows(x, y, np.array(["7", "a", "7"], object)).ids.tolist() == ["7", "a"]
    for groups in ([101.0, 7.0, 101.0], np.array([101, "a", "b"], object), [True, False, True]):
        with pytest.raises(ValueError, match="Expected groups to be strings or integers"):
            Users.from_rows(x, y, groups)


def test_items_become_one_column_exactly():
    users = Users.from_items(np.array([2**53 - 1, 0, 7]), groups=["b", "a", "b"])
    assert users.features.tolist() == [[0.0], [2.0**53 - 1], [7.0]]
    assert users.ids.tolist() == ["a", "b"] and users.num_rows.tolist() == [1, 2]
    assert not users.targets.any()
    assert len(Users.from_items([])) == 0


def test_strings_become_their_public_hashes():
    names = ["JFK", "LGA", "JFK", "Zürich", ""]
    users = Users.from_items(names)
    assert users.features[:, 0].astype(np.int64).tolist() == hash_items(names).tolist()
    assert users.features[0] == users.features[2]
    objects = Users.from_items(np.array(names, object), num_bits=12)
    assert (objects.features[:, 0] == hash_items(names) >> 28).all()
    # What has once been reported must keep its number in every version.
    assert hash_items(["JFK"]).tolist() == [891260837518]


def test_hashes_are_spread_evenly():
    """Chi-squared over 256 buckets: beyond 370 once in a million; and no pair of 40 bits."""
    numbers = hash_items([f"item {i}" for i in range(20_000)])
    counts = np.bincount(numbers >> 32, minlength=256)
    assert ((counts - 20_000 / 256) ** 2 / (20_000 / 256)).sum() < 370
    assert len(np.unique(numbers)) == 20_000 and numbers.min() >= 0 and numbers.max() < 2**40


@pytest.mark.parametrize(
    "items", [[1.5], [[1, 2]], np.array([None], object), np.array([True]), [np.nan], [2**63], [-1]]
)
def test_what_is_neither_an_integer_nor_a_string_is_no_item_and_costs_nobody_another(items):
    assert np.isnan(Users.from_items(items).features).all()
    both = Users.from_items([*items, "JFK", 7])
    expected = [np.nan, 891260837518, 7]
    np.testing.assert_array_equal(both.features[:, 0], expected)


def test_items_in_more_than_one_dimension_are_refused():
    for items, text in (
        (np.ones((2, 2), int), "Expected items of shape"),
        (np.array(7), "Expected a column, one entry a row, got int"),
    ):
        with pytest.raises(ValueError, match=text):
            Users.from_items(items)


def test_a_users_text_among_integers_changes_nobodys_item():
    users = Users.from_items([5] * 9 + ["5"])
    assert users.features[:9].tolist() == [[5.0]] * 9
    assert users.features[9] == hash_items(["5"])


def test_only_strings_are_hashed():
    with pytest.raises(ValueError, match="Expected strings, got int"):
        hash_items(["a", 7])
    np.testing.assert_array_equal(hash_items(["a\0"]), hash_items(np.array(["a\0"])))


@pytest.mark.parametrize("num_bits", [0, 41])
def test_hashes_of_too_few_or_many_bits_are_refused(num_bits):
    with pytest.raises(ValueError, match="Expected an integer 1 <= num_bits <= 40"):
        hash_items(["a"], num_bits)


@pytest.mark.parametrize("slots", [[0, 0, 1], [2, 0, 2]])
def test_a_user_with_an_id_is_not_taken_twice(slots):
    users = Users.from_rows(np.eye(3), None, ["a", "b", "c"])
    with pytest.raises(ValueError, match="Expected 3 distinct ids, got 2"):
        users.take(np.array(slots))
    anonymous = Users.from_rows(np.eye(3))
    np.testing.assert_array_equal(anonymous.take(np.array(slots)).features, np.eye(3)[slots])


def test_a_sparse_matrix_is_read_with_its_zeros_unless_they_are_too_many():
    rows = np.array([[0.0, 2.0], [0.0, 0.0], [3.0, 0.0]])
    assert Users.from_rows(csr_array(rows)).features.tolist() == rows.tolist()
    with pytest.raises(ValueError, match=r"at most 268,435,456 entries.* got 10,000,000,000 in"):
        Users.from_rows(csr_array((100_000, 100_000)))
