"""Result of an audit of an app, with its output for a terminal and as an HTML page."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ...presentation.page import Markup, Section, element, joined, listed, page, table_of

_HEAD = ("found", "where", "evidence")
_EPSILONS = ("epsilon of", "claimed", "at least", "exactly")


class CannotAuditError(ValueError):
    """Error for an app that cannot be audited; the message says what to provide."""


@dataclass(frozen=True)
class Finding:
    """Finding: one way in which replies reveal data, or in which a claim does not hold."""

    what: str
    where: str  # the type of message, and the part of its replies
    evidence: str


@dataclass
class AppAudit:
    """Result of an audit of an app: findings, epsilons, and attacks that were or were not tried.

    ``claimed`` is the claimed epsilon of a whole run. With a confidence of 99.9 %, the true epsilon
    is at least ``measured``. If the mechanism is known, the true epsilon is ``exact``.
    """

    name: str
    found: list[Finding] = field(default_factory=list)
    claimed: float | None = None
    measured: float = 0.0
    exact: float | None = None
    tried: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)


def shown(audit: AppAudit) -> Group:
    """Return the audit as tables to print on a terminal of 60 columns or more."""
    parts: list[object] = []
    for head, rows in ((_HEAD, _findings(audit)), (_EPSILONS, _epsilons(audit))):
        table = Table(*head, box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for row in rows:
            table.add_row(Text(row[0], "red" if head is _HEAD else ""), *map(Text, row[1:]))
        parts += [table, ""] if rows else []
    parts += [Text(f"Tried: {text}.") for text in audit.tried]
    parts += [Text(f"Not tried: {text}.") for text in audit.untried]
    return Group(*parts)  # type: ignore[arg-type]


def _findings(audit: AppAudit) -> list[tuple[str, ...]]:
    return [(found.what, found.where, found.evidence) for found in audit.found]


def _epsilons(audit: AppAudit) -> list[tuple[str, ...]]:
    def shown(value: float | None) -> str:
        return "" if value is None else "infinite" if math.isinf(value) else f"{value:.4g}"

    return [("the whole run", *map(shown, (audit.claimed, audit.measured, audit.exact)))]


def verdict(audit: AppAudit) -> str:
    """Return one sentence that summarises the findings."""
    ways = "One way" if len(audit.found) == 1 else f"{len(audit.found)} ways"
    if audit.found:
        return f"{ways} in which data show, or a claim does not hold, found."
    return "Nothing was found by what was tried."


def to_html(audit: AppAudit, path: str | Path | None = None) -> str:
    """Return the result as one HTML page, and write it if a path is given.

    The page needs no other file.
    """
    from pandas import DataFrame

    tables = [
        table_of(DataFrame(rows, columns=head), len(rows)) if rows else Markup()
        for head, rows in ((_HEAD, _findings(audit)), (_EPSILONS, _epsilons(audit)))
    ]
    about = "Claimed, at least by the attacks (99.9 % confidence), and exactly if that is known."
    sections = [
        Section("", [verdict(audit)]),
        Section("Found", tables[:1]),
        Section("Epsilon", [joined(tables[1], element("p", about)) if tables[1] else ""]),
        Section("What was tried", [listed(audit.tried)]),
        Section("What was not tried", [listed(audit.untried)]),
    ]
    return page(f"Audit of {audit.name}", sections, path)
