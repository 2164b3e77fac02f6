"""The audit's checks of noise, neighbouring nodes and records find nothing in the real client.

One query of every kind that a protocol sends: statistic, mechanism, arrays and numbers. Queries
for the sums of nodes have other checks, in ``test_node_sums``.
A check is wrong once in 1,000,000 queries; seeds are fixed.
"""

from dataclasses import replace

import pytest

from ldp_flower.audit import extremes, recorded_queries
from ldp_flower.audit.independence import independent, many_users
from ldp_flower.audit.neighbours import neighbour_checks
from ldp_flower.audit.probe import Client, ldp_client_app
from ldp_flower.audit.records import bounded
from ldp_flower.audit.runs import audited_runs
from ldp_flower.audit.settings import settings_checks
from ldp_flower.guarantee.messages import HASH_END
from ldp_flower.randomizers.sums import NodeSum

pytestmark = pytest.mark.slow

DIM = 4


@pytest.fixture(scope="module")
def kinds():
    """Return a query of every kind that a protocol sends, and none before it."""
    seen, found = set(), {}
    for protocol, runs in audited_runs().items():
        found[protocol] = []
        for query in [query for run in runs(DIM, 2.0) for query in recorded_queries(*run)]:
            name, arrays, params = query.question.to_wire()
            kind = name, type(query.randomizer), frozenset(arrays), frozenset(params)
            if kind not in seen and not isinstance(query.randomizer, NodeSum):
                seen.add(kind)
                found[protocol].append(query)
    return found


# Half a minute each; what they send is attacked by their own tests, too.
LONG = {
    *("PrivateRegression", "PrivateClassification", "LdpIht", "SparseRegression"),
    *("HeavyHitters", "Describe", "PeelingDpIht", "DpIht", "SmoothGlm", "KernelRidgeRegression"),
}


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param(name, marks=pytest.mark.long) if name in LONG else name
        for name in audited_runs()
    ],
)
def test_nothing_is_found_in_any_protocols_client(kinds, protocol):
    for query in kinds[protocol]:
        people = extremes(query, DIM)
        people = [people[name] for name in [*list(people)[:2], "no rows"] if name in people]
        query = replace(query, low=0, high=HASH_END)
        copies = Client(query, ldp_client_app).copies(people[0])
        found = neighbour_checks(query, ldp_client_app, copies, people, 3)
        assert all(found.values()), (query.statistic, query.randomizer)
        assert independent(Client(query, ldp_client_app), copies, people[0], 3), query.statistic
        width = people[0].num_features
        found = many_users(Client(query, ldp_client_app), width, 3)
        found |= settings_checks(query, ldp_client_app, copies, people, 3)
        assert all(found.values()), query.statistic
        assert bounded(query, ldp_client_app, width), query.statistic
