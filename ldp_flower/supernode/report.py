"""An auditor's report of a ledger: a page, JSON, or what Prometheus reads."""

import json
from html import escape

import pandas as pd

from .accounts import Accounts

_SUMS = {name: f"{name}, summed over users" for name in ("epsilon", "delta")}
_MAX_USERS_SHOWN = 1000  # users on the page; JSON has all
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; margin: 0 0 1.5em; }}
th, td {{ padding: .2em .8em; border-bottom: 1px solid #ddd; text-align: right; }}
th {{ border-bottom: 2px solid #888; }}
td:first-child, th:first-child {{ text-align: left; overflow-wrap: anywhere; }}
</style></head><body>
<h1>{title}</h1>
<p>Read at {made} UTC. Epsilon and delta are what a user's answers cost by basic composition, since
the user's budget was last renewed{period}. Days are in UTC, by the clock of the node.</p>
{sections}
</body></html>
"""


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
        "What was asked (of all columns, where none are named)": accounts.asked,
        heading: shown,
        "Renewals": accounts.renewals,
    }
    return _PAGE.format(
        title=escape(f"Ledger {_printable(accounts.ledger)}"),
        made=escape(accounts.made),
        period=escape(f"; the current period began at {accounts.period}" * bool(accounts.period)),
        sections="\n".join(
            f"<h2>{escape(title)}</h2>\n{_table(table)}" for title, table in sections.items()
        ),
    )


def as_json(accounts: Accounts) -> str:
    """Return the report as JSON."""
    return json.dumps(accounts.to_dict(), indent=2)


def as_prometheus(accounts: Accounts) -> str:
    """Return the report in Prometheus' text format: totals, runs and days, and nobody's id."""
    lines = []
    for name, value in accounts.totals.items():
        metric = "ldp_flower_" + name.replace(" ", "_")
        lines += [f"# TYPE {metric} gauge", f"{metric} {value:.10g}"]
    for label, table in (("run", accounts.runs), ("day", accounts.days)):
        for column in ("questions", "users", "epsilon", "delta"):
            metric = f"ldp_flower_{label}_{column}"
            if column in _SUMS:
                lines.append(f"# HELP {metric} {_SUMS[column].capitalize()}.")
            lines.append(f"# TYPE {metric} gauge")
            lines += [
                f'{metric}{{{label}="{_label(key)}"}} {value:.10g}'
                for key, value in zip(table[label], table[column], strict=True)
            ]
    return "\n".join(lines) + "\n"


#: How a report may be written.
FORMATS = {"html": as_html, "json": as_json, "prometheus": as_prometheus}


def _table(table: pd.DataFrame) -> str:
    if table.empty:
        return "<p>None.</p>"
    texts = table.map(lambda cell: _printable(cell) if isinstance(cell, str) else f"{cell:.10g}")
    return str(texts.to_html(index=False, border=0))  # escapes what is in it


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
