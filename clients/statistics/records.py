"""Statistics of single records: a record, its entries, its cell in a table, items and labels."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.randomness import KeyedRandom, Words, derive
from ldp_flower.validation import Floats

from ..arithmetic import dot, mean_over_rows
from .means import bounded_rows
from .registry import answers


def _first_rows(users: Users, question: q.Record | q.RecordCopies) -> tuple[Floats, Floats]:
    """Return each user's first row and target, bounded; NaN for a user without rows."""
    x = np.full((len(users), users.num_features), np.nan)
    y = np.full((len(users), 1), np.nan)
    held = users.num_rows > 0
    first = users.take(np.flatnonzero(held), 1)
    x[held], y[held, 0] = bounded_rows(first, question)
    return x, y


@answers(q.Record)
def record(users: Users, question: q.Record) -> Floats:
    """Return each user's first row and its target, both bounded, for :class:`Record`."""
    return np.concatenate(_first_rows(users, question), axis=1)


@answers(q.RecordCopies)
def record_copies(users: Users, question: q.RecordCopies) -> Floats:
    """Return y x and copies of x, for the first row of each user (:class:`RecordCopies`)."""
    x, y = _first_rows(users, question)
    return np.concatenate([y * x, *[x] * question.copies], axis=1)


def valid_items(
    users: Users, domain_size: int
) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Return the user, the item and the row number of each row that holds an item of the domain.

    Items are in the first column of the features.
    """
    items = users.features[:, 0]
    user = np.repeat(np.arange(len(users)), users.num_rows)
    valid = (items >= 0) & (items < float(domain_size)) & (items == np.floor(items))
    return user[valid], items[valid], np.flatnonzero(valid)


@answers(q.DrawnItems)
def drawn_items(users: Users, question: q.DrawnItems, by_frequency: bool = False) -> Floats:
    """Return up to ``set_size`` different items of each user, shape (users, set_size).

    The users' rows are already in the drawn order, and the first items are taken. With
    ``by_frequency``, the most frequent items are taken, as for :class:`FrequentItems`. The
    remaining entries of a user with fewer items hold different numbers from ``domain_size`` on.
    """
    size, end = question.set_size, float(question.domain_size)
    user, items, row = valid_items(users, question.domain_size)
    order = np.lexsort((row, items, user))
    user, items, row = user[order], items[order], row[order]
    differs = (np.diff(user, prepend=-1) != 0) | (np.diff(items, prepend=-1) != 0)
    starts = np.flatnonzero(differs)
    frequency = np.diff(starts, append=len(items))
    user, items, row = user[starts], items[starts], row[starts]
    # The sort keeps the order of the users.
    order = np.lexsort((row, -frequency, user) if by_frequency else (row, user))
    items = items[order]
    rank = np.arange(len(user)) - np.searchsorted(user, user)
    kept = rank < size
    user, items, rank = user[kept], items[kept], rank[kept]
    held = np.bincount(user, minlength=len(users))
    if strangers := int(((held == 0) & (users.num_rows > 0)).sum()):
        logging.getLogger(__name__).warning(
            "%d users hold no item of the domain, the integers from 0 to %d; strings need a "
            "domain_size of 2**num_bits, by default 2**40.",
            strangers,
            end - 1,
        )
    found = end + (np.arange(size) - held[:, None])
    found[user, rank] = items
    return np.asarray(found, np.float64)


@answers(q.FrequentItems)
def frequent_items(users: Users, question: q.FrequentItems) -> Floats:
    """Return each user's most frequent items, as :func:`drawn_items` does."""
    return drawn_items(users, question, by_frequency=True)


@answers(q.Labels, q.DrawnLabels)
def labels(users: Users, question: q.Labels) -> Floats:
    """Return clipped targets minus predictions of each user's first rows (:class:`Labels`)."""
    bound = question.label_bound
    found = np.zeros((len(users), question.labels_per_user))
    rows, places = _places(users, found.shape[1])
    targets = users.targets[rows]
    if question.theta is not None:
        targets = targets - dot(users.features[rows], question.theta)
    targets = targets - (question.offset or 0.0)
    found[places] = np.where(np.isfinite(targets), np.clip(targets, -bound, bound), 0.0)
    return found


def labelled_features(users: Users, question: q.Labels) -> NDArray[np.float32]:
    """Return the features of the labels' rows, shape (users, labels_per_user, num_features).

    Missing rows are zero. The result does not depend on targets.
    """
    shape = (len(users), question.labels_per_user, users.num_features)
    block = np.zeros(shape, np.float32)
    rows, places = _places(users, shape[1])
    block[places] = users.features[rows]
    return block


def _places(users: Users, most: int) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...]]:
    """Return the indices of each user's first ``most`` rows, and their positions.

    A position is the user, and the number of the row among the user's rows.
    """
    kept = np.arange(most) < users.num_rows[:, None]
    places = np.nonzero(kept)
    return users.offsets[places[0]] + places[1], places


_DRAWS = 1  # number that separates the draws of a statistic from the draw of the rows' order
_ROUND = 1e-6  # tolerance in steps for the rounding of standardised entries


