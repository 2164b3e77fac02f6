"""An operator's bookkeeping on a ledger: lists of its entries, renewals, and deletion of replies.

A node answers without these functions. The commands ``ldp-flower ledger`` and ``ldp-flower
studies`` call them.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..guarantee.budget import Cost
from ..guarantee.ledger import renew, spenders
from ..guarantee.ledger_file import LedgerError, LedgerFile, format_of
from ..guarantee.study_book import alone, spending

_WITH_STUDIES: Final = 4  # first format of a ledger with approved studies

#: What tables show in place of the study of answers without one.
NO_STUDY: Final = "(no study)"

#: Columns of :func:`charges`.
CHARGES: Final = ("created", "user", "run", "statistic", "mechanism", "epsilon", "delta", "study")


@dataclass(frozen=True)
class InStudy:
    """Number of users who have spent budget in a study, their largest sums, and used steps."""

    users: int
    largest: Cost
    steps: int


def charges(ledger: LedgerFile) -> Iterator[tuple[str, ...]]:
    """Yield all charges and renewals of a ledger, oldest first, as rows of :data:`CHARGES`.

    The epsilon and delta of a renewal are negative: the user may spend them again, but not in a
    study. The study is empty for answers without one.
    """
    with ledger.open() as connection:
        studies = studies_of_replies(connection)
        yield from connection.execute(
            "SELECT created, user, run, statistic, mechanism, epsilon, delta, "
            "COALESCE(id, '') FROM charge JOIN reply ON reply = number "
            f"LEFT JOIN {studies} USING (reply) UNION ALL "
            "SELECT created, user, '', 'renewal', '', -epsilon, -delta, '' FROM renewal "
            "ORDER BY created, user"
        )


def payers(ledger: LedgerFile) -> list[str]:
    """Return the names of all users who have ever spent budget, also before a renewal."""
    with ledger.open() as connection:
        return _payers(connection)


def _payers(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT DISTINCT user FROM charge ORDER BY user"
    return [user for (user,) in connection.execute(query)]


def spent_in_studies(ledger: LedgerFile) -> dict[str, InStudy]:
    """Return the spending in each study by the study's id; "" stands for answers without one."""
    with ledger.open() as connection:
        book = studies_of_replies(connection)
        rows = connection.execute(
            "SELECT id, COUNT(*), MAX(epsilon), MAX(delta), MAX(alone) FROM ("
            "SELECT COALESCE(id, '') AS id, SUM(epsilon) AS epsilon, SUM(delta) AS delta, "
            f"SUM({alone(connection)}) AS alone FROM charge LEFT JOIN {book} USING (reply) "
            "GROUP BY 1, user) GROUP BY id"
        ).fetchall()
        steps = dict(connection.execute(f"SELECT id, COUNT(*) FROM {book} GROUP BY id"))
    return {
        study: InStudy(users, spending(*numbers), steps.get(study, 0))
        for study, users, *numbers in rows
    }


def studies_of_replies(connection: sqlite3.Connection) -> str:
    """Return an SQL table expression with the columns reply and id (of the reply's study).

    The table is empty in an older ledger, which has no studies.
    """
    with_studies = format_of(connection) >= _WITH_STUDIES
    return "study" if with_studies else "(SELECT 0 AS reply, '' AS id WHERE 0)"


def renew_budgets(ledger: LedgerFile, users: Sequence[str] | None = None) -> int:
    """Renew the whole budget of users (default: all); return how many had spent some of it.

    A renewal does not undo earlier answers. The limits of a policy then hold separately for the
    time before a renewal and for the time after it. Over both times a user loses up to twice the
    limits, or ``lifetime_epsilon`` if the policy has one. If one of the users has never answered a
    query, this raises LedgerError and renews no budget.
    """
    with ledger.transaction() as connection:
        if unknown := sorted(set(users or ()).difference(_payers(connection))):
            raise LedgerError(f"The ledger knows no user {', '.join(map(repr, unknown))}.")
        chosen = spenders(connection)
        if users is not None:
            chosen = sorted(set(chosen) & set(users))
        renew(connection, chosen)
    return len(chosen)


def forget_replies(ledger: LedgerFile, days: float) -> int:
    """Delete the stored bytes of replies older than ``days``; return how many were deleted.

    With 0 days all replies are deleted, even those whose date lies in the future. Their costs stay
    on the ledger. If a query whose reply was deleted comes again, it is refused.
    """
    with ledger.transaction() as connection:
        return connection.execute(
            "UPDATE reply SET content = NULL WHERE content IS NOT NULL "
            "AND (? = 0 OR created <= datetime('now', ?))",
            (days, f"-{days * 86400:.0f} seconds"),
        ).rowcount
