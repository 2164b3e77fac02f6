"""Which rows a question is answered from, and that they are drawn by the user's own coin."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from ldp_flower import Categories, Numeric, Schema, Users
from ldp_flower.clients.arithmetic import chosen
from ldp_flower.clients.values import values_of
from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Purpose, Query
from ldp_flower.questions import CellShares, DrawnItems, FrequentItems, Gradient, TableCell
from ldp_flower.randomizers import KRandomizedResponse
from ldp_flower.randomness import derive

SCHEMA = Schema(
    {"age": Numeric(0, 100), "sort": Categories(["a", "b", "c"])}, "income", Numeric(0, 10)
)
NAN = np.nan
TABLE = {
    "age": [50, NAN, 20, 30, 40, 50],
    "sort": ["a", "b", None, "c", "x", "b"],
    "income": [1, 2, 3, NAN, 5, 6],
    "who": ["p", "p", "p", "q", "r", "s"],
}
USERS = SCHEMA.users(TABLE, "who", ids=list("pqrst"))
OF_SORT = TableCell(np.array(SCHEMA.places("sort")), np.array([3.0]))


def query(question, width=1):
    return Query(question, KRandomizedResponse(1.0, 4), 0, 0, HASH_END, 1)


def words(users, seed=0):
    return derive(seed, np.arange(len(users)))


def answered(users, question=OF_SORT, seed=0):
    slots = np.arange(len(users))
    return values_of(users.take, slots, query(question), words=words(users, seed))[:, 0]


def test_a_row_counts_whose_other_entries_are_missing():
    """q has no income, s is complete; r's category is not listed, and t has no rows."""
    drawn = np.array([answered(USERS, seed=seed) for seed in range(40)])
    assert set(drawn[:, 0]) == {0.0, 1.0}  # the row without an age is one of them
    np.testing.assert_array_equal(drawn[:, 1:], [[2.0, 3.0, 1.0, 3.0]] * 40)


def test_numbers_are_cut_at_edges_beside_categories():
    """A number on an edge is in the cell below. Nodes share rows out as users draw them."""
    edges = SCHEMA.kind("age").coded([20, 40])[None]
    places = np.array([*SCHEMA.places("sort"), *SCHEMA.places("age")])
    rows = {"age": [20, 21, 41, 90], "sort": list("acbb"), "income": [1] * 4, "who": list("pqrr")}
    users = SCHEMA.users(rows, "who")
    cells = answered(users, TableCell(places, np.array([3.0]), edges=edges))
    np.testing.assert_array_equal(cells, [0, 2 * 3 + 1, 1 * 3 + 2])
    shares = values_of(
        users.take, np.arange(3), query(CellShares(places, np.array([3.0]), edges)), words=None
    )
    np.testing.assert_array_equal(shares, np.eye(9)[cells.astype(int)])
    two = TableCell(np.array([4, 0]), np.empty(0), edges=np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert two.num_cells == 9 and two.blocks(4) == [[4], [0]] and two.needs_targets(4)


def test_every_usable_row_is_drawn_equally_often():
    """One user in 4,000 worlds: each count within what happens but once in 10**6 tables."""
    users = Users(np.eye(5)[:, :3], np.zeros(5), np.array([0, 5]))
    users = replace(users, missing=np.arange(5)[:, None] == np.array([3, 3, 3]))
    drawn = [chosen(users, OF_COLUMNS, derive(seed)).features[0] for seed in range(4000)]
    counts = [sum(np.array_equal(row, other) for row in drawn) for other in np.eye(5)[:, :3]]
    # The last two rows look alike, and one of them has no entry.
    low, high = binom.ppf([1e-7, 1 - 1e-7], 4000, 0.25)
    assert counts[3] == counts[4] and sum(counts[:4]) == 4000
    assert all(low < count < high for count in counts)


OF_COLUMNS = TableCell(np.arange(3), np.array([3.0]))


def test_ties_are_broken_by_the_users_coin_and_frequency_goes_first():
    users = Users.from_items([7, 3, 3, 7, 5, 9], ["u"] * 6)
    first = {
        kind: [
            values_of(users.take, np.arange(1), query(kind(1, 16)), words=derive(seed))[0, 0]
            for seed in range(2000)
        ]
        for kind in (DrawnItems, FrequentItems)
    }
    low, high = binom.ppf([1e-7, 1 - 1e-7], 2000, 1 / 2)
    assert set(first[FrequentItems]) == {3, 7} and low < first[FrequentItems].count(7) < high
    low, high = binom.ppf([1e-7, 1 - 1e-7], 2000, 1 / 3)
    assert low < first[DrawnItems].count(7) < high
    low, high = binom.ppf([1e-7, 1 - 1e-7], 2000, 1 / 6)
    assert low < first[DrawnItems].count(9) < high


@pytest.mark.parametrize("question", [OF_COLUMNS, DrawnItems(2, 8), FrequentItems(2, 8)])
def test_no_neighbour_decides_which_row_is_drawn(question):
    rng = np.random.default_rng(0)
    own = Users(rng.integers(0, 4, (7, 3)).astype(float), np.zeros(7), np.array([0, 7]))
    word = derive(5, 5)
    alone = chosen(own, question, word)
    for rows, number in [(0, 0.0), (1, NAN), (1000, 2.0), (3, np.inf), (7, 1.0)]:
        features = np.vstack([np.full((rows, 3), number), own.features])
        both = Users(features, np.zeros(rows + 7), np.array([0, rows, rows + 7]))
        found = chosen(both, question, np.append(derive(9), word))[1:2]
        assert found.features.tobytes() == alone.features.tobytes()


def test_a_user_whose_data_fail_changes_nobodys_draw():
    def failing(slots):
        if 2 in slots:
            raise ValueError("a table that cannot be read")
        return USERS.take(slots)

    slots = np.arange(len(USERS))
    for seed in range(5):
        apart = values_of(failing, slots, query(OF_SORT), words=words(USERS, seed))[:, 0]
        others = slots != 2
        np.testing.assert_array_equal(apart[others], answered(USERS, seed=seed)[others])
        assert np.isnan(apart[2])


def test_the_streams_of_rows_noise_and_training_differ():
    keys, slots = NodeKeys(0, 0, 8), np.arange(8)
    purposes = [Purpose.ROWS, Purpose.NOISE, Purpose.TRAINING]
    drawn = np.concatenate(
        [keys.states(each, 3, step, slots) for each in purposes for step in (1, 2)]
    )
    assert len(np.unique(drawn)) == len(drawn)
    np.testing.assert_array_equal(
        keys.states(Purpose.ROWS, 3, 1, slots)[4:],
        NodeKeys(0, 4, 4).states(Purpose.ROWS, 3, 1, slots[:4]),
    )


def test_questions_about_the_target_need_one():
    assert TableCell(np.array([4]), np.array([3.0])).needs_targets(4)
    assert not OF_SORT.needs_targets(USERS.num_features)
    assert Gradient(np.zeros(3)).needs_targets(3)
