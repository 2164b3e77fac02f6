"""An auditor's report on a ledger: users, budgets, and totals by run, day and study.

The formats of the report are an HTML page, JSON, and text for Prometheus.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from ..guarantee.ledger_file import FORMAT, LedgerFile, began_at
from ..monitoring.gauges import Gauge, as_text
from ..presentation.page import Markup, Section, page
from ..presentation.words import printable
from .bookkeeping import NO_STUDY, studies_of_replies

# Copies of what the report reads. Tables of this name then mean the copies, so that the node can
# commit while the report is computed.
_COPIES = {
    "spent": "SELECT user, epsilon, delta FROM main.spent",
    "charge": "SELECT user, reply, epsilon, delta FROM main.charge",
    "reply": "SELECT number, created, run, statistic, mechanism FROM main.reply",
    "renewal": "SELECT created, user, epsilon, delta FROM main.renewal",
}
_USERS = """
    SELECT user, epsilon, delta,
        (SELECT TOTAL(epsilon) FROM charge WHERE charge.user = spent.user) AS "for life"
    FROM spent ORDER BY user
"""
_PAID = """
    SELECT {by}, COUNT(DISTINCT number) AS questions, COUNT(DISTINCT user) AS users,
        TOTAL(epsilon) AS epsilon, TOTAL(delta) AS delta,
        MIN(created) AS first, MAX(created) AS last
    FROM reply LEFT JOIN charge ON charge.reply = number
        LEFT JOIN book ON book.reply = number
    GROUP BY 1 ORDER BY MIN(created), 1
"""
_MOST = "largest epsilon"  # of the sums that one user has paid
_BY = ("run", "DATE(created) AS day", f"COALESCE(id, '{NO_STUDY}') AS study")
_LARGEST = f"""
    SELECT study, MAX(epsilon) FROM (
        SELECT COALESCE(id, '{NO_STUDY}') AS study, TOTAL(epsilon) AS epsilon
        FROM charge LEFT JOIN book ON book.reply = charge.reply GROUP BY 1, user
    ) GROUP BY 1
"""
_ASKED = """
    SELECT statistic, mechanism, COUNT(*) AS questions FROM reply GROUP BY 1, 2 ORDER BY 1, 2
