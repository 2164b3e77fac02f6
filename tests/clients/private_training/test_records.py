"""A node's arrays and a network: whether they fit as a whole, and which records count."""

import numpy as np
import pytest

from ldp_flower.clients.private_training.records import Form
from ldp_flower.models.graph import Tensor

NUMBERS = Form(Tensor("float32", (2,)), Tensor("float32", ()), None)
CLASSES = Form(Tensor("float32", (2,)), Tensor("int64", ()), 2)
PIXELS = Form(Tensor("float32", (3, 4, 4)), Tensor("int64", (4, 4)), 5)


def test_records_become_numbers_one_by_one():
    rows, goals, usable = NUMBERS.fitted(
        [[1, 2], [3, 4], ["a", 5], [1, 2, 3], None], [1, "x", 3, 4, 5], 9
    )
    assert rows.tolist() == [[1, 2], [3, 4], [0, 0], [0, 0], [0, 0]]
    assert goals[0] == 1 and np.isnan(goals[1:]).all()
    assert str(usable) == (
        "Of 5 records 1 count: 3 are not numbers of 2, 1 have a target that is not numbers of "
        "one number."
    )
    rows, goals, usable = NUMBERS.fitted(np.arange(8).reshape(4, 2), np.arange(4), 3)
    assert rows.tolist() == [[0, 1], [2, 3], [4, 5]] and goals.tolist() == [0, 1, 2]
    assert str(usable) == "Of 3 records 3 count."


def test_targets_that_are_no_class_are_told():
    rows = np.zeros((400, 2))
    *_, usable = CLASSES.fitted(rows, np.repeat([1, 2], 200), 1000)
    assert str(usable) == "Of 400 records 200 count: 200 have a target outside 0..1."
    *_, usable = CLASSES.fitted(rows, np.repeat([10, -1], 200), 1000)
    assert str(usable) == "Of 400 records 0 count: 400 have a target outside 0..1."
    masks = np.full((3, 4, 4), 5)
    masks[0, 0, 0] = 4  # one pixel of a class is enough
    *_, usable = PIXELS.fitted(np.zeros((3, 3, 4, 4)), masks, 3)
    assert str(usable) == "Of 3 records 1 count: 2 have a target outside 0..4."


@pytest.mark.parametrize("odd", [0.5, np.nan, np.inf, 1e30])
def test_a_class_is_a_whole_number(odd):
    targets = np.array([1.0, odd, 0.0])
    for given in (targets, [*targets]):
        _, goals, usable = CLASSES.fitted(np.zeros((3, 2)), given, 3)
        assert goals.tolist() == [1, -1, 0] and str(usable).startswith("Of 3 records 2 count")
    huge = np.array([1, 2**64 - 1, 0], np.uint64)  # -1, were it brought into eight bytes
    assert CLASSES.fitted(np.zeros((3, 2)), huge, 3)[1].tolist() == [1, -1, 0]


def test_records_that_are_not_finite_are_told():
    rows = np.array([[np.nan, 1], [np.inf, 1], [1, 1]])
    *_, usable = NUMBERS.fitted(rows, np.array([1.0, 1.0, np.nan]), 3)
    assert str(usable) == (
        "Of 3 records 0 count: 2 hold a number that is not finite, 1 have a target that is not "
        "finite."
    )


@pytest.mark.parametrize(
    ("form", "records", "targets", "wrong"),
    [
        (CLASSES, np.zeros((4, 2)), np.array(["a"] * 4), "Expected targets that are numbers"),
        (CLASSES, np.array([["1", "2"]] * 4), np.zeros(4), "Expected records that are numbers"),
        (CLASSES, np.zeros((4, 2)), np.zeros((4, 1)), "Expected targets of one number, got 1."),
        (CLASSES, np.zeros((4, 2)), np.zeros((4, 2)), "Expected targets of one number, got 2."),
        (
            PIXELS,
            np.zeros((4, 4, 4)),
            np.zeros((4, 4, 4)),
            "Expected records of 3 x 4 x 4, got 4 x",
        ),
        (PIXELS, np.zeros((4, 4, 4, 3)), np.zeros((4, 4, 4)), "got 4 x 4 x 3."),
        (NUMBERS, np.zeros((4, 2), complex), np.zeros(4), "Expected records that are numbers"),
        (NUMBERS, np.zeros((4, 2)), np.zeros(4, "datetime64[s]"), "Expected targets that are"),
    ],
)
def test_arrays_that_do_not_fit_as_a_whole_are_found_without_their_values(
    form, records, targets, wrong
):
    assert wrong in form.misfit(records, targets)


@pytest.mark.parametrize(
    "targets", [np.full(4, np.nan), np.full(4, 7), np.array([None, "x", 1, 2], object), ["x"] * 4]
)
def test_no_value_makes_arrays_misfits(targets):
    assert CLASSES.misfit(np.full((4, 2), np.nan), targets) is None
