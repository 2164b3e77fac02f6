import numpy as np
import pytest

from ldp_flower import Users


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


def test_ids_are_the_same_for_integers_and_their_texts_and_floats_are_refused():
    x, y = np.zeros((3, 1)), np.zeros(3)
    assert Users.from_rows(x, y, [101, 7, 101]).ids.tolist() == ["7", "101"]
    assert Users.from_rows(x, y, np.array(["7", "a", "7"], object)).ids.tolist() == ["7", "a"]
    for groups in ([101.0, 7.0, 101.0], np.array([101, "a", None], object), [True, False, True]):
        with pytest.raises(ValueError, match="Expected groups to be strings or integers"):
            Users.from_rows(x, y, groups)
