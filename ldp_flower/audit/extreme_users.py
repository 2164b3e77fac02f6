"""Worst-case users for the audit: maximally different users, invalid users, and copies."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.users import Users
from ..guarantee.messages import Query
from ..questions import DrawnItems
from ..randomizers import RecordMechanism
from ..randomness import KeyedRandom, derive
from ..validation import Count, check_integer, plain_arguments

Numbers = NDArray[Any]


@plain_arguments
def extreme_users(num_features: Count) -> dict[str, Users]:
    """Return single users by name, with data that differ as much as possible."""
    ones, alternating = np.ones(num_features), 1.0 - 2 * (np.arange(num_features) % 2)
    rows = {
        "ones": (ones, 1e9),
        "ones, minus": (ones, -1e9),
        "alternating": (alternating, 1e9),
        "alternating, minus": (alternating, -1e9),
        "huge features": (1e9 * ones, 0.0),
        "zeros": (0 * ones, 0.0),
        "NaN": (np.nan * ones, np.nan),
        "infinite": (np.inf * alternating, -np.inf),
    }
    users = {name: Users.from_rows(x[None], [y]) for name, (x, y) in rows.items()}
    users["20 rows"] = single(np.ones((20, num_features)), np.full(20, 1e9))
    users["no rows"] = users["ones"].take(np.zeros(1, np.int64), max_rows=0)
    return users


@plain_arguments
def extreme_holders(domain_size: Count) -> dict[str, Users]:
    """Return single users by name, with maximally different items and with invalid items."""
    items = {
        "first item": [0.0],
        "last item": [domain_size - 1.0],
        "both, and more rows": [0.0, domain_size - 1.0] * 10,
        "no rows": [],
        "NaN": [np.nan],
        "infinite": [np.inf],
        "negative": [-1.0],
        "fraction": [0.5],
        "outside": [1e300],
    }
    return {
        name: single(np.array(held)[:, None], np.zeros(len(held))) for name, held in items.items()
    }


@plain_arguments
def extreme_silos(num_features: int) -> dict[str, Users]:
    """Return silos of three records by name; two of the records are the same in all silos."""
    check_integer("num_features", num_features, 2)
    same = np.eye(num_features)[[0, 1]]
    return {
        name: single(np.concatenate([same, user.features]), np.append([1.0, 0.0], user.targets))
        for name, user in extreme_users(num_features).items()
        if len(user.features) == 1
    }


@plain_arguments
def extremes(query: Query, dim: int) -> dict[str, Users]:
    """Return the worst-case users by name, of the kind that the query asks for.

    They are users with rows, users with items, or silos.
    """
    if isinstance(query.randomizer, RecordMechanism):
        return extreme_silos(dim)
    return (extreme_holders if isinstance(query.question, DrawnItems) else extreme_users)(dim)


def unlike(num_features: int) -> list[Users]:
    """Return single users whose data might affect the reports of other users of the node."""
    halves = np.arange(num_features) % 2 == 0
    one_bad = np.where(np.arange(num_features) == num_features - 1, np.nan, 0.3)
    kinds = [
        (np.full((1, num_features), np.nan), [np.nan]),
        (one_bad[None], [1.0]),
        (np.full((1, num_features), 0.3), [np.nan]),
        (np.where(halves, np.inf, -np.inf)[None], [np.inf]),
        (np.full((1, num_features), 5e-324), [5e-324]),
        (np.where(halves, 1.7e308, 1.0)[None], [-1.7e308]),
        (np.full((1000, num_features), 0.7), [0.1] * 1000),
        (np.zeros((0, num_features)), []),
    ]
    return [single(x, np.array(y, float)) for x, y in kinds]


def crowd(size: int, num_features: int) -> list[Users]:
    """Return ``size`` ordinary single users of one to three rows; every second row has items.

    They share a node with the users that an attack changes. All numbers are exact in floats of four
    bytes.
    """
    # The numbers are ordinary, since a change might have no effect among extreme numbers.
    draws = KeyedRandom(derive(np.arange(3 * size, dtype=np.uint64)))
    features = draws.normals((3 * size, num_features))
    features[::2] = np.abs(np.round(features[::2]))
    targets = draws.normals((3 * size, 1))[:, 0]
    features, targets = (
        numbers.astype(np.float32).astype(float) for numbers in (features, targets)
    )
    return [
        single(features[3 * i : 3 * i + rows], targets[3 * i : 3 * i + rows])
        for i, rows in enumerate((np.arange(size) % 3 + 1).tolist())
    ]


def without_data(num_features: int) -> Users:
    """Return a single user of one row in which all values are missing.

    Reports about such a user depend on the noise only.
    """
    return single(np.full((1, num_features), np.nan), np.full(1, np.nan))


def single(features: Numbers, targets: Numbers) -> Users:
    """Return one user with these rows."""
    return Users(features, targets, np.array([0, len(features)]))


def copied(user: Users, copies: int) -> Users:
    """Return the users of one node that are all copies of a single user, without ids."""
    return replace(user, ids=None).take(np.zeros(copies, np.int64))


def together(people: Sequence[Users]) -> Users:
    """Return the users of one node, made of single users."""
    rows = np.concatenate([user.num_rows for user in people])
    return Users(
        np.concatenate([user.features for user in people]),
        np.concatenate([user.targets for user in people]),
        np.concatenate([[0], np.cumsum(rows)]),
    )


def one_changed(
    rows: Numbers, targets: Numbers, place: int, magnitudes: Sequence[float]
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield pairs of rows and targets, each with another version of the record at ``place``.

    The numbers of the changed record have the size of one of ``magnitudes``.
    """
    for magnitude in magnitudes:
        for sign in (1.0, -1.0):
            x, y = rows.copy(), targets.copy()
            x[place], y[place] = magnitude, sign * magnitude
            yield x, y


def halved(user: Users) -> Users:
    """Return the user with numbers of half as many bytes (float32).

    The form of a reply must not show the type of a user's numbers.
    """
    with np.errstate(all="ignore"):
        halves: Any = (user.features.astype(np.float32), user.targets.astype(np.float32))
    return replace(user, features=halves[0], targets=halves[1])
