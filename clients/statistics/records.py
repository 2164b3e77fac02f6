"""Records themselves: one row of each user, for protocols that add noise to data."""

from collections.abc import Mapping

import numpy as np

from ldp_flower.messages import Arrays, MessageError
from ldp_flower.users import Users

from .moments import BOUNDS, MAX_WIDTH, bounded_rows
from .rows import Floats
from .statistic import Params, Statistic


def _first_rows(users: Users, params: Params) -> tuple[Floats, Floats]:
    """Return each user's first row and target, bounded; NaN for a user without rows."""
    x = np.full((len(users), users.num_features), np.nan)
    y = np.full((len(users), 1), np.nan)
    held = users.num_rows > 0
    first = users.take(np.flatnonzero(held), 1)
    x[held], y[held, 0] = bounded_rows(first, params)
    return x, y


def record(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's first row and its target, shape (users, num_features + 1).

    The row is over ``params["feature_bound"]``, shortened to length 1, the target over
    ``params["target_bound"]``, clipped to [-1, 1].
    """
    return np.concatenate(_first_rows(users, params), axis=1)


def record_copies(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return each user's first row times its target, then ``params["copies"]`` times the row.

    Bounded as by :func:`record`; shape (users, (copies + 1) num_features).
    """
    x, y = _first_rows(users, params)
    return np.concatenate([y * x, *[x] * int(params["copies"])], axis=1)


def _copied(num_features: int, arrays: Arrays, params: Params) -> int:
    copies = params["copies"]
    if copies != int(copies) or (copies + 1) * num_features > MAX_WIDTH:
        raise MessageError(f"Expected few copies, got {copies}.")
    return (int(copies) + 1) * num_features


RECORDS: Mapping[str, Statistic] = {
    "record": Statistic(
        record, lambda num_features, arrays, params: num_features + 1, params=BOUNDS
    ),
    "record_copies": Statistic(record_copies, _copied, params=BOUNDS | {"copies"}),
}
