"""Comparison of neighbouring nodes of a deployment, by everything that a server sees of them.

Four users of a node are replaced by others, including users with absurd data, and the same noise
is replayed from a tape. Then every reply must have the same form, the users who answer must be
those who are addressed and can pay, and the other users' reports must be the same to the last bit.
Single users' reports are attacked elsewhere.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from flwr.app import Context, Message
from numpy.typing import NDArray

from ..data.users import Users
from ..guarantee.budget import Cost, PrivacyPolicy
from ..guarantee.ledger import Entry, SqliteLedger
from ..guarantee.messages import HASH_END, NodeKeys, Query, Report
from ..questions import Question
from .deployed_node import MEMORY, NODE_ID, DeployedNode, contents, fails, terms_for
from .extreme_users import copied, crowd, halved, together, unlike
from .probe import Block, MakeApp, RecordedRandomness, entering, replaying
from .replies import Parts

_SINGLE = 6  # number of users who are asked for single reports
_TARGETS = (np.nan, np.inf, -1e9, 1e9, 5e-324, 1.7e308, 0.0)

#: Names of the checks on neighbouring nodes, see :class:`~.handler.Audit`.
_CHECKS = ("census", "reply's form", "who answers", "ledger", "isolation")


@dataclass(frozen=True)
class _Answers:
    """Replies of one node to the queries of a plan, their forms, and how they were randomised.

    ``draws`` are the shapes of all random draws, and ``values`` are the mechanism's inputs.
    """

    replies: list[Message]
    forms: list[Parts]
    draws: list[tuple[int, ...]]
    values: list[Block]


class _Rows(Question):
    """Question that every client must refuse."""

    stem = "rows"


class NeighbourPlan:
    """Plan of a comparison: the users of the nodes, and the queries.

    A few users are asked for single reports, and many for a sum. ``ordinary`` are all users of a
    node, and ``extreme`` are users who take the places of some of them.
    """

    def __init__(self, query: Query, copies: int, candidates: Sequence[Users]) -> None:
        single, many = min(_SINGLE, copies), 2 * copies + 2  # twice as many are added up
        self.size = single + many
        hashes = NodeKeys(NODE_ID, 0, self.size).hashes(query.salt)
        order = np.argsort(hashes).tolist()
        cut = int(hashes[order[single]])
        cohorts = [sorted(order[:single]), sorted(order[single:])]
        # Of each cohort: users whose data are changed, and users who can pay. Users whose budget is
        # spent already are poor.
        # The user in the middle would change its place if a client sorted users by their data.
        self.changed = [{cohort[0], cohort[(len(cohort) - 1) // 2]} for cohort in cohorts]
        self.poor = [cohort[-1] for cohort in cohorts if len(cohort) > 2]
        self.able = [[u for u in cohort if u not in self.poor] for cohort in cohorts]
        num_features = candidates[0].num_features
        self.ordinary = crowd(self.size, num_features)
        self.extreme = [*candidates, *unlike(num_features)]
        self.queries: list[Query | None] = [
            None,
            replace(query, low=0, high=cut),
            replace(query, low=cut, high=HASH_END, step=query.step + 1),
            replace(query, low=0, high=HASH_END, salt=query.salt ^ 1),  # no user can pay for it
            replace(query, low=0, high=HASH_END, question=_Rows()),
        ]


def neighbour_checks(
    query: Query, make_app: MakeApp, copies: int, candidates: Sequence[Users], seed: int
) -> dict[str, bool]:
    """Compare neighbouring nodes of a deployment, and return the checks by name.

    A check is True if it found nothing. The checks are those of :class:`~.handler.Audit` for
    neighbouring nodes, and ``isolation``. Each candidate takes the places of four users. A node
    sends single reports for up to ``copies`` users.
    """
    plan, found = NeighbourPlan(query, copies, candidates), dict.fromkeys(_CHECKS, True)
    cost = Cost.of(query.randomizer)
    paid = (cost.epsilon, cost.delta)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "ledger.db"
        SqliteLedger.create(path)
        config = terms_for(query.randomizer, path)
        policy = PrivacyPolicy.from_node_config(config)
        assert policy is not None

        def node_of(people: Users, number: int = 0) -> DeployedNode:
            users = replace(people, ids=_ids(number, plan.size))
            return DeployedNode(make_app, lambda _: users, config)

        def answers(number: int, people: Sequence[Users]) -> _Answers:
            node = node_of(together(people), number)
            ids = _ids(number, plan.size)
            poor = Entry(f"spent by {number}")
            assert node.ledger.reserve(poor, ids[plan.poor], Cost(*paid), policy).users.all()
            spent = dict.fromkeys(ids[plan.poor].tolist(), paid)
            replies, forms = [], []
            with replaying(RecordedRandomness(seed)) as tape, entering(query.randomizer) as noted:
                for asked in plan.queries:
                    reply, form = node.ask(asked)
                    replies.append(reply)
                    forms.append(form)
                    if len(replies) in (2, 3):  # replies to queries for which some users can pay
                        able = ids[plan.able[len(replies) - 2]]
                        spent |= dict.fromkeys(able.tolist(), paid)
                    found["ledger"] &= _on_ledger(node.ledger, f"{number:03d}-") == spent
            # A newly started client must answer the same query with the reply from the ledger.
            with replaying(RecordedRandomness(seed + 1)) as other:
                again = contents(node.ask(plan.queries[1])[0])
            found["ledger"] &= again == contents(replies[1]) and not other.draws
            found["ledger"] &= _on_ledger(node.ledger, f"{number:03d}-") == spent
            told = _Answers(replies, forms, tape.draws, noted)
            _check_answered(told, plan, found)
            return told

        before = answers(0, plan.ordinary)
        has_public = "public" in _arrays(before.replies[1])
        for number, people in enumerate(_neighbouring(plan, has_public), 1):
            _check_same(before, answers(number, people), plan, query, found)
        # Nodes with the same accounts as the first node, whose users have spent the same.
        census = node_of(together(plan.ordinary)).ask(None)[1]
        for user in plan.extreme:
            found["census"] &= node_of(copied(user, plan.size)).ask(None)[1] == census
        failing = [DeployedNode(make_app, load, config) for load in (fails, _fails_differently)]
        for asked in plan.queries:
            one, other_form = (node.ask(asked)[1] for node in failing)
            found["reply's form"] &= one == other_form
    return found


def _neighbouring(plan: NeighbourPlan, has_public: bool) -> list[list[Users]]:
    """Return lists of the node's users; each differs from ``ordinary`` in the plan's users.

    If features are public, these users' targets change only.
    """
    if has_public:
        others = [
            [replace(u, targets=np.full_like(u.targets, target)) for u in plan.ordinary]
            for target in _TARGETS
        ]
    else:
        others = [[user] * plan.size for user in plan.extreme]
    changed = set().union(*plan.changed)
    nodes = [
        [other[i] if i in changed else user for i, user in enumerate(plan.ordinary)]
        for other in others
    ]
    return nodes if has_public else [[halved(user) for user in plan.ordinary], *nodes]


def _check_answered(answers: _Answers, plan: NeighbourPlan, found: dict[str, bool]) -> None:
    """Check that exactly the users who can pay answer, and that sums add up their reports.

    The results are written into ``found``.
    """
    for number, able in enumerate(plan.able):
        arrays, asked = _arrays(answers.replies[1 + number]), plan.queries[1 + number]
        if "count" in arrays:
            found["who answers"] &= arrays["count"].tolist() == [len(able)]
        else:
            found["who answers"] &= "slots" in arrays and arrays["slots"].tolist() == able
        if "sum" in arrays and asked is not None and number < len(answers.values):
            *_, reports = answers.values[number]
            slots = np.array(able, np.int64)
            coins = NodeKeys(NODE_ID, 0, plan.size).coins(asked.salt, asked.step, slots)
            if len(reports) == len(coins):
                own = asked.randomizer.summarize(reports, coins)
                found["isolation"] &= np.array_equal(arrays["sum"], own.sum)
                found["isolation"] &= np.array_equal(arrays["sum_of_squares"], own.sum_of_squares)


def _check_same(
    before: _Answers, after: _Answers, plan: NeighbourPlan, query: Query, found: dict[str, bool]
) -> None:
    found["census"] &= before.forms[0] == after.forms[0]
    found["reply's form"] &= before.forms == after.forms and before.draws == after.draws
    found["isolation"] &= len(before.values) == len(after.values)
    blocks = zip(before.values, after.values, strict=False)
    for changed, able, block in zip(plan.changed, plan.able, blocks, strict=False):
        (one, about, _), (other, about_other, _) = block
        found["isolation"] &= about == about_other and one.shape == other.shape
        rows = ~np.isin(able, list(changed))
        if one.shape == other.shape and len(one) == len(able):
            found["isolation"] &= one[rows].tobytes() == other[rows].tobytes()
    for changed, first, second in zip(
        plan.changed, before.replies[1:3], after.replies[1:3], strict=True
    ):
        ours, theirs = _arrays(first), _arrays(second)
        if "reports" in ours and "reports" in theirs:
            rows = ~np.isin(ours["slots"], list(changed))
            same = ours["reports"].shape == theirs["reports"].shape
            found["isolation"] &= same and _bytes(ours, rows) == _bytes(theirs, rows)
        elif "sum" in ours and "sum" in theirs and np.isfinite(query.randomizer.bound):
            moved = np.abs(np.subtract(ours["sum"], theirs["sum"])).max()
            most = len(changed) * 2 * query.randomizer.bound
            found["isolation"] &= bool(moved <= most * (1 + 1e-6))
        if "public" in ours and "public" in theirs:
            found["isolation"] &= ours["public"].tobytes() == theirs["public"].tobytes()


def _bytes(arrays: dict[str, NDArray[np.generic]], rows: NDArray[np.bool_]) -> bytes:
    return arrays["reports"][rows].tobytes() if len(rows) == len(arrays["reports"]) else b"lost"


def _arrays(reply: Message) -> dict[str, NDArray[np.generic]]:
    if reply.has_error():
        return {}
    try:
        return dict(Report.from_record_dict(reply.content).arrays)
    except ValueError:  # the reply has no valid form, so the server cannot read it
        return {}


def _ids(number: int, size: int) -> NDArray[np.str_]:
    return np.array([f"{number:03d}-{i:04d}" for i in range(size)])


def _on_ledger(ledger: SqliteLedger, prefix: str) -> dict[str, tuple[float, float]]:
    return {
        name: (cost.epsilon, cost.delta)
        for name, cost in ledger.spent().items()
        if name.startswith(prefix)
    }


def _fails_differently(context: Context) -> Users:
    raise OSError(2, "no rows of patient-0002 after the first 17")
