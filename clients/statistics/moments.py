"""Moments of features and targets: all that least squares, or a polynomial loss, needs."""

from collections.abc import Mapping

import numpy as np

from ldp_flower.guarantee.questions import Record, RecordCopies, SecondMoments, TensorMoments
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers.ball import directions
from ldp_flower.validation import Floats
from ldp_flower.values.moments import num_monomials, packed_power, tensor_powers, tensor_weight

from ..arithmetic.rows import mean_over_rows
from .registry import Statistics

_BLOCK_ENTRIES = 1 << 22  # products held in memory at a time

Powers = Mapping[int, float]  # weights of tensor powers

Bounded = SecondMoments | TensorMoments | Record | RecordCopies


def bounded_rows(users: Users, question: Bounded) -> tuple[Floats, Floats]:
    """Return rows in the unit ball and targets in [-1, 1], see :class:`SecondMoments`."""
    unit, length = directions(users.features)
    x = unit * np.minimum(length / question.feature_bound, 1.0)[:, None]
    return x, np.clip(users.targets / question.target_bound, -1.0, 1.0)


def _moments(
    users: Users,
    question: SecondMoments | TensorMoments,
    product_weight: float,
    powers: Powers,
) -> Floats:
    """Return the mean of x y and of tensor powers of x, each times its weight."""
    x, y = bounded_rows(users, question)
    ones = np.ones(len(x))
    parts = [product_weight * mean_over_rows(users, y, x)]
    for degree, weight in powers.items():
        step = max(1, _BLOCK_ENTRIES // max(len(x), 1))
        for start in range(0, num_monomials(x.shape[1], degree), step):
            packed = packed_power(x, degree, slice(start, start + step))
            parts.append(weight * mean_over_rows(users, ones, packed))
    return np.concatenate(parts, axis=1)


def second_moments(users: Users, question: SecondMoments) -> Floats:
    """Compute :class:`SecondMoments`."""
    return _moments(users, question, question.product_weight, {2: question.square_weight})


def tensor_moments(users: Users, question: TensorMoments) -> Floats:
    """Compute :class:`TensorMoments`."""
    powers = tensor_powers(question.degree, question.stride)
    weight = tensor_weight(powers)
    return _moments(users, question, weight, dict.fromkeys(powers, weight))


MOMENTS: Statistics = {SecondMoments: second_moments, TensorMoments: tensor_moments}
