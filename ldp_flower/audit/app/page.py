"""What an audit of an app found, for a terminal and as a page."""

import math
from pathlib import Path

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ...presentation.markup import element, joined, table_of
from ...presentation.page import Section, listed, page
from .findings import AppAudit, Finding, Worth

_HEAD = ("found", "where", "evidence")
_WORTH = ("what", "claimed", "at least", "exactly")


def shown(audit: AppAudit) -> Group:
    """Return the tables for a terminal of 60 columns or more."""
    parts: list[object] = []
    if audit.findings:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for name in _HEAD:
            table.add_column(name, overflow="fold", ratio=3 if name == "evidence" else 2)
        for finding in audit.findings:
            table.add_row(
                Text(finding.what, "red")
                if finding.counts
                else Text(f"{finding.what} (worth knowing, not counted)", "yellow"),
                Text(finding.where),
                Text(finding.evidence),
                end_section=True,
            )
        parts += [table, ""]
    if audit.worth:
        worth = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        worth.add_column("epsilon of", overflow="fold")
        for name in _WORTH[1:]:
            worth.add_column(name, justify="right", no_wrap=True)
        for line in audit.worth:
            worth.add_row(*_row(line))
        parts += [worth, ""]
    parts += [Text(f"Tried: {text}.") for text in audit.tried]
    parts += [Text(f"Not tried: {text}.") for text in audit.untried]
    return Group(*parts)  # type: ignore[arg-type]


def _row(line: Worth) -> tuple[str, ...]:
    claimed = "" if line.claimed is None else f"{line.claimed:.4g}"
    return line.where, claimed, _epsilon(line.measured, 3), _epsilon(line.exact, 4)


def _epsilon(value: float | None, digits: int) -> str:
    if value is None:
        return ""
    return "infinite" if math.isinf(value) else f"{value:.{digits}g}"


def verdict(audit: AppAudit) -> str:
    """Return one sentence about what was found."""
    found = len(audit.found)
    if found:
        ways = "One way" if found == 1 else f"{found} ways"
        return f"{ways} in which data show, or a claim does not hold, found."
    return "Nothing was found by what was tried."


def to_html(audit: AppAudit, path: str | Path | None = None) -> str:
    """Return everything as one page, and write it if a path is given; it needs no other file."""
    from pandas import DataFrame

    def table(findings: list[Finding]) -> object:
        rows = [(f.what, f.where, f.evidence) for f in findings]
        return table_of(DataFrame(rows, columns=_HEAD), len(rows)) if rows else ""

    notes = [finding for finding in audit.findings if not finding.counts]
    worth = DataFrame([_row(line) for line in audit.worth], columns=_WORTH)
    sections = [
        Section("", [verdict(audit)]),
        Section("Found", [table(audit.found)]),  # type: ignore[list-item]
        Section("Worth knowing", [table(notes)]),  # type: ignore[list-item]
        Section(
            "What noise is worth",
            [
                joined(
                    table_of(worth, len(worth)),
                    element(
                        "p",
                        "Epsilon that is claimed, what attacks showed at least with a "
                        "confidence of 99.9 %, and the true one where the mechanism is known.",
                    ),
                )
                if len(worth)
                else ""
            ],
        ),
        Section("What was tried", [listed(audit.tried)]),
        Section("What was not tried", [listed(audit.untried)]),
    ]
    return page(f"Audit of {audit.name}", sections, path)
