"""Statistics of a model and a line along which it may be moved, and of numbers of rows."""

import math

import numpy as np

from ldp_flower.guarantee.questions import LineMoments, LineSizes, RowCount
from ldp_flower.guarantee.users import Users
from ldp_flower.randomizers.elementwise import log
from ldp_flower.validation import Floats

from ..arithmetic.rows import dot, mean_over_rows, norm_over_rows
from .registry import Statistics


def line_moments(users: Users, question: LineMoments) -> Floats:
    """Compute :class:`LineMoments`."""
    r = (users.targets - dot(users.features, question.theta)) / question.residual_scale
    q = dot(users.features, question.direction) / question.direction_scale
    products = np.column_stack([r, q, r * q, q * q - 1, r * r - 1])
    return mean_over_rows(users, np.ones(len(r)), products)


def line_sizes(users: Users, question: LineSizes) -> Floats:
    """Compute :class:`LineSizes`."""
    residuals = users.targets - dot(users.features, question.theta)
    steps = dot(users.features, question.direction)
    norms = np.column_stack([norm_over_rows(users, values) for values in (residuals, steps)])
    sizes = norms / np.sqrt(np.maximum(users.num_rows, 1))[:, None]
    tiny = math.exp(-question.log_range) * question.prior
    logs = log(np.maximum(sizes, tiny) / question.prior) / question.log_range
    return np.where(users.num_rows[:, None] > 0, np.minimum(logs, 1.0), 0.0)


def row_count(users: Users, question: RowCount) -> Floats:
    """Compute :class:`RowCount`."""
    rows = np.maximum(users.num_rows, 1) / question.prior
    return (log(rows) / question.log_range)[:, None]


LINES: Statistics = {LineMoments: line_moments, LineSizes: line_sizes, RowCount: row_count}