def of_first_rows(users: Users, values: Floats) -> Floats:
    """Return the number of each user's first row, given one number per row; NaN without rows."""
    found = np.full(len(users), np.nan)
    held = users.num_rows > 0
    found[held] = values[users.offsets[:-1][held]]
    return found


def entries_of(users: Users, column: int) -> Floats:
    """Return the entries of a column, by its index; the target is the last column."""
    return users.targets if column == users.num_features else users.features[:, column]


@answers(q.SharesBelow)
def shares_below(users: Users, question: q.SharesBelow) -> Floats:
    """Return shares of rows at or below thresholds, scaled to [-1, 1] (:class:`SharesBelow`)."""
    entries = entries_of(users, int(question.coordinates[0]))
    shares = mean_over_rows(users, entries[:, None] <= question.thresholds)
    return 2 * np.where(users.num_rows[:, None] > 0, shares, question.levels) - 1


@answers(q.Cell)
def cell(users: Users, question: q.Cell) -> Floats:
    """Return the number of edges below the entry of each user's first row, for :class:`Cell`."""
    entry = of_first_rows(users, entries_of(users, int(question.coordinates[0])))[:, None]
    place = np.searchsorted(question.edges, entry, side="left")
    return np.where(np.isfinite(entry), place, len(question.edges) + 1).astype(np.float64)


@answers(q.Grain)
def grain(users: Users, question: q.Grain) -> Floats:
    """Return the index of the coarsest step that divides the first entry (:class:`Grain`)."""
    entry = of_first_rows(users, entries_of(users, int(question.coordinates[0])))[:, None]
    return steps_of(entry, question)


def steps_of(entry: Floats, question: q.Grain | q.GrainShares) -> Floats:
    """Return the index of the coarsest step of which each entry is a multiple.

    The index is ``num_steps`` for an entry that is a multiple of no step, and ``num_steps + 1`` for
    a missing entry.
    """
    found = np.full(entry.shape, float(question.num_steps))
    for place in reversed(range(question.num_steps)):
        tens, halves = divmod(place, 2)
        multiple = (entry - question.origin) / (question.step / (10.0**tens * (1 + halves)))
        found[np.abs(multiple - np.rint(multiple)) <= _ROUND] = place
    found[~np.isfinite(entry)] = question.num_steps + 1
    return found


def rows_codes(users: Users, question: q.Cells) -> Floats:
    """Return, for each row, the index of its cell in the table of all dimensions but the levels.

    If the question rounds a number to a random level, the caller adds that level.
    """
    codes = np.zeros(len(users.targets))
    blocks = question.blocks(users.num_features)
    for block, size in zip(blocks, question.sizes.tolist(), strict=False):
        one = entries_of(users, block[0])
        place = one if len(block) == 1 else np.argmax(users.features[:, block], axis=1)
        codes = codes * size + np.clip(place, 0, size - 1)
    for block, edges in zip(blocks[len(question.sizes) :], question.cuts, strict=False):
        places = np.searchsorted(edges, entries_of(users, block[0]), side="left")
        codes = codes * (len(edges) + 1) + places
    return codes


def _cells_and_positions(users: Users, question: q.TableCell) -> tuple[Floats, Floats]:
    """Return the index of each user's cell without the level, and a position among the levels.

    The position is that of the user's number: a real number from 0 to ``levels - 1``, before it is
    rounded to a level. It is 0 if the question has no levels. A user without rows has NaN as index.
    """
    blocks, codes = question.blocks(users.num_features), rows_codes(users, question)
    first = of_first_rows(users, codes)
    if question.levels is None or question.low is None or question.high is None:
        return first, np.zeros(len(users))
    entries = entries_of(users, blocks[-1][0])
    if question.one_row:
        number = of_first_rows(users, entries)
    else:
        same = (codes == np.repeat(first, users.num_rows)).astype(np.float64)
        pair = np.column_stack([np.where(same > 0, entries, 0.0), same])
        total, count = mean_over_rows(users, pair).T
        number = total / count
    share = np.clip((number - question.low) / (question.high - question.low), 0, 1)
    return first, share * (question.levels - 1)


@answers(q.TableCell, draws=True)
def table_cell(users: Users, question: q.TableCell, words: Words) -> Floats:
    """Return each first row's cell, with a level drawn at random, for :class:`TableCell`."""
    draws = KeyedRandom(derive(words, _DRAWS)).uniforms((len(users), 2))
    found, place = _cells_and_positions(users, question)
    if question.levels is not None:
        level = np.floor(place)
        found = found * question.levels + level + (draws[:, 0] < place - level)
    cells: Floats = np.full(len(users), float(question.num_cells))
    if question.instead is not None:
        ends = np.cumsum(question.instead)
        cells = np.searchsorted(ends[:-1] / ends[-1], draws[:, 1], side="right").astype(np.float64)
    return np.where(np.isfinite(found), found, cells)[:, None]


@answers(q.LevelRounding, draws=True)
def level_rounding(users: Users, question: q.LevelRounding, words: Words) -> Floats:
    """Return the scaled variance of a random rounding to a level (:class:`LevelRounding`)."""
    first, place = _cells_and_positions(users, question)
    between = place - np.floor(place)
    return np.where(np.isfinite(first), 4 * between * (1 - between) - 0.5, np.nan)[:, None]
