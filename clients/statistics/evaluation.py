"""How well a given linear model predicts each user's targets."""

from collections.abc import Mapping

import numpy as np

from ldp_flower.messages import Arrays
from ldp_flower.users import Users

from .rows import Floats, dot, mean_over_rows
from .statistic import Params, Statistic, one


def squared_errors(users: Users, arrays: Arrays, params: Params) -> Floats:
    """Return a weighted sum of two mean squares over each user's rows, shape (users, 1).

    It is ``loss_weight`` times the mean of ``(y - <x, theta>)**2`` plus ``baseline_weight``
    times the mean of ``(y - centre)**2`` minus ``offset``, all four of them arrays of one
    number. Without rows both means are zero, which leaves their ratio over all users as it is.
    """
    targets = users.targets
    errors = [targets - dot(users.features, arrays["theta"]), targets - arrays["centre"]]
    squares = mean_over_rows(users, np.ones(len(targets)), np.square(np.column_stack(errors)))
    loss, baseline = squares[:, :1], squares[:, 1:]
    weighted = arrays["loss_weight"] * loss + arrays["baseline_weight"] * baseline
    return np.asarray(weighted - arrays["offset"])


EVALUATION: Mapping[str, Statistic] = {
    "squared_errors": Statistic(
        squared_errors,
        one,
        vectors=frozenset({"theta"}),
        outputs=frozenset({"centre", "loss_weight", "baseline_weight", "offset"}),
    ),
}
