"""Statistics that an app brings along: functions from elsewhere, each called for one user alone.

What the library computes for all users at once is checked bit by bit to keep them apart. Of a
function from elsewhere nothing is known, so it gets copies of one user's rows, cannot write into
the question, and what it raises costs this user's value only.
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldp_flower.guarantee.questions import Question, slots, wire_types_with
from ldp_flower.guarantee.users import Users
from ldp_flower.validation import Floats

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
