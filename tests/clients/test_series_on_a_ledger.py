"""Series on a node with a ledger: users who move, and a server that breaks the panels.

A ledger needs no trust in panels.
"""

from dataclasses import fields, replace

import numpy as np
import pytest
from deployed_node import NODE_ID, ask
from flwr.app import Context, RecordDict

from ldp_flower import Categories, InProcessGrid, Schema
from ldp_flower.audit import recorded_queries
from ldp_flower.clients import LdpClientApp, Refusal
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Query, Report
from ldp_flower.strategies import Counts, Series

USERS, WEEKS = 1200, 3
SCHEMA = Schema({"sort": Categories([*"abc"])})
TABLE = {"sort": np.array([*"abc"])[np.arange(USERS) % 3]}


@pytest.fixture(scope="module")
def questions():
    """Return the first question of every week of a series at epsilon 1."""
    series = Series(Counts(SCHEMA, "sort", epsilon=1.0), collections=WEEKS)
    users = SCHEMA.users(TABLE)
    return [recorded_queries(series, users, seed=3)[0] for _ in range(WEEKS)]


@pytest.fixture(params=[1.0, 2.0])
def node(tmp_path, request):
    """Return a node whose operator allows so much, with its ledger."""
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    config = {"max-epsilon": request.param, "ledger-path": str(tmp_path / "ledger.db")}
    users = SCHEMA.users(TABLE, groups=np.arange(USERS), ids=np.arange(USERS))
    app = LdpClientApp(lambda context: users)

    def answered(query):
        """Return how many users answer, or the code of the error."""
        reply = ask(app, query, config)
        if reply.has_error():
            return reply.error.code
        arrays = Report.from_record_dict(reply.content).arrays
        return int(arrays["count"][0]) if "count" in arrays else len(arrays["slots"])

    return answered, ledger, request.param


def changed(query, **given):
    """Return a query with other fields."""
    return Query(**({each.name: getattr(query, each.name) for each in fields(query)} | given))


def test_a_user_outside_its_panel_twice_or_by_another_series(questions, node):
    """Refused or charged anew, as everything is: nobody ever spends more than the operator says."""
    answered, ledger, limit = node
    first, second, _ = questions
    count = answered(first)
    assert count > 90 and answered(first) == count  # the same query is the same answer, free
    assert len(ledger.spent()) == count
    assert {cost.epsilon for cost in ledger.spent().values()} == {1.0}
    # The second week's question to the first week's panel.
    again = changed(second, low=first.low, high=first.high)
    assert answered(again) == (102 if limit == 1 else count)
    # Another series asks everybody: whoever has spent all is left out.
    others = changed(first, salt=first.salt + 1, low=0, high=HASH_END)
    assert answered(others) == USERS - count
    # Who was asked outside a panel has spent that budget when the panel's own week comes.
    panel = NodeKeys(NODE_ID, 0, USERS).addressed(second.salt, second.low, second.high)
    assert answered(second) == (102 if limit == 1 else len(panel))
    spent = [cost.epsilon for cost in ledger.spent().values()]
    assert len(spent) == USERS and max(spent) == limit


