"""Checks that the noise of users, questions and runs is independent, and comes from the system.

The structure is tested with a tape of random bytes: if the bytes of some users are redrawn, the
reports of all other users must stay the same, and every user's report must depend on that user's
bytes. The law is tested as well: two users with the same data and coin must agree as often on one
node as on two nodes.

A client that is correct for few users may give later users the noise of earlier ones, or may sort
users by their data when there are many. Therefore, a node with more users than a client handles at
a time is attacked as well.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.users import Users
from ..guarantee.messages import NodeKeys, Query, Slots
from ..randomizers import RecordMechanism
from ..randomness import KeyedRandom, SystemRandom, Words, derive
from .distinguish import log_ratio
from .extreme_users import copied, crowd, together, without_data
from .probe import Client, RecordedRandomness, replaced, replaying

#: Probability that the test of the law finds something in a correct client.
FALSE_ALARM = 1e-6

_USERS = 8  # number of users of a node that sends single reports
_TAPES = 5  # number of tapes for each kind of users
_NODES = 48  # number of nodes whose reports are compared

_AT_ONCE = 1024  # number of users that a client handles at a time
_MANY_USERS = 2 * _AT_ONCE + 300
_SILOS = 24  # number of silos, which a client handles one by one
_KINDS = 60  # number of different ordinary users
_HALVES = 4  # number of random halves; two users are in the same halves with probability 1 / 16


def independent(client: Client, copies: int, user: Users, seed: int) -> bool:
    """Return True if no two reports of a client share noise, and if all noise is the system's.

    A node with up to ``copies`` users sends single reports. Copies of ``user`` are tested as well.
    """
    users, num_features = min(_USERS, copies), user.num_features
    # Without data, reports are spread most widely, and hence depend most on their bytes.
    same = [copied(without_data(num_features), users), copied(user, users)]
    return (
        _distinct_words()
        and all(
            _own_bytes(client, people, seed + i)
            for i, people in enumerate([*same, together(crowd(users, num_features))])
        )
        and _agree_by_chance(client, same[0], seed)
    )


def _distinct_words() -> bool:
    """Return True if 4,096 random words of the system all differ.

    Two of them are equal by chance with probability 2**-41.
    """
    words = np.concatenate([SystemRandom().words((64, 16)) for _ in range(4)])
    return len(np.unique(words)) == words.size


def _own_bytes(client: Client, people: Users, seed: int) -> bool:
    """Return True if each report uses only the random bytes of its own user and question."""
    chosen = KeyedRandom(derive(seed, np.arange(_TAPES))).words((_TAPES, len(people))) % 2 > 0
    queries = _questions(client.query)
    for number, some in enumerate(chosen):
        tape = RecordedRandomness(int(derive(seed, number)[0]))
        before, ends = _asked(client, people, queries, tape)
        after, _ = _asked(client, people, queries, replace(tape, redrawn=some, draws=[]))
        if before is None or after is None:
            return False
        same = np.array(before, object) == np.array(after, object)
        if not same[:, ~some].all():
            return False
        which = number % len(queries)
        first, last = [0, *ends][which], ends[which]
        alone = RecordedRandomness(tape.seed, np.ones(len(people), bool), first, last)
        later, _ = _asked(client, people, queries, alone)
        others = [i for i in range(len(queries)) if i != which]
        if later is None or [later[i] for i in others] != [before[i] for i in others]:
            return False
    return True


def _questions(query: Query) -> list[Query]:
    """Return the query, a query of another run, and the next query of the same run.

    For silos, the last query is of a third run instead, since a silo's plan may be used up in the
    same run, and other runs have separate plans.
    """
    if isinstance(query.randomizer, RecordMechanism):
        return [replace(query, salt=query.salt ^ other) for other in range(3)]
    return [query, replace(query, salt=query.salt ^ 1), replace(query, step=query.step + 1)]


def _asked(
    client: Client, people: Users, queries: Sequence[Query], tape: RecordedRandomness
) -> tuple[list[list[bytes]] | None, list[int]]:
    """Return the reports of every question, with noise from ``tape``, and the numbers of draws.

    The reports are None if any report is missing. There is one number for each question: the draws
    from the tape up to its end.
    """
    found: list[list[bytes]] = []
    ends: list[int] = []
    with replaying(tape), one_coin():
        for (answer,) in client.answers_in_turn(people, queries):
            slots, reports = client.single_reports(answer)
            if slots.tolist() != list(range(len(people))):
                return None, ends
            found.append([report.tobytes() for report in reports])
            ends.append(len(tape.draws))
    return found, ends


def _agree_by_chance(client: Client, people: Users, seed: int) -> bool:
    """Return True if reports about the same data are equal as often as by chance.

    Any two reports of a node, of different users or questions, are compared with reports of
    different nodes. In addition, no user's report may be the same on all nodes. A report that is
    spread evenly over two answers is the same on all nodes with probability 2**-47.
    """
    queries = _questions(client.query)
    reports = np.empty((_NODES, len(queries) * len(people)), object)
    for number in range(_NODES):
        tape = RecordedRandomness(int(derive(seed, 1, number)[0]))
        found, _ = _asked(client, people, queries, tape)
        if found is None:
            return False
        reports[number] = [report for question in found for report in question]
    if (reports == reports[0]).all(axis=0).any():
        return False
    pairs = np.array(np.triu_indices(reports.shape[1], 1))
    here = (reports[:, pairs[0]] == reports[:, pairs[1]]).sum(axis=0)
    apart = reports[::2] == reports[1::2]
    alpha = FALSE_ALARM / (2 * pairs.shape[1])
    counts = (here, _NODES, apart.sum(), apart.size)
    more, less = log_ratio(*counts, 0.0, alpha), log_ratio(*counts[2:], *counts[:2], 0.0, alpha)
    return bool((more <= 0).all() and (less <= 0).all())


def one_coin() -> AbstractContextManager[None]:
    """Give all users the same public coin, since no guarantee depends on coins."""

    def coins(keys: NodeKeys, salt: int, step: int, slots: Slots) -> Words:
        return np.repeat(derive(5), len(slots))

    return replaced(NodeKeys, coins=coins)


# ------------------------------------------------------------------------ many users


def many_users(client: Client, num_features: int, seed: int) -> dict[str, bool]:
    """Query a node with many users, with noise from a tape, and return the checks by name.

    The noise of one half of the users is redrawn, then the noise of the other half. The reports of
    users with unchanged noise must stay the same. Among the reports of users with new noise, some
    must change in every block of 1,024 users. Then the rows of every third user are removed; the
    reports of the other users must not change or move. If the node fails, both checks are False.
    """
    try:
        return _tried_many(client, num_features, seed)
    except RuntimeError:  # an answer is missing
        return {"own noise": False, "isolation": False}


def _tried_many(client: Client, num_features: int, seed: int) -> dict[str, bool]:
    silos = isinstance(client.query.randomizer, RecordMechanism)
    users, own_noise = np.arange(_SILOS if silos else _MANY_USERS), True
    ordinary, nothing = crowd(_KINDS, num_features), without_data(num_features)
    kinds = together([*ordinary, nothing, nothing.take(np.zeros(1, np.int64), max_rows=0)])
    empty = kinds.take(np.full(len(users), _KINDS))
    before, _ = _reports_of_all(client, empty, RecordedRandomness(seed))
    starts = np.arange(0, len(users), _AT_ONCE)
    for half in KeyedRandom(derive(seed, 2, users)).words((len(users), _HALVES)).T % 2 > 0:
        for redrawn in (half, ~half):
            after, _ = _reports_of_all(client, empty, RecordedRandomness(seed, redrawn))
            changed = _changed(before, after, len(users))
            own_noise &= bool(np.logical_or.reduceat(changed & redrawn, starts).all())
            own_noise &= not changed[~redrawn].any()
    poor = users % 3 == 1
    before, slots = _reports_of_all(client, kinds.take(users % _KINDS), RecordedRandomness(seed))
    others = kinds.take(np.where(poor, _KINDS + 1, users % _KINDS))
    after, same_slots = _reports_of_all(client, others, RecordedRandomness(seed))
    isolated = slots == same_slots and not _changed(before, after, len(users))[~poor].any()
    return {"own noise": own_noise, "isolation": isolated}


def _reports_of_all(
    client: Client, people: Users, tape: RecordedRandomness
) -> tuple[NDArray[np.uint8], bytes]:
    """Return the reports of all users as rows of bytes, and the bytes of their slots.

    The rows are in the order in which the reports were made.
    """
    kind: Any = type(client.query.randomizer)
    name = "report" if issubclass(kind, RecordMechanism) else "randomize"
    honest, made = getattr(kind, name), []

    def noting(*given: Any, **named: Any) -> Any:
        reports = honest(*given, **named)
        tape.behind += len(reports)
        made.append(np.ascontiguousarray(reports).reshape(len(reports), -1).view(np.uint8))
        return reports

    with replaying(tape), one_coin(), replaced(kind, **{name: noting}):
        (answer,) = client.answers(people, [None])
    counted = answer.arrays.get("slots", answer.arrays.get("count", np.zeros(0)))
    return np.concatenate(made), counted.tobytes()


def _changed(before: NDArray[np.uint8], after: NDArray[np.uint8], users: int) -> NDArray[np.bool_]:
    """Return a mask of the users whose reports differ; all users if any report is missing."""
    if not len(before) == len(after) == users:
        return np.ones(users, bool)
    return np.asarray((before != after).any(axis=1))
