"""Statistics of columns, of the one row that was drawn."""

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Category
from ldp_flower.guarantee.users import Users

from ..arithmetic.rows import Floats
from .registry import Statistics


def first_entries(users: Users, columns: NDArray[np.int64]) -> Floats:
    """Return what each user's first row has in some columns, the target the last of all.

    Shape (users, columns); NaN without rows.
    """
    found = np.full((len(users), len(columns)), np.nan)
    held = users.num_rows > 0
    rows = users.offsets[:-1][held]
    for place, column in enumerate(columns.tolist()):
        whole = users.targets if column == users.num_features else users.features[:, column]
        found[held, place] = whole[rows]
    return found


def category(users: Users, question: Category) -> Floats:
    """Compute :class:`Category`."""
    entries = first_entries(users, question.coordinates)
    told = np.isfinite(entries).all(axis=1)
    place = entries[:, 0] if entries.shape[1] == 1 else np.argmax(entries, axis=1)
    return np.where(told, place, question.num_categories)[:, None].astype(np.float64)


COLUMNS: Statistics = {Category: category}