def test_a_server_gets_no_more_sums_than_the_series_has_paid_for(tmp_path):
    """All collections are one plan: neither a week more nor a larger share of it is given."""
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    config = {"max-epsilon": 1.0, "max-delta": 1e-6, "noise": "node"}
    config["ledger-path"] = str(tmp_path / "ledger.db")
    sorts = np.array(TABLE["sort"])
    users = SCHEMA.users({"sort": sorts}, groups=np.arange(USERS), ids=np.arange(USERS))
    series = Series(Counts(SCHEMA, "sort", epsilon=1.0, noise="node"), collections=WEEKS)
    asked = [recorded_queries(series, SCHEMA.users(TABLE), seed=3)[0] for _ in range(WEEKS)]
    weeks = [changed(query, low=0, high=HASH_END) for query in asked]
    app = LdpClientApp(lambda context: users)

    def answered(query):
        """Return the sum that leaves the node, or the code of the error."""
        reply = ask(app, query, config)
        if reply.has_error():
            return reply.error.code
        return Report.from_record_dict(reply.content).arrays["noisy_sum"].tolist()

    parts = weeks[0].randomizer.parts
    assert parts == 10_000 // WEEKS and len({query.step for query in weeks}) == WEEKS
    # A larger share than that of a week is paid for by the weeks that are left.
    larger = changed(weeks[0], randomizer=replace(weeks[0].randomizer, parts=7_000))
    first = answered(weeks[0])
    assert answered(larger) == Refusal.EXHAUSTED
    users = SCHEMA.users({"sort": sorts[::-1]}, groups=np.arange(USERS), ids=np.arange(USERS))
    assert answered(weeks[0]) == first  # no second draw of noise, though the data are others
    sums = [answered(query) for query in weeks[1:]]
    assert first not in sums and all(len(each) == 3 for each in sums)
    assert {(cost.epsilon, cost.delta) for cost in ledger.spent().values()} == {(1.0, 1e-6)}
    beyond = [
        changed(weeks[0], step=weeks[-1].step + (1 << 16)),
        changed(weeks[0], randomizer=replace(weeks[0].randomizer, parts=1_000), step=77),
        changed(weeks[0], salt=weeks[0].salt + 1),
        changed(weeks[0], low=0, high=HASH_END // 2, step=78),
        changed(weeks[0], randomizer=replace(weeks[0].randomizer, delta=1e-7), step=79),
    ]
    assert [answered(query) for query in beyond] == [Refusal.EXHAUSTED] * len(beyond)
    assert {cost.epsilon for cost in ledger.spent().values()} == {1.0}


def collected(series, config, sorts, node_id):
    """Collect once from a deployed node of this number that holds the users named in ``sorts``."""
    names = list(sorts)
    users = SCHEMA.users({"sort": list(sorts.values())}, groups=names, ids=names)
    grid = InProcessGrid(LdpClientApp(lambda context: users), 1)
    grid.contexts = {node_id: Context(1, node_id, config, RecordDict(), {})}
    return series.start(grid, num_nodes=1, timeout=0.0)


@pytest.mark.parametrize("memoised", [False, True], ids=["panels", "memoised"])
def test_users_who_move_keep_their_panels_and_their_noise(memoised, tmp_path):
    """Each week some join, some leave, and the node is registered anew: nobody loses a report.

    Users are in the order of their names on a node, so that most have another place each week.
    """
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    config = {"max-epsilon": 4.0, "ledger-path": str(tmp_path / "ledger.db")}
    config["allow-public-changes"] = True
    counts = Counts(SCHEMA, "sort", epsilon=4.0, min_reports=1)
    series = Series(counts, collections=WEEKS, memoised=memoised)
    stay = {f"m{user:04d}": "abc"[user % 3] for user in range(USERS)}
    sorts, asked = dict(stay), 0
    for week in range(WEEKS):
        sorts = {f"a{week}{user:03d}": "a" for user in range(100)} | stay  # those before have left
        result = collected(series, config, sorts, 10 + week)
        asked += result.asked[-1]
        assert result.users[-1] == len(sorts) == USERS + 100
        assert result.reports[-1] == result.asked[-1] and result.no_budget == 0
        if memoised:
            assert result.asked[-1] == len(sorts)
    spent = ledger.spent()
    assert {cost.epsilon for cost in spent.values()} == {4.0} and set(stay) <= set(spent)
    if memoised:
        assert len(spent) == USERS + 100 * WEEKS
        # Those who answered twice hold what they held.
        assert (result.change[1:] == 0).all() and (result.change_std_error[1:] == 0).all()
    else:
        assert asked == len(spent)  # everybody who stayed once


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.update(slots=np.arange(len(a["reports"]), dtype=np.uint32)),
        lambda a: (a.pop("numbers"), a.update(slots=np.arange(USERS, dtype=np.uint32))),
        lambda a: a.update(numbers=np.roll(a["numbers"], 1)[:-1]),
        lambda a: a.update(numbers=a["numbers"].astype(float)),
        lambda a: a.update(numbers=a["numbers"][:, None]),
        lambda a: a.update(numbers=np.repeat(a["numbers"][:1], USERS)),
    ],
)
def test_numbers_that_no_honest_node_can_send_are_rejected(change, tmp_path):
    SqliteLedger.create(tmp_path / "ledger.db")
    config = {"max-epsilon": 4.0, "ledger-path": str(tmp_path / "ledger.db")}
    config["allow-public-changes"] = True
    users = SCHEMA.users(TABLE, groups=np.arange(USERS), ids=np.arange(USERS))

    class Forging(InProcessGrid):
        def _handle(self, message):
            reply = super()._handle(message)
            if message.metadata.message_type == "query.report" and reply.metadata.src_node_id == 1:
                arrays = Report.from_record_dict(reply.content).arrays
                change(arrays)
                reply.content = Report(arrays).to_record_dict()
            return reply

    grid = Forging(LdpClientApp(lambda context: users), 2)
    for context in grid.contexts.values():
        context.node_config = config | {"ledger-path": str(tmp_path / f"{context.node_id}.db")}
        SqliteLedger.create(tmp_path / f"{context.node_id}.db")
    counts = Counts(SCHEMA, "sort", epsilon=4.0, min_reports=1)
    series = Series(counts, collections=WEEKS, memoised=True)
    result = series.start(grid, num_nodes=2, timeout=0.0)
    assert result.steps[1].rejected == 1 and result.reports[0] == USERS


def test_reports_of_users_who_joined_after_the_census_are_left_out(tmp_path):
    """A table that changed since the census: reports are of users, not of their places."""
    SqliteLedger.create(tmp_path / "ledger.db")
    config = {"max-epsilon": 4.0, "ledger-path": str(tmp_path / "ledger.db")}
    config["allow-public-changes"] = True
    first = {f"m{user:04d}": "b" for user in range(USERS)}
    later = {f"b{user:03d}": "a" for user in range(100)} | dict(list(first.items())[100:])
    tables = [
        SCHEMA.users({"sort": list(each.values())}, groups=list(each), ids=list(each))
        for each in (first, later)
    ]
    left = iter(tables)
    grid = InProcessGrid(LdpClientApp(lambda context: next(left)), 1)
    grid.contexts = {NODE_ID: Context(1, NODE_ID, config, RecordDict(), {})}
    counts = Counts(SCHEMA, "sort", epsilon=4.0, min_reports=1)
    series = Series(counts, collections=WEEKS, memoised=True)
    result = series.start(grid, num_nodes=1, timeout=0.0)
    assert result.asked[0] == USERS and result.reports[0] == USERS - 100
    # All others hold a "b": with the columns of other users they would seem to hold anything.
    assert abs(result.level[0, 1] - 1) < 5 * result.std_error[0, 1] < 0.5
