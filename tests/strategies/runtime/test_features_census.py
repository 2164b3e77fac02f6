"""Users of other features than a strategy needs are found out before anybody pays."""

import numpy as np
import pytest

from ldp_flower import InProcessGrid, Numeric, Schema, Users, simulate
from ldp_flower.clients import LdpClientApp
from ldp_flower.strategies import ConstrainedMean, LdpIht, Means, PrivateRegression
from ldp_flower.strategies.catalogue import PROTOCOLS
from ldp_flower.strategies.runtime.census import census_facts

DIM, THEIRS = 4, 3
# Items are one column each, and an app's own training has features of its own.
OF_ROWS = [name for name in PROTOCOLS if name not in ("HeavyHitters", "LdpFedAvg", "RecordDpSgd")]


class Grid(InProcessGrid):
    """Nodes of 300 users each, whose rows have these numbers of features."""

    def __init__(self, *features):
        def load(context):
            node = context.node_config["partition-id"]
            table = np.full((300, features[node]), 0.5)
            return Users.from_rows(table, table[:, 0], np.arange(300) + 300 * node)

        super().__init__(LdpClientApp(load, seed=0), len(features))
        self.asked = []

    def _handle(self, message):
        self.asked.append((message.metadata.message_type, message.metadata.dst_node_id))
        return super()._handle(message)


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_wrong_number_of_features_names_both(name):
    strategy, _ = next(PROTOCOLS[name].audit_runs(DIM, 2.0))
    grid = Grid(THEIRS, THEIRS)
    with pytest.raises(ValueError, match=f"rows have {DIM} features, as .*{name}.* got {THEIRS}"):
        strategy.start(grid, num_nodes=2, seed=0)
    assert {kind for kind, _ in grid.asked} == {"query.census"}


def test_simulate_says_so_too():
    users = Users.from_rows(np.ones((600, 12)), np.ones(600))
    with pytest.raises(ValueError, match="have 8 features, as this LdpIht needs, got 12"):
        simulate(LdpIht(8, sparsity=2, epsilon=4.0), users)
    schema = Schema({"x": Numeric(0, 1)}, "y", Numeric(0, 1))
    with pytest.raises(
        ValueError, match="have 2 features, as this PrivateRegression needs, got 12"
    ):
        simulate(PrivateRegression(schema, epsilon=4.0), users)


def test_a_node_with_others_is_left_out_and_stops_nobody():
    grid = Grid(DIM, THEIRS, DIM)
    result = ConstrainedMean(DIM, epsilon=2.0).start(grid, num_nodes=3, seed=0)
    assert result.num_users == result.num_reports == 600
    assert "1 nodes were not asked: their users' rows do not have 4 features." in result.notes
    asked = {node for kind, node in grid.asked if kind != "query.census"}
    assert asked == {1, 3}


@pytest.mark.parametrize(
    ("content", "features"),
    [
        (b"0 0 7 1 0 1 5 6 9", 5),
        (b"0 0 7 1 0 1 5 6", 5),
        (b"0 0 7 1 0 1 5", 5),
        (b"0 0 7 1 0 1 -1", None),
        (b"0 0 7 1 0 1", None),
    ],
)
def test_a_census_that_was_kept_before_nodes_told_features_is_read(content, features):
    facts = census_facts(content, 1, 100)
    assert facts.features == features and facts.keys.count == 7
    assert (facts.seeded, facts.rehearsing, facts.simulated) == (True, False, True)


def test_a_census_with_numbers_has_keys_of_them():
    numbers = np.array([5, 3, 2**63 - 1])
    keys = census_facts(b"7 0 3 0 0 0 5 0\n" + numbers.astype("<i8").tobytes(), 7, 100).keys
    assert (keys.group, keys.first, keys.count) == (0, 0, 3)
    assert keys.numbers.tolist() == numbers.tolist()


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"0 0 7 1 0",
            b"0 0 7 1 0 1 5 8",
            b"0 0 7 1 0 1 5 6 9 1 1 1",
            b"0 0 7 1 0 1 5 6 9 -1",
            b"0 0 7 1 0 1 5 6 -9",
            b"0 0 7 1 0 1 x",
            b"",
        ),
        *(b"0 0 7 1 0 0 5 6\n" + bytes(length) for length in (1, 8, 48, 56, 64)),
        b"0 0 1 1 0 0 5 0\n" + bytes(7) + b"\x80",
    ],
)
def test_a_census_that_is_none_is_rejected(content):
    assert census_facts(content, 1, 100) is None


def test_users_of_another_schema_are_not_asked():
    columns = {"age": Numeric(0, 9), "pay": Numeric(0, 99)}
    table = {"age": [1.0] * 600, "pay": [2.0] * 600, "sex": [1] * 600}
    users = Schema(columns, "sex", Numeric(0, 1)).users(table)
    other = Schema(columns, "sex", Numeric(0, 5))
    with pytest.raises(ValueError, match=r"declares otherwise target sex.*Nobody has been asked"):
        simulate(Means(other, "age", epsilon=4.0), users, seed=0)
    assert simulate(Means(Schema(columns), "age", epsilon=4.0), users, seed=0).num_reports
