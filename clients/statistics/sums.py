"""Values of all of a user's rows, for noise at the node: distributions, moments, ridge moves."""

import math
from collections.abc import Iterable

import numpy as np

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.questions.links import LINKS
from ldp_flower.questions.model_sums import EQUATIONS, HALF
from ldp_flower.questions.sums import BESIDE, FLAG, PRESENCE, SQUARE
from ldp_flower.randomizers.elementwise import directions, row_dots
from ldp_flower.validation import Floats

from ..arithmetic import columns_at, dot, mean_over_rows, ridge_coefficients, sum_over_rows
from .records import entries_of, rows_codes, steps_of, valid_items
from .registry import answers
from .regression import of_class


def shares_of_rows(users: Users, places: Floats, num_cells: int) -> Floats:
    """Return the share of each user's rows in each cell, shape (users, num_cells).

    ``places`` holds the cell of each row.
    """
    user = np.repeat(np.arange(len(users)), users.num_rows)
    known = np.clip(np.nan_to_num(places), 0, num_cells - 1)  # always a valid cell
    flat = user * num_cells + known.astype(np.int64)
    counts = np.bincount(flat, minlength=len(users) * num_cells).reshape(len(users), num_cells)
    return np.asarray(counts / np.maximum(users.num_rows, 1)[:, None])


@answers(q.CellShares)
def cell_shares(users: Users, question: q.CellShares) -> Floats:
    """Return the share of each user's rows in each cell of a table, for :class:`CellShares`."""
    return shares_of_rows(users, rows_codes(users, question), question.num_cells)


@answers(q.BinShares)
def bin_shares(users: Users, question: q.BinShares) -> Floats:
    """Return the share of each user's entries in each bin of a column, for :class:`BinShares`."""
    entries = entries_of(users, int(question.coordinates[0]))
    places = np.searchsorted(question.edges, entries, side="left")
    return shares_of_rows(users, places.astype(np.float64), len(question.edges) + 1)


@answers(q.GrainShares)
def grain_shares(users: Users, question: q.GrainShares) -> Floats:
    """Return shares of entries by the coarsest step that divides them (:class:`GrainShares`)."""
    entries = entries_of(users, int(question.coordinates[0]))
    shares = shares_of_rows(users, steps_of(entries, question), question.num_steps + 2)
    shares[users.num_rows == 0, -1] = 1.0
    return shares


@answers(q.ItemShares)
def item_shares(users: Users, question: q.ItemShares) -> Floats:
    """Return the share of each item among a user's rows with items, for :class:`ItemShares`."""
    user, items, _ = valid_items(users, question.domain_size)
    held = (len(users), question.domain_size)
    counts = np.zeros(held)
    np.add.at(counts, (user, items.astype(np.int64)), 1.0)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))


@answers(q.Moments)
def moments(users: Users, question: q.Moments) -> Floats:
    """Return shares, means and squares of means of a number, by cell, for :class:`Moments`."""
    cells, number = question.num_cells, int(question.coordinates[-1])
    codes = rows_codes(users, question)
    shares = shares_of_rows(users, codes, cells)
    scale = question.high - question.low
    unit = np.clip((entries_of(users, number) - question.low) / scale, 0.0, 1.0)
    own = np.where(codes[:, None] == np.arange(cells), unit[:, None], 0.0)
    means = mean_over_rows(users, own) / np.where(shares > 0, shares, 1.0)
    present = shares if cells > 1 else shares - 0.5
    parts = shares * (means - 0.5), shares * (means**2 - 0.5) * SQUARE, present * PRESENCE
    return np.concatenate(parts, axis=1)


def _numbers(users: Users, question: q.Numbers) -> Floats:
    """Return the rows' entries in the question's columns, shape (rows, columns).

    Each column is scaled from its bounds to [-1, 1], and clipped.
    """
    columns = [entries_of(users, int(place)) for place in question.coordinates]
    shares = (np.column_stack(columns) - question.lows) / (question.highs - question.lows)
    return np.asarray(2 * np.clip(shares, 0.0, 1.0) - 1)


@answers(q.Products)
def products(users: Users, question: q.Products) -> Floats:
    """Return means of scaled columns and of their products, weighted, for :class:`Products`."""
    numbers = _numbers(users, question)
    columns = numbers.shape[1]
    first, second = np.triu_indices(columns)
    lost = np.where(first == second, 1.0, math.sqrt(2)) / columns
    of_users, of_means = BESIDE
    rows = np.concatenate(
        [
            np.full((len(numbers), 1), of_users),
            numbers * (of_means / math.sqrt(columns)),
            numbers[:, first] * numbers[:, second] * lost,
        ],
        axis=1,
    )
    return mean_over_rows(users, rows)


