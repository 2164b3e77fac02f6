"""Statistics: the values of a question, computed for all users at once.

A statistic is a pure function of the users and of the question. It is registered by the question's
class. Row i of its result depends on user i's rows only. A wrong value for a user does no harm,
since the randomizer brings any value into its domain. But a statistic must never mix users. So it
reduces rows by operations whose result for one user does not depend, to the last bit, on the other
users in the batch (see :mod:`..arithmetic` and :mod:`ldp_flower.randomizers.elementwise`). All
statistics work on float64 (see :func:`compute`).

Tests check this bit by bit. A statistic of an app cannot be checked. So it is called for one user
at a time, with copies of the user's rows. It cannot write into the question, and an exception loses
this user's value only.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_flower import questions as q
from ldp_flower.data.users import Users
from ldp_flower.questions import Question, slots, wire_types_with
from ldp_flower.questions.public_maps import (
    fourier_features,
    frequencies,
    project,
    projection,
    rotate,
)
from ldp_flower.randomness import Words
from ldp_flower.validation import Floats

from ..arithmetic import class_labels, each_alone
from ..failures import contained
from . import means, records, regression, scores, selection, sizes, sums  # noqa: F401 -- they register
from .registry import DRAWING, STATISTICS

_CLIP = 3.0  # standardised numbers lie within this distance of 0


def with_labels(users: Users, question: q.OfClasses) -> Users:
    """Return the users with class labels as targets, for :class:`OfClasses`."""
    return replace(users, targets=class_labels(users))


def projected(users: Users, question: q.Projected) -> Users:
    """Return the users with projected features, for :class:`Projected`."""
    matrix = projection(question.seed, users.num_features, question.projected_dim)
    return replace(users, features=project(users.features, matrix), missing=None)


def fourier(users: Users, question: q.Fourier) -> Users:
    """Return the users with random Fourier features, for :class:`Fourier`."""
    drawn = frequencies(question.seed, users.num_features, question.num_features)
    features = fourier_features(users.features, drawn, question.length_scale)
    return replace(users, features=features, missing=None)


def rotated(values: Floats, question: q.Rotated) -> Floats:
    """Return the inner question's values after a public rotation, for :class:`Rotated`."""
    return rotate(values, question.signs) - question.midpoints


def rotated_bins(values: Floats, question: q.RotatedBins) -> Floats:
    """Return the bin of each coordinate after a public rotation, for :class:`RotatedBins`."""
    values = rotate(values, question.signs)
    bins = np.floor((values / question.bound + 1) / 2 * question.num_bins)
    return np.clip(bins, 0, question.num_bins - 1)


def standardised(users: Users, question: q.Standardised) -> Users:
    """Return the users with standardised columns, for :class:`Standardised`."""
    centres, scales = question.means, question.scales
    features, targets = users.features.copy(), users.targets
    *moved, target = (centres != 0) | (scales != 1)
    for j in np.flatnonzero(moved):
        features[:, j] = np.clip((features[:, j] - centres[j]) / scales[j], -_CLIP, _CLIP)
    if target:
        targets = np.clip((targets - centres[-1]) / scales[-1], -_CLIP, _CLIP)
    return replace(users, features=features, targets=targets)


#: Functions that return the data to send unchanged beside the reports, by class of question. The
#: operator must have declared these data public.
PUBLIC: dict[type[q.Question], Callable[[Users, Any], NDArray[np.float32]]] = {
    q.Labels: records.labelled_features,
    q.DrawnLabels: records.labelled_features,
}
# Functions that transform the users for the inner question.
_VIEWS: dict[type[q.Question], Callable[[Users, Any], Users]] = {
    q.Standardised: standardised,
    q.OfClasses: with_labels,
    q.Projected: projected,
    q.Fourier: fourier,
}
# Functions that transform the values of the inner question.
_TURNS: dict[type[q.Question], Callable[[Floats, Any], Floats]] = {
    q.Rotated: rotated,
    q.RotatedBins: rotated_bins,
    q.Shortened: sizes.shortened,
    q.OctaveShares: sizes.octave_shares,
}


def knows(question: q.Question) -> bool:
    """Return True if the library has a statistic for a question, and so a client can answer it."""
    if isinstance(question, q.TransformedQuestion):
        return type(question) in {*_VIEWS, *_TURNS} and knows(question.inner)
    return type(question) in STATISTICS


@np.errstate(all="ignore")
def compute(users: Users, question: q.Question, words: Words | None = None) -> Floats:
    """Return each user's value for a question, shape (users, width), from the rows it is about.

    ``words`` holds one random word per user, which sets the user's random draws. Without words, all
    users draw the same.

    Values are float64 and contiguous, like the rows of :class:`Users`. Another type would depend on
    the data of all users, and its rounding would make one user's value depend on the others. No
    floating-point error is raised: an error by one user's numbers would lose the values of all.
    """
    kind = type(question)
    if kind in DRAWING:
        coins = np.zeros(len(users), np.uint64) if words is None else words
        return _doubles(STATISTICS[kind](users, question, coins))
    if not isinstance(question, q.TransformedQuestion):
        return _doubles(STATISTICS[kind](users, question))
    if kind in _VIEWS:
        return compute(_VIEWS[kind](users, question), question.inner, words)
    return _doubles(_TURNS[kind](compute(users, question.inner), question))


@np.errstate(all="ignore")
def public_block(users: Users, question: q.Question) -> NDArray[np.float32]:
    """Return the users' data that are sent unchanged beside the reports, shape (users, ...)."""
    return PUBLIC[type(question)](users, question)


def _doubles(array: NDArray[Any]) -> Floats:
    return np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])


#: Function from one user's features, its targets and a question to its value.
OwnStatistic = Callable[[Floats, Floats, Any], ArrayLike]
OwnStatistics = Mapping[type[Question], OwnStatistic]

NONE: OwnStatistics = MappingProxyType({})


def checked(statistics: OwnStatistics | None) -> OwnStatistics:
    """Return a copy of an app's statistics.

    Raise ValueError unless they map valid new questions to functions.
    """
    if statistics is None:
        return NONE
    if not isinstance(statistics, Mapping):
        raise ValueError(
            "Expected statistics to map classes of questions to functions, "
            f"got {type(statistics).__name__}."
        )
    wire_types_with(statistics)  # refuses classes that are not questions, and names in use
    for kind, statistic in statistics.items():
        if not callable(statistic):
            raise ValueError(
                f"Expected statistics[{kind.__name__}] to be a function of one user's features, "
                f"its targets and the question, got {type(statistic).__name__}."
            )
    return MappingProxyType(dict(statistics))


def of_each(users: Users, question: Question, statistic: OwnStatistic, width: int) -> Floats:
    """Call an app's statistic for one user at a time, and return the values.

    The values have shape (users, width). A user for whom the statistic fails has NaN.
    """
    for slot in slots(type(question)):
        if isinstance(array := getattr(question, slot.field), np.ndarray):
            array.setflags(write=False)  # all users share this question
    values = np.full((len(users), width), np.nan)

    @cache
    def warn() -> None:  # once for all users
        text = "Statistic %s failed for a user, who reports as if without data."
        logging.getLogger(__name__).exception(text, question.name)

    for i, features, targets in each_alone(users):
        with contained(warn), np.errstate(all="ignore"):
            value = np.asarray(statistic(features, targets, question), np.float64)
            values[i] = value.reshape(width)
    return values
