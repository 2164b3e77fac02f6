"""Checks of an operator's settings: rehearsals without data, row limits, and times of replies."""

import sqlite3
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from flwr.app import Context, Message

from ..data.users import Users
from ..guarantee.messages import Query
from .deployed_node import MEMORY, DeployedNode, contents, fails
from .extreme_users import single, together
from .neighbours import NeighbourPlan
from .probe import MakeApp, RecordedRandomness, replaced, replaying
from .replies import Parts

_ROWS = 2  # number of rows of a user that the policy allows
_REPLY_AFTER = 2.0  # seconds of a simulated clock; nothing really sleeps for so long
_LOCKED = 0.05  # seconds for which another writer locks the ledger

#: Form and contents of a reply, and the shapes of the draws for it.
_Told = tuple[Parts, bytes, list[tuple[int, ...]]]


def settings_checks(
    query: Query, make_app: MakeApp, copies: int, candidates: Sequence[Users], seed: int
) -> dict[str, bool]:
    """Query deployed nodes whose operators use optional settings, and return the checks by name.

    A check is True if it found nothing.
    """
    plan = NeighbourPlan(query, copies, candidates)
    ordinary, queries = plan.ordinary, plan.queries
    others = [plan.extreme[i % len(plan.extreme)] for i in range(plan.size)]

    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:

        def node(name: str, people: Users, **config: str | float | bool) -> DeployedNode:
            path = Path(folder) / name
            return DeployedNode.started(make_app, people, query.randomizer, path, **config)

        one, other = (
            node(f"rehearsal {number}", together(people), rehearsal=True)
            for number, people in enumerate([ordinary, others])
        )
        alike = _answers(one, queries, seed) == _answers(other, queries, seed)
        free = not one.ledger.spent() and not other.ledger.spent()

        few, more = _with_further_rows(ordinary, others)
        answers = _answers(node("few", few), queries, seed)
        limited = _answers(node("more", more, **{"max-rows": _ROWS}), queries, seed)

        slow = node("slow", together(ordinary), **{"reply-after": _REPLY_AFTER})
        late = [_late(slow, asked) for asked in [*queries, queries[1]]]
        late += [_late(replace(slow, load_users=fails), asked) for asked in queries[:2]]
        late.append(_after_others(node("busy", together(ordinary)), queries[1]))
    return {"waiting": all(late), "rehearsal": alike and free, "row limit": answers == limited}


def _answers(node: DeployedNode, queries: Sequence[Query | None], seed: int) -> list[_Told]:
    answers = []
    for asked in queries:
        with replaying(RecordedRandomness(seed)) as tape:
            reply, form = node.ask(asked)
        answers.append((form, contents(reply), tape.draws))
    return answers


def _with_further_rows(ordinary: Sequence[Users], others: Sequence[Users]) -> tuple[Users, Users]:
    """Return two nodes' users: each with few rows, and the same with further rows behind.

    A policy of ``_ROWS`` rows must make both answer alike.
    """
    first = np.zeros(1, np.int64)
    some = [together([a, a]) for a in ordinary]
    few = [single(a.features, a.targets).take(first, _ROWS) for a in some]
    both = [together(pair) for pair in zip(few, others, strict=True)]
    more = [single(a.features, a.targets) for a in both]
    return together(few), together(more)


def _late(node: DeployedNode, query: Query | None) -> bool:
    """Return True if a reply waits for the operator's ``reply-after``, and is dated after it."""
    honest, slept, woken = time.monotonic, [0.0], [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        woken.append(time.time())

    def monotonic() -> float:
        return honest() + sum(slept)

    started = honest()
    with replaced(time, sleep=sleep, monotonic=monotonic):
        reply: Message = node.ask(query)[0]
        took = time.monotonic() - started
    return took >= _REPLY_AFTER and reply.metadata.created_at >= woken[-1]


def _after_others(node: DeployedNode, query: Query | None) -> bool:
    """Return True if a reply waits while another process, started at loading, locks the ledger."""
    held, released = threading.Event(), threading.Event()

    def load(context: Context) -> Users:
        threading.Thread(target=hold).start()
        held.wait()
        return node.load_users(context)

    def hold() -> None:
        with closing(sqlite3.connect(str(node.node_config["ledger-path"]))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            held.set()
            time.sleep(_LOCKED)
            released.set()
            connection.rollback()

    reply, _ = replace(node, load_users=load).ask(query)
    in_time = released.is_set()
    released.wait()
    return in_time and not reply.has_error()
