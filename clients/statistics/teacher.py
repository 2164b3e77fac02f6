"""Teachers: the sparse model that fits a user's own rows best, and what it answers."""

import numpy as np

from ldp_flower.guarantee.questions import Teacher
from ldp_flower.guarantee.users import Users
from ldp_flower.iht import iht
from ldp_flower.validation import Floats
from ldp_flower.values.synthetic import synthetic_features

from .registry import Statistics

_MOST_STEPS = 300


def teacher(users: Users, question: Teacher) -> Floats:
    """Compute :class:`Teacher`."""
    values = np.zeros((len(users), users.num_features))
    for i in np.flatnonzero(users.num_rows):
        rows = slice(users.offsets[i], users.offsets[i + 1])
        x, y = users.features[rows].copy(), users.targets[rows].copy()  # wherever they lay
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            values[i] = np.nan
            continue
        values[i] = iht(
            x,
            y,
            int(np.clip(question.sparsity, 1, users.num_features)),
            link=question.link,
            ridge=question.ridge or 0.0,
            radius=question.radius,
            max_steps=_MOST_STEPS,
        )
    values -= question.centre
    if question.num_answers is None or question.synthetic_seed is None:
        return values
    features = synthetic_features(question.synthetic_seed, question.num_answers, users.num_features)
    return _answers(values, features)


def _answers(values: Floats, features: Floats) -> Floats:
    """Multiply user by user: how a product is added up may depend on its size."""
    answers = np.empty((len(values), len(features)))
    for i, value in enumerate(values):
        support = np.flatnonzero(value)
        answers[i] = features[:, support] @ value[support]
    return answers


TEACHERS: Statistics = {Teacher: teacher}
