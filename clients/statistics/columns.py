"""Statistics of columns: of the one row that was drawn, or of shares of all rows."""

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Category, Cell, Grain, SharesBelow
from ldp_flower.guarantee.users import Users

from ..arithmetic.rows import Floats
from .registry import Statistics

_ROUND = 1e-6  # of a step: what entries lose by being standardised


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


def shares_below(users: Users, question: SharesBelow) -> Floats:
    """Compute :class:`SharesBelow`."""
    column = int(question.coordinates[0])
    entries = users.targets if column == users.num_features else users.features[:, column]
    user = np.repeat(np.arange(len(users)), users.num_rows)
    found = np.empty((len(users), len(question.thresholds)))
    pairs = zip(question.thresholds, question.levels, strict=True)
    for place, (threshold, level) in enumerate(pairs):
        below = np.bincount(user[entries <= threshold], minlength=len(users))
        share = below / np.maximum(users.num_rows, 1)
        found[:, place] = 2 * np.where(users.num_rows > 0, share, level) - 1
    return found


def cell(users: Users, question: Cell) -> Floats:
    """Compute :class:`Cell`."""
    entry = first_entries(users, question.coordinates)
    place = np.searchsorted(question.edges, entry, side="left")
    return np.where(np.isfinite(entry), place, len(question.edges) + 1).astype(np.float64)


def grain(users: Users, question: Grain) -> Floats:
    """Compute :class:`Grain`."""
    entry = first_entries(users, question.coordinates)
    found = np.full(entry.shape, float(question.num_steps))
    for place in reversed(range(question.num_steps)):
        tens, halves = divmod(place, 2)
        multiple = (entry - question.origin) / (question.step / (10.0**tens * (1 + halves)))
        found[np.abs(multiple - np.rint(multiple)) <= _ROUND] = place
    found[~np.isfinite(entry)] = question.num_steps + 1
    return found


COLUMNS: Statistics = {
    Category: category,
    SharesBelow: shares_below,
    Cell: cell,
    Grain: grain,
}
