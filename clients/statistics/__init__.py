"""Statistics: what a question asks about each user, computed for all users at once.

A statistic is a pure function of the users and of the question, registered by its class;
row i of its result depends on user i's rows alone. It may be wrong about
its own user without harm (the randomizer brings any value into its domain), but
never mix users: rows are reduced by operations whose result for one user does not
depend, to the last bit, on which other users are in the batch (see :mod:`..arithmetic` and
:mod:`ldp_flower.randomizers.elementwise`). Every one sees float64 only (see :func:`compute`).

All this is checked bit by bit. Of a statistic that an app brings along nothing is known: it is
called for one user at a time, with copies of the user's rows, cannot write into the question, and
what it raises costs this user's value only.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
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

from ..arithmetic import class_labels
from . import means, records, regression, selection, sizes  # noqa: F401 -- they register
from .registry import DRAWING, STATISTICS

_CLIP = 3.0  # standardised numbers lie within this distance of 0


def with_labels(users: Users, question: q.OfClasses) -> Users:
    """Return the users that :class:`OfClasses` is about: labels are their targets."""
    return replace(users, targets=class_labels(users))


def projected(users: Users, question: q.Projected) -> Users:
    """Return the users that :class:`Projected` is about."""
    matrix = projection(question.seed, users.num_features, question.projected_dim)
    return replace(users, features=project(users.features, matrix), missing=None)


def fourier(users: Users, question: q.Fourier) -> Users:
    """Return the users that :class:`Fourier` is about."""
    drawn = frequencies(question.seed, users.num_features, question.num_features)
    features = fourier_features(users.features, drawn, question.length_scale)
    return replace(users, features=features, missing=None)


def rotated(values: Floats, question: q.Rotated) -> Floats:
    """Return what :class:`Rotated` makes of the inner question's values."""
    return rotate(values, question.signs) - question.midpoints


def rotated_bins(values: Floats, question: q.RotatedBins) -> Floats:
    """Return what :class:`RotatedBins` makes of the inner question's values."""
    values = rotate(values, question.signs)
    bins = np.floor((values / question.bound + 1) / 2 * question.num_bins)
    return np.clip(bins, 0, question.num_bins - 1)


def standardised(users: Users, question: q.Standardised) -> Users:
    """Return the users that :class:`Standardised` is about."""
    centres, scales = question.means, question.scales
    features, targets = users.features.copy(), users.targets
    *moved, target = (centres != 0) | (scales != 1)
    for j in np.flatnonzero(moved):
        features[:, j] = np.clip((features[:, j] - centres[j]) / scales[j], -_CLIP, _CLIP)
    if target:
        targets = np.clip((targets - centres[-1]) / scales[-1], -_CLIP, _CLIP)
    return replace(users, features=features, targets=targets)


#: To a block of what is sent as it is beside the reports; the operator must have declared it
#: public.
PUBLIC: dict[type[q.Question], Callable[[Users, Any], NDArray[np.float32]]] = {
    q.Labels: records.labelled_features,
    q.DrawnLabels: records.labelled_features,
}
# To the users that the question inside is about.
_VIEWS: dict[type[q.Question], Callable[[Users, Any], Users]] = {
    q.Standardised: standardised,
    q.OfClasses: with_labels,
    q.Projected: projected,
    q.Fourier: fourier,
}
# From values of the question inside to values.
_TURNS: dict[type[q.Question], Callable[[Floats, Any], Floats]] = {
    q.Rotated: rotated,
    q.RotatedBins: rotated_bins,
    q.Shortened: sizes.shortened,
}


def knows(question: q.Question) -> bool:
    """Whether there is a statistic for a question."""
    if isinstance(question, q.TransformedQuestion):
        return type(question) in {*_VIEWS, *_TURNS} and knows(question.inner)
    return type(question) in STATISTICS or type(question) in DRAWING


@np.errstate(all="ignore")
def compute(users: Users, question: q.Question, words: Words | None = None) -> Floats:
    """Return each user's value, shape (users, width).

    By ``words``, one for each user, they draw what is drawn; without, all draw the same.

    Values are float64 and lie one after the other, as the rows of :class:`Users` do: which type
    a node keeps is decided by all of its users, and rounding would make one depend on another. No
    number is an error on the way: that would be one user's, and cost all their values.
    """
    kind = type(question)
    if kind in DRAWING:
        coins = np.zeros(len(users), np.uint64) if words is None else words
        return _doubles(DRAWING[kind](users, question, coins))
    if not isinstance(question, q.TransformedQuestion):
        return _doubles(STATISTICS[kind](users, question))
    if kind in _VIEWS:
        return compute(_VIEWS[kind](users, question), question.inner, words)
    return _doubles(_TURNS[kind](compute(users, question.inner), question))


@np.errstate(all="ignore")
def public_block(users: Users, question: q.Question) -> NDArray[np.float32]:
    """Return what of the users leaves as it is beside the reports, the users first."""
    return PUBLIC[type(question)](users, question)


def _doubles(array: NDArray[Any]) -> Floats:
    return np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])


#: From one user's features, its targets and a question to its value.
OwnStatistic = Callable[[Floats, Floats, Any], ArrayLike]
OwnStatistics = Mapping[type[Question], OwnStatistic]

NONE: OwnStatistics = MappingProxyType({})


def checked(statistics: OwnStatistics | None) -> OwnStatistics:
    """Return a copy of an app's own statistics; ValueError if it maps no questions to functions."""
    if statistics is None:
        return NONE
    if not isinstance(statistics, Mapping):
        raise ValueError(
            "Expected statistics to map classes of questions to functions, "
            f"got {type(statistics).__name__}."
        )
    wire_types_with(statistics)  # refuses what is no question, and names that there are
    for kind, statistic in statistics.items():
        if not callable(statistic):
            raise ValueError(
                f"Expected statistics[{kind.__name__}] to be a function of one user's features, "
                f"its targets and the question, got {type(statistic).__name__}."
            )
    return MappingProxyType(dict(statistics))


def of_each(users: Users, question: Question, statistic: OwnStatistic, width: int) -> Floats:
    """Return each user's value, shape (users, width); NaN where there is none."""
    for slot in slots(type(question)):
        if isinstance(array := getattr(question, slot.field), np.ndarray):
            array.setflags(write=False)  # the next user's question is this one
    values = np.full((len(users), width), np.nan)
    warned = False
    for i in range(len(users)):
        rows = slice(users.offsets[i], users.offsets[i + 1])
        # Copies: a view would lead to the others' rows, and to how they are stored.
        features = np.array(users.features[rows], np.float64, order="C")
        targets = np.array(users.targets[rows], np.float64, order="C")
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(statistic(features, targets, question), np.float64)
            values[i] = value.reshape(width)
        except KeyboardInterrupt:  # is the operator's
            raise
        except BaseException:  # sys.exit on one user's data must not cost the others' answers
            if not warned:
                logging.getLogger(__name__).exception(
                    "Statistic %s failed for a user, who reports as if without data.",
                    question.name,
                )
            warned = True
    return values
