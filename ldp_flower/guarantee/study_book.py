"""Spending by approved studies, on a ledger: the study of each answer, and used steps.

Charges are never deleted, even if budgets are renewed. So a study's share is for life. If an
operator lists an id again, earlier spending under this id still counts.
"""

import sqlite3
import time
from typing import Final

from .budget import Cost
from .ledger_file import format_of, latest
from .studies import Study

_WITH_ALONE: Final = 3  # first format of a ledger with epsilons if all other nodes collude

#: Query of what each user has spent in the study with an id, to be followed by users' names.
SPENT: Final = (
    "SELECT user, SUM(epsilon), SUM(delta), SUM(alone) FROM charge JOIN study USING (reply) "
    "WHERE id = ?"
)


def note(connection: sqlite3.Connection, reply: int | None, study: Study) -> None:
    """Record that a new answer, the row ``reply`` of the ledger, is a step of a study."""
    connection.execute("INSERT INTO study VALUES (?, ?)", (reply, study.id))


def has_ended(connection: sqlite3.Connection, study: Study) -> bool:
    """Return True if the study's last day is over, and record the clock's time.

    The ledger stores the latest time that it has seen, and this time counts. So a clock that is set
    back does not reopen a study.
    """
    return latest(connection, time.time()) >= study.ends


def is_over(connection: sqlite3.Connection, study: Study) -> bool:
    """Return True if a study's last day is over or its steps are used; record the clock's time."""
    query = "SELECT COUNT(*) FROM study WHERE id = ?"
    (steps,) = connection.execute(query, (study.id,)).fetchone()
    return has_ended(connection, study) or bool(steps >= study.steps)


def alone(connection: sqlite3.Connection) -> str:
    """Return the name of the column with the epsilon if all other nodes collude.

    It is the column of epsilons in an older ledger, which has no shared noise.
    """
    return "alone" if format_of(connection) >= _WITH_ALONE else "epsilon"


def spending(epsilon: float, delta: float, if_alone: float) -> Cost:
    """Return sums of a ledger as one Cost, whose ``alone`` is None if it equals ``epsilon``.

    ``if_alone`` is the sum of the epsilons if all other nodes collude.
    """
    return Cost(epsilon, delta, alone=None if if_alone == epsilon else if_alone)
