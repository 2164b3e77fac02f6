"""Registry of the functions that compute the values of questions, by class of question."""

from collections.abc import Callable
from typing import TypeVar

from ldp_flower.questions import Question, Rows
from ldp_flower.validation import Floats

F = TypeVar("F", bound=Callable[..., Floats])

#: Functions from users and a question to values, shape (users, width), by class of question.
STATISTICS: dict[type[Question], Callable[..., Floats]] = {}
#: The questions whose users draw at random. Their functions also take one random word (64 random
#: bits) per user.
DRAWING: set[type[Question]] = set()


def answers(*kinds: type[Question], draws: bool = False) -> Callable[[F], F]:
    """Return a decorator that registers a statistic for questions of these classes.

    With ``draws``, the statistic also takes one random word (64 random bits) per user. Raise
    TypeError if a class does not declare random draws: all users would then draw the same.
    """
    for kind in kinds:
        if draws and not (kind.draws or kind.rows in (Rows.DRAWN, Rows.SHUFFLED)):
            raise TypeError(f"Expected draws = True in {kind.__name__}, whose statistic draws.")

    def registered(statistic: F) -> F:
        STATISTICS.update(dict.fromkeys(kinds, statistic))
        if draws:
            DRAWING.update(kinds)
        return statistic

    return registered
