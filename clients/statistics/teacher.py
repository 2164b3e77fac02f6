"""Teachers: the sparse model that fits a user's own rows best, and what it answers."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from ldp_flower.iht import iht
from ldp_flower.messages import Arrays, MessageError
from ldp_flower.synthetic import synthetic_features
from ldp_flower.users import Users

from .rows import Floats
from .statistic import Params, Statistic

_MOST_STEPS = 300


def teacher(users: Users, arrays: Arrays, params: Params, link: str) -> Floats:
    """Return what each user's own sparse model differs by from ``centre``.

    The model has ``params["sparsity"]`` coefficients, of length ``params["radius"]`` at most,
    and minimises the mean loss of ``link`` over the user's rows, plus ``params["ridge"] / 2``
    (optional) times its squared length. Shape (users, num_features); with
    ``params["num_answers"]`` and ``params["synthetic_seed"]`` (optional, together) the
    difference's products with so many :func:`~ldp_flower.synthetic.synthetic_features`, shape
    (users, num_answers). The model of a user without rows is zero.
    """
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
            int(np.clip(params["sparsity"], 1, users.num_features)),
            link=link,
            ridge=params.get("ridge", 0.0),
            radius=params["radius"],
            max_steps=_MOST_STEPS,
        )
    values -= arrays["centre"]
    if "num_answers" not in params:
        return values
    num_answers, seed = int(params["num_answers"]), int(params["synthetic_seed"])
    return _answers(values, synthetic_features(seed, num_answers, users.num_features))


def _answers(values: Floats, features: Floats) -> Floats:
    """Multiply user by user: how a product is added up may depend on its size."""
    answers = np.empty((len(values), len(features)))
    for i, value in enumerate(values):
        support = np.flatnonzero(value)
        answers[i] = features[:, support] @ value[support]
    return answers


def _num_answers(num_features: int, arrays: Arrays, params: Params) -> int:
    """Return the number of answers if they are asked for, otherwise of features."""
    given = {"num_answers", "synthetic_seed"} & set(params)
    if len(given) == 1:
        raise MessageError("Expected num_answers and synthetic_seed together.")
    if not given:
        return num_features
    if params["num_answers"] > num_features:
        raise MessageError("Expected at most as many answers as features.")
    return int(params["num_answers"])


def _statistic(link: str) -> Statistic:
    return Statistic(
        partial(teacher, link=link),
        _num_answers,
        vectors=frozenset({"centre"}),
        params=frozenset({"sparsity", "radius"}),
        optional_params=frozenset({"ridge", "num_answers", "synthetic_seed"}),
    )


TEACHERS: Mapping[str, Statistic] = {
    "teacher": _statistic("identity"),
    "logistic_teacher": _statistic("logistic"),
}
