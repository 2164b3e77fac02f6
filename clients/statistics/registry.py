"""Registry: which function computes the answer to a question, by the question's class."""

from collections.abc import Callable
from typing import Any, TypeVar

from ldp_flower.questions import Question
from ldp_flower.validation import Floats

F = TypeVar("F", bound=Callable[..., Floats])

#: From users and a question of a class to values, shape (users, width).
STATISTICS: dict[type[Question], Callable[..., Floats]] = {}
#: Likewise, given the words, one for each user, by which they draw what is drawn.
DRAWING: dict[type[Question], Callable[..., Floats]] = {}


def answers(*kinds: type[Question], draws: bool = False) -> Callable[[F], F]:
    """Register a statistic for questions of these classes; one that draws gets words, too."""

    def registered(statistic: F) -> F:
        table: Any = DRAWING if draws else STATISTICS
        table.update(dict.fromkeys(kinds, statistic))
        return statistic

    return registered
