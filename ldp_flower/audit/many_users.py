"""Attack a node with more users than a client handles at a time.

A client that is right for few users may give later users the noise of earlier ones, or order
users by their data once there are many.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..guarantee.users import Users
from ..randomizers import RecordMechanism
from ..randomness import KeyedRandom, derive
from .extreme_users import crowd, nobody, together
from .independence import one_coin
from .interception import RecordedRandomness, replaced, replaying
from .probe import Client

_AT_ONCE = 1024  # users that a client takes at a time
_USERS = 2 * _AT_ONCE + 300
_SILOS = 24  # are answered for one by one
_KINDS = 60  # of ordinary users
_HALVES = 4  # of the users: two of them are in the same halves once in 16 times


@dataclass
class ManyUsers:
    """What a node of many users has shown."""

    independent: bool = True  # no two of them share noise
    isolated: bool = True  # some users' data change neither others' reports nor the order of users


def many_users(client: Client, num_features: int, seed: int) -> ManyUsers:
    """Ask a node of many users, with noise from a tape.

    The noise of one half of the users is drawn again, then that of the other half: the reports
    of the others must stay the same, and of the former, in every thousand, some must change.
    Then every third user's rows are taken away: the others' reports must stay where they are.
    A node that fails keeps none of this.
    """
    try:
        return _tried(client, num_features, seed)
    except RuntimeError:  # an answer is missing
        return ManyUsers(independent=False, isolated=False)


def _tried(client: Client, num_features: int, seed: int) -> ManyUsers:
    silos = isinstance(client.query.randomizer, RecordMechanism)
    users, found = np.arange(_SILOS if silos else _USERS), ManyUsers()
    ordinary, nothing = crowd(_KINDS, num_features), nobody(num_features)
    kinds = together([*ordinary, nothing, nothing.take(np.zeros(1, np.int64), max_rows=0)])
    empty = kinds.take(np.full(len(users), _KINDS))
    before, _ = _asked(client, empty, RecordedRandomness(seed))
    starts = np.arange(0, len(users), _AT_ONCE)
    for half in KeyedRandom(derive(seed, 2, users)).words((len(users), _HALVES)).T % 2 > 0:
        for redrawn in (half, ~half):
            after, _ = _asked(client, empty, RecordedRandomness(seed, redrawn))
            changed = _changed(before, after, len(users))
            found.independent &= bool(np.logical_or.reduceat(changed & redrawn, starts).all())
            found.independent &= not changed[~redrawn].any()
    poor = users % 3 == 1
    before, slots = _asked(client, kinds.take(users % _KINDS), RecordedRandomness(seed))
    others = kinds.take(np.where(poor, _KINDS + 1, users % _KINDS))
    after, same_slots = _asked(client, others, RecordedRandomness(seed))
    found.isolated = slots == same_slots and not _changed(before, after, len(users))[~poor].any()
    return found


def _asked(
    client: Client, people: Users, tape: RecordedRandomness
) -> tuple[NDArray[np.uint8], bytes]:
    """Return the bytes of all users' reports, in the order in which they are made, and slots."""
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
    """Return whose reports differ; everybody's, if there is not one for each."""
    if not len(before) == len(after) == users:
        return np.ones(users, bool)
    return np.asarray((before != after).any(axis=1))
