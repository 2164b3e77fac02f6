"""A server that breaks the panels of a series: a ledger needs no trust in them."""

from dataclasses import fields

import numpy as np
import pytest
from deployed_node import NODE_ID, ask

from ldp_flower import Categories, Schema
from ldp_flower.audit import recorded_queries
from ldp_flower.clients import LdpClientApp
from ldp_flower.guarantee.keys import HASH_END, NodeKeys
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import Query, Report
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
