"""How well a given linear model predicts each user's targets."""

import numpy as np

from ldp_flower.guarantee.questions import SquaredErrors
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats

from ..arithmetic.rows import dot, mean_over_rows
from .registry import Statistics


def squared_errors(users: Users, question: SquaredErrors) -> Floats:
    """Compute :class:`SquaredErrors`."""
    targets = users.targets
    errors = [targets - dot(users.features, question.theta), targets - question.centre]
    squares = mean_over_rows(users, np.ones(len(targets)), np.square(np.column_stack(errors)))
    loss, baseline = squares[:, :1], squares[:, 1:]
    weighted = question.loss_weight * loss + question.baseline_weight * baseline
    return np.asarray(weighted - question.offset)


EVALUATION: Statistics = {SquaredErrors: squared_errors}
