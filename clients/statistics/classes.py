"""Statistics of classes: whether a row is of one, and what predicts that."""

import numpy as np

from ldp_flower.guarantee import questions as q
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers.domains import directions
from ldp_flower.randomizers.elementwise import tanh
from ldp_flower.validation import Floats

from ..arithmetic.ridge import ridge_coefficients
from ..arithmetic.rows import dot, mean_over_rows, norm_over_rows
from .regression import weighted_coefficients
from .transformed import class_labels


def class_coefficients(users: Users, question: q.ClassCoefficients) -> Floats:
    """Compute :class:`ClassCoefficients`."""
    residual = class_labels(users) - tanh(dot(users.features, question.theta) / 2)
    return weighted_coefficients(users, residual, question)


def _of_class(users: Users, place: float, yes: float, no: float) -> Floats:
    """Return which number each row has by its class; NaN for none, of which it is no example."""
    return np.where(np.isnan(users.targets), np.nan, np.where(users.targets == place, yes, no))


def class_step(users: Users, question: q.ClassStep) -> Floats:
    """Compute :class:`ClassStep`."""
    residual = _of_class(users, question.place, 1.0, -1.0) - tanh(
        dot(users.features, question.theta)
    )
    unit, length = directions(ridge_coefficients(users, users.features, residual, question.ridge))
    wanted = np.ones(len(users))
    if question.weighted:
        sizes = norm_over_rows(users, residual) / np.sqrt(np.maximum(users.num_rows, 1))
        wanted = np.minimum(sizes, 1.0)
    return np.where(length[:, None] > 0, unit * wanted[:, None], 0.0)


def class_share(users: Users, question: q.ClassShare) -> Floats:
    """Compute :class:`ClassShare`."""
    halves = _of_class(users, question.place, 0.5, -0.5)
    return mean_over_rows(users, halves, np.ones((len(halves), 1)))


def mean_score(users: Users, question: q.MeanScore) -> Floats:
    """Compute :class:`MeanScore`."""
    scores = np.clip(dot(users.features, question.theta), -1.0, 1.0)
    return mean_over_rows(users, scores, np.ones((len(scores), 1)))


def ranking(users: Users, question: q.Ranking) -> Floats:
    """Compute :class:`Ranking`."""
    above = _of_class(users, question.place, 1.0, 0.0) - question.share
    signs = np.sign(dot(users.features, question.theta))
    return mean_over_rows(users, above * signs, np.ones((len(signs), 1)))
