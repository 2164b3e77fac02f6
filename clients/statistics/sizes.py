"""Statistics of sizes: octaves, mean squares, mean squared residuals, and clipped values."""

import numpy as np

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.questions.links import LINKS
from ldp_flower.questions.sizes import OCTAVES, SMALLEST_OCTAVE
from ldp_flower.randomizers.elementwise import directions, log2, row_norms
from ldp_flower.randomness import Words
from ldp_flower.validation import Floats

from ..arithmetic import columns_at, dot, mean_over_rows, rms_over_rows
from .means import mean
from .registry import answers
from .regression import ridge_shift


def _octaves(sizes: Floats, words: Words) -> Floats:
    """Return the octave of each size, shape (users, 1): its logarithm to base 2, as an integer.

    The user's random word decides if the logarithm is rounded up or down. Octaves are counted from
    ``SMALLEST_OCTAVE``. A size of 0 has octave -1.
    """
    coins = (words >> np.uint64(11)) * 2.0**-53
    found = np.floor(log2(sizes) - SMALLEST_OCTAVE + coins)
    return np.where(sizes > 0, np.clip(found, 0, OCTAVES - 1), -1.0)[:, None]


@answers(q.ResidualOctave, draws=True)
def residual_octave(users: Users, question: q.ResidualOctave, words: Words) -> Floats:
    """Return the octave of each user's root mean squared residual (:class:`ResidualOctave`)."""
    predictors = question.offset + dot(users.features, question.theta)
    residuals = LINKS[question.link].residual(predictors, users.targets)
    return _octaves(rms_over_rows(users, residuals), words)


@answers(q.ScoreOctave, draws=True)
def score_octave(users: Users, question: q.ScoreOctave, words: Words) -> Floats:
    """Return the octave of the root mean square of ``x @ direction`` (:class:`ScoreOctave`)."""
    scores = question.offset + dot(users.features, question.direction)
    return _octaves(rms_over_rows(users, scores), words)


@answers(q.DistanceOctave, draws=True)
def distance_octave(users: Users, question: q.DistanceOctave, words: Words) -> Floats:
    """Return the octave of each mean row's distance from ``centre`` (:class:`DistanceOctave`)."""
    return _octaves(row_norms(mean(users, q.Mean(question.centre))), words)


@answers(q.RidgeShiftOctave, draws=True)
def ridge_shift_octave(users: Users, question: q.RidgeShiftOctave, words: Words) -> Floats:
    """Return the octave of the length of :func:`ridge_shift` (:class:`RidgeShiftOctave`)."""
    return _octaves(row_norms(ridge_shift(users, question)), words)


@answers(q.Squares)
def squares(users: Users, question: q.Squares) -> Floats:
    """Return mean squared distances from ``centre``, one per column, for :class:`Squares`."""
    distances = columns_at(users.features - question.centre, question.coordinates)
    return mean_over_rows(users, np.square(distances))


@answers(q.ResidualSquares)
def residual_squares(users: Users, question: q.ResidualSquares) -> Floats:
    """Return mean capped squares of two models' residuals, for :class:`ResidualSquares`."""
    link = LINKS[question.link]
    predictors = question.offset + dot(users.features, question.theta)
    model = link.residual(predictors, users.targets) / question.bound
    constant = link.residual(np.full_like(predictors, question.constant), users.targets)
    both = np.column_stack([model, constant / question.constant_bound])
    squares = np.minimum(np.square(both), 1.0) - 0.5
    return mean_over_rows(users, squares)


def shortened(values: Floats, question: q.Shortened | q.NetworkGradient) -> Floats:
    """Return vectors clipped to a question's radius, with one more number that tells of clipping.

    The number is ``question.told``, or minus that if the vector was clipped. A vector with a number
    that is not finite, as of a user without a target, counts as 0 and was not clipped. Otherwise
    servers would take such users for clipped ones and raise the radius.
    """
    known = np.isfinite(values).all(axis=1, keepdims=True)
    unit, lengths = directions(np.where(known, values, 0.0))
    kept = unit * np.minimum(lengths, question.radius)[:, None]
    told = np.where(lengths <= question.radius, question.told, -question.told)
    return np.concatenate([kept, told[:, None]], axis=1)


def octave_shares(values: Floats, question: q.OctaveShares) -> Floats:
    """Return 1 at each user's octave and 0 at all others, for :class:`OctaveShares`."""
    return np.asarray(values == np.arange(OCTAVES), np.float64)
