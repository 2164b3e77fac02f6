"""Statistics: what a question asks about each user, computed for all users at once.

A statistic is a pure function of the users and of the question, registered by its class;
row i of its result depends on user i's rows alone. It may be wrong about
its own user without harm (the randomizer brings any value into its domain), but
never mix users: rows are reduced by operations whose result for one user does not
depend, to the last bit, on which other users are in the batch (see :mod:`..arithmetic.rows` and
:mod:`ldp_flower.randomizers.elementwise`). Every one sees float64 only (see :func:`compute`).
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import (
    Fourier,
    OfClasses,
    Projected,
    Question,
    Rotated,
    RotatedBins,
    Standardised,
    TransformedQuestion,
)
from ldp_flower.guarantee.users import Users
from ldp_flower.randomness import Words
from ldp_flower.validation import Floats

from .classes import CLASSES, with_labels
from .columns import COLUMNS, DRAWN_CELLS
from .means import MEANS
from .moments import LINES, MOMENTS
from .records import ITEMS, LABELLED_FEATURES, LABELS, RECORDS
from .registry import Blocks, Drawing, Statistics, Turns, Views
from .regression import EVALUATION, REGRESSION, TEACHERS
from .selection import SELECTION
from .transformed import fourier, projected, rotated, rotated_bins, standardised

#: All that can be computed of users.
STATISTICS: Statistics = {
    **REGRESSION,
    **SELECTION,
    **CLASSES,
    **MEANS,
    **MOMENTS,
    **RECORDS,
    **ITEMS,
    **COLUMNS,
    **LABELS,
    **TEACHERS,
    **EVALUATION,
    **LINES,
}
#: What is computed of users and of what they draw.
DRAWING: Drawing = DRAWN_CELLS
#: What of users leaves as it is; their operator must have declared it public.
PUBLIC: Blocks = LABELLED_FEATURES
_VIEWS: Views = {
    Standardised: standardised,
    OfClasses: with_labels,
    Projected: projected,
    Fourier: fourier,
}
_TURNS: Turns = {Rotated: rotated, RotatedBins: rotated_bins}


def knows(question: Question) -> bool:
    """Whether there is a statistic for a question."""
    if isinstance(question, TransformedQuestion):
        return type(question) in {*_VIEWS, *_TURNS} and knows(question.inner)
    return type(question) in STATISTICS or type(question) in DRAWING


@np.errstate(all="ignore")
def compute(users: Users, question: Question, words: Words | None = None) -> Floats:
    """Return each user's value, shape (users, width).

    By ``words``, one for each user, they draw what is drawn; without, all draw the same.

    Whatever the users hold, a statistic sees rows of float64 that lie one after the other,
    and so do its values: which type a node keeps is decided by all of its users, and
    rounding would make one depend on another. No number is an error on the way: that would be one
    user's, and cost all their values.
    """
    users, kind = _with_doubles(users), type(question)
    if kind in DRAWING:
        coins = np.zeros(len(users), np.uint64) if words is None else words
        return _doubles(DRAWING[kind](users, question, coins))
    if not isinstance(question, TransformedQuestion):
        return _doubles(STATISTICS[kind](users, question))
    if kind in _VIEWS:
        return compute(_VIEWS[kind](users, question), question.inner)
    return _doubles(_TURNS[kind](compute(users, question.inner), question))


@np.errstate(all="ignore")
def public_block(users: Users, question: Question) -> NDArray[np.float32]:
    """Return what of the users leaves as it is beside the reports, the users first."""
    return PUBLIC[type(question)](_with_doubles(users), question)


def _doubles(array: NDArray[Any]) -> Floats:
    return np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])


def _with_doubles(users: Users) -> Users:
    features, targets = _doubles(users.features), _doubles(users.targets)
    if features is users.features and targets is users.targets:
        return users
    return replace(users, features=features, targets=targets)


__all__ = ["PUBLIC", "STATISTICS", "compute", "knows", "public_block"]