"""
_RENEWALS = "SELECT created, user, epsilon, delta FROM renewal ORDER BY created, user"


@dataclass(frozen=True)
class Accounts:
    """The contents of a ledger, as tables.

    Attributes
    ----------
    made : str
        Time at which the ledger was read, UTC.
    max_epsilon : float or None
        The operator's limit, from which the remaining epsilon is computed.
    users : DataFrame
        One row per user who has spent since its last renewal: ``user``, ``epsilon``, ``delta``,
        epsilon ``for life`` and, with a limit, the epsilon ``left``.
    runs, days, studies : DataFrame
        One row per run, one per day (UTC), and one per approved study: number of ``questions``,
        number of ``users`` who paid for one of them, sums of ``epsilon`` and ``delta`` that they
        paid, and times of the ``first`` and ``last`` answer. ``studies`` has the ``largest
        epsilon`` of one user, too, and is empty if no study has paid. Otherwise one row is for the
        answers without a study.
    asked : DataFrame
        Number of questions of each statistic and mechanism.
    renewals : DataFrame
        Renewals of budgets, by hand or at the start of a period: time, user, and the epsilon and
        delta spent until then.
    period : str
        Start of the current period, UTC; empty without periods.
    """

    ledger: str
    made: str
    max_epsilon: float | None
    users: pd.DataFrame
    runs: pd.DataFrame
    days: pd.DataFrame
    studies: pd.DataFrame
    asked: pd.DataFrame
    renewals: pd.DataFrame
    period: str = ""

    #: Name by which exports tell a ledger's numbers from those of a run.
    source = "ledger"

    @classmethod
    def of(cls, path: Path, max_epsilon: float | None = None) -> "Accounts":
        """Copy a ledger in one transaction and read the copy; raise LedgerError if it cannot."""
        with LedgerFile(path).open() as connection:
            connection.execute("BEGIN")  # all copies are of the same state
            copies = _COPIES | {"book": f"SELECT reply, id FROM {studies_of_replies(connection)}"}
            for name, query in copies.items():
                connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
            period = began_at(connection)
            connection.execute("COMMIT")
            connection.execute("CREATE INDEX temp.charges_of_users ON charge (user)")
            connection.execute("CREATE INDEX temp.charges_of_replies ON charge (reply)")
            users = pd.read_sql_query(_USERS, connection)
            runs, days, studies = (pd.read_sql_query(_PAID.format(by=by), connection) for by in _BY)
            studies[_MOST] = studies.study.map(dict(connection.execute(_LARGEST).fetchall()))
            asked = pd.read_sql_query(_ASKED, connection)
            renewals = pd.read_sql_query(_RENEWALS, connection)
        if max_epsilon is not None:
            users["left"] = (max_epsilon - users.epsilon).clip(lower=0.0)
        if (studies.study == NO_STUDY).all():
            studies = studies.iloc[:0]
        made = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(
            str(path), made, max_epsilon, users, runs, days, studies, asked, renewals, period
        )

    @property
    def totals(self) -> dict[str, float]:
        """Numbers about the whole ledger by name, such as the number of users, for reports."""
        spent = self.users.epsilon
        totals = {
            "format": FORMAT,
            "users": len(self.users),
            "questions": int(self.runs.questions.sum()),
            "runs": len(self.runs),
            "renewals": len(self.renewals),
            "largest epsilon spent": float(spent.max()) if len(spent) else 0.0,
            "mean epsilon spent": float(spent.mean()) if len(spent) else 0.0,
            "median epsilon spent": float(spent.median()) if len(spent) else 0.0,
            "smallest epsilon spent": float(spent.min()) if len(spent) else 0.0,
            "largest delta spent": float(self.users.delta.max()) if len(spent) else 0.0,
        }
        if self.max_epsilon is not None:
            left = self.users.left
            totals |= {
                "largest epsilon allowed": self.max_epsilon,
                "smallest epsilon left": float(left.min()) if len(left) else self.max_epsilon,
                "users with nothing left": int((left <= 0).sum()),
            }
        return totals

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report for JSON: each table as a list of rows, other fields, totals."""
        plain = {
            name: value.to_dict("records") if isinstance(value, pd.DataFrame) else value
            for name, value in vars(self).items()
        }
        return plain | {"totals": self.totals}

    def gauges(self, by: Sequence[str] = ("study",)) -> list[Gauge]:
        """Return totals as gauges, and spending ``by`` run, day and study; no users.

        Every run and every day is a time series, so exports that go on have studies only. Operators
        approve these.
        """
        gauges = [
            Gauge("ldp_flower_" + name.replace(" ", "_"), [({}, value)])
            for name, value in self.totals.items()
        ]
        tables = {"run": self.runs, "day": self.days, "study": self.studies}
        for label in by:
            table = tables[label]
            for column in table.columns.intersection([*_COUNTED, _MOST], sort=False):
                rows = zip(table[label], table[column], strict=True)
                text = f"{_SUMS[column].capitalize()}." if column in _SUMS else ""
                samples = [({label: key}, float(value)) for key, value in rows]
                name = f"ldp_flower_{label}_{column}".replace(" ", "_")
                gauges.append(Gauge(name, samples, text))
        return gauges


_COUNTED = ("questions", "users", "epsilon", "delta")
_SUMS = {name: f"{name}, summed over users" for name in ("epsilon", "delta")}
_MAX_USERS_SHOWN = 1000  # largest number of users on the page; JSON has all


def as_html(accounts: Accounts) -> str:
    """Return the report as one page that needs no other file."""
    totals = pd.DataFrame(accounts.totals.items(), columns=["", "value"])
    shown = accounts.users.head(_MAX_USERS_SHOWN)
    heading = "Users who have spent"
    if len(shown) < len(accounts.users):
        heading += f": the first {len(shown)} of {len(accounts.users)}, all are in the JSON"
    sections = {
        "In all": totals,
        "By run": accounts.runs.rename(columns=_SUMS),
        "By day": accounts.days.rename(columns=_SUMS),
        "By approved study": accounts.studies.rename(columns=_SUMS),
        "What was asked (of all columns, where none are named)": accounts.asked,
        heading: shown,
        "Renewals": accounts.renewals,
    }
    period = f"; the current period began at {accounts.period}" if accounts.period else ""
    about = (
        f"Read at {accounts.made} UTC. Epsilon and delta are what a user's answers cost by basic "
        f"composition, since the user's budget was last renewed{period}. Days are in UTC, by the "
        "clock of the node."
    )
    tables = [Section(title, [_table(table)]) for title, table in sections.items()]
    return page(f"Ledger {printable(accounts.ledger)}", [Section("", [about]), *tables])


def as_prometheus(accounts: Accounts) -> str:
    """Return the report as metrics for Prometheus: totals, runs, days, studies, and no users."""
    return as_text(accounts.gauges(by=("run", "day", "study")))


#: Functions that write the report, by format.
FORMATS = {
    "html": as_html,
    "json": lambda accounts: json.dumps(accounts.to_dict(), indent=2),
    "prometheus": as_prometheus,
}


def _table(table: pd.DataFrame) -> Markup | str:
    if table.empty:
        return "None."
    texts = table.map(lambda cell: printable(cell) if isinstance(cell, str) else f"{cell:.10g}")
    return Markup(texts.to_html(index=False, border=0))  # to_html escapes the texts
