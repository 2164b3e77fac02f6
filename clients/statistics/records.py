"""Records themselves: one row of each user, for protocols that add noise to data."""

import numpy as np

from ldp_flower.guarantee.questions import Record, RecordCopies
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats

from .moments import bounded_rows
from .registry import Statistics


def _first_rows(users: Users, question: Record | RecordCopies) -> tuple[Floats, Floats]:
    """Return each user's first row and target, bounded; NaN for a user without rows."""
    x = np.full((len(users), users.num_features), np.nan)
    y = np.full((len(users), 1), np.nan)
    held = users.num_rows > 0
    first = users.take(np.flatnonzero(held), 1)
    x[held], y[held, 0] = bounded_rows(first, question)
    return x, y


def record(users: Users, question: Record) -> Floats:
    """Compute :class:`Record`."""
    return np.concatenate(_first_rows(users, question), axis=1)


def record_copies(users: Users, question: RecordCopies) -> Floats:
    """Compute :class:`RecordCopies`."""
    x, y = _first_rows(users, question)
    return np.concatenate([y * x, *[x] * question.copies], axis=1)


RECORDS: Statistics = {Record: record, RecordCopies: record_copies}