@answers(q.CorrelationSpread)
def correlation_spread(users: Users, question: q.CorrelationSpread) -> Floats:
    """Return squares of each user's influence on correlations (:class:`CorrelationSpread`)."""
    z = (_numbers(users, question) - question.means) / question.scales
    first, second = np.triu_indices(z.shape[1], 1)
    squares = z[:, first] ** 2 + z[:, second] ** 2
    influence = z[:, first] * z[:, second] - question.correlations * squares / 2
    mean = mean_over_rows(users, influence)
    spread = np.minimum((mean / question.bound) ** 2, 1.0) - 0.5
    return np.asarray(spread * (users.num_rows > 0)[:, None])


@answers(q.MeanAndSquares)
def mean_and_squares(users: Users, question: q.MeanAndSquares) -> Floats:
    """Return the clipped mean row, its squares, and clip flags, for :class:`MeanAndSquares`."""
    unit, length = directions(mean_over_rows(users, users.features / question.bound))
    mean = unit * np.minimum(length, 1.0)[:, None]
    present = (users.num_rows > 0) * FLAG
    flags = present[:, None] * np.column_stack([length <= 1.0, length > 1.0])
    return np.concatenate([mean, SQUARE * mean**2, flags], axis=1)


@answers(q.RidgeMove)
def ridge_move(users: Users, question: q.RidgeMove) -> Floats:
    """Return ridge coefficients of the residuals of a model, for :class:`RidgeMove`."""
    rows = users.features - question.means
    if question.scales is not None:
        rows = rows / question.scales
    predicted = dot(rows, question.theta) + (question.offset or 0.0)
    left = -LINKS[question.link].score(predicted, users.targets)
    return _moves(users, columns_at(rows, question.coordinates), [left])


@answers(q.ClassMoves)
def class_moves(users: Users, question: q.ClassMoves) -> Floats:
    """Return ridge coefficients of the residuals of each class in turn, for :class:`ClassMoves`."""
    rows, score = users.features - question.means, LINKS["logistic"].score
    thetas = question.thetas.reshape(question.num_classes, -1)
    left = (
        -score(dot(rows, theta), of_class(users, place, 1.0, 0.0))
        for place, theta in enumerate(thetas)
    )
    return _moves(users, rows, left)


def _moves(users: Users, rows: Floats, left: Iterable[Floats]) -> Floats:
    """Return users' ridge coefficients of the residuals in ``left``, one after the other."""
    squares = row_dots(rows, rows)
    lengths = sum_over_rows(users, squares[:, None])[:, 0]
    # A ridge of t / k added to Z Z' is the same as one of t / k**2 added to Z Z' / k.
    ridge = lengths / np.maximum(users.num_rows, 1) ** 2
    ridge = np.where(ridge > 0, ridge, 1.0)
    return np.column_stack([ridge_coefficients(users, rows, each, ridge) for each in left])


@answers(q.ErrorPair)
def error_pair(users: Users, question: q.ErrorPair) -> Floats:
    """Return capped squared errors of a model and a constant, twice scaled (:class:`ErrorPair`)."""
    predicted = question.offset + dot(users.features, question.theta)
    errors = np.column_stack([users.targets - predicted, users.targets - question.centre])
    shares = np.square(errors / np.array([question.bound, question.centre_bound]))
    parts = np.minimum(shares, 1.0) - 0.5, HALF * (np.minimum(4 * shares, 1.0) - 0.5)
    return mean_over_rows(users, np.concatenate(parts, axis=1))


@answers(q.LossMoments)
def loss_moments(users: Users, question: q.LossMoments) -> Floats:
    """Return losses of a model and a constant, and products of both, for :class:`LossMoments`."""
    predicted = dot(users.features, question.theta)
    errors = np.column_stack([users.targets - predicted, users.targets - question.centre]) ** 2
    means = mean_over_rows(users, errors) / question.bound
    loss, baseline = np.minimum(means, 1.0).T
    squares = np.column_stack([loss**2, loss * baseline, baseline**2])
    return np.column_stack([loss - 0.5, baseline - 0.5, SQUARE * (squares - 0.5)])


@answers(q.NormalEquations)
def normal_equations(users: Users, question: q.NormalEquations) -> Floats:
    """Return weighted scores, matrices and squared scores, for :class:`NormalEquations`."""
    chosen = question.coordinates
    moved = (users.features[:, chosen] - question.means[chosen]) / question.scales[chosen]
    rows = np.concatenate([moved, np.ones((len(moved), 1))], axis=1)
    weights = question.row_bound / np.maximum(row_dots(rows, rows), question.row_bound)
    left = users.targets - question.offset - dot(users.features, question.theta)
    unit, lengths = directions(mean_over_rows(users, rows, weights * left) / question.score_bound)
    scores = unit * np.minimum(lengths, 1.0)[:, None]
    first, second = np.triu_indices(rows.shape[1])
    lost = np.where(first == second, 1.0, math.sqrt(2))
    matrices = mean_over_rows(users, rows[:, first] * rows[:, second], weights / question.row_bound)
    squares = scores[:, first] * scores[:, second]
    parts = zip((scores, lost * matrices, lost * squares), EQUATIONS, strict=True)
    return np.concatenate([weight * part for part, weight in parts], axis=1)
