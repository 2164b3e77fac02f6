"""Periods: when a budget of so many days begins anew, by the node's own clock.

A ledger keeps the latest time that it was asked at: a clock that goes back gives nothing. One that
jumps ahead gives one new period, however far, which lasts until the time that it showed is over.
"""

import re
import sqlite3
from datetime import UTC, datetime
from typing import Final

from .ledger_file import fact

_SEEN: Final = "latest time"  # facts of a ledger, in seconds
_BEGAN: Final = "period began"
_SECONDS: Final = {"h": 3600, "d": 86_400}


def seconds_in(period: str) -> int:
    """Return the length of a period such as ``"30d"`` or ``"12h"``.

    Raises
    ------
    ValueError
        If it is none.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,5})([hd])", period)
    if found is None:
        raise ValueError(f"Expected a period of days or hours, as '30d' or '12h', got {period!r}.")
    return int(found[1]) * _SECONDS[found[2]]


def is_over(connection: sqlite3.Connection, period: str, clock: float) -> bool:
    """Whether a new period begins, which it does then; note what the clock shows.

    Of a ledger without periods so far the first one begins: what was spent before counts in it.
    """
    now = max(clock, float(fact(connection, _SEEN) or 0))
    began = fact(connection, _BEGAN)
    over = began is not None and now >= float(began) + seconds_in(period)
    _note(connection, _SEEN, now)
    if began is None or over:
        _note(connection, _BEGAN, now)
    return over


def began_at(connection: sqlite3.Connection) -> str:
    """Return when the current period began, UTC; empty if there is none."""
    began = fact(connection, _BEGAN)
    if began is None:
        return ""
    return datetime.fromtimestamp(float(began), UTC).isoformat(timespec="seconds")


def _note(connection: sqlite3.Connection, name: str, time: float) -> None:
    connection.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, repr(time)))
