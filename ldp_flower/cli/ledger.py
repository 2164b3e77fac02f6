"""The command ``ldp-flower ledger``."""

import csv
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Column, Table
from rich.text import Text

from .console import FAILED, USAGE, command_group, console, fail, failing, numeric, option

if TYPE_CHECKING:
    from ..guarantee.ledger import SqliteLedger

ledger = command_group("Keep the ledger of the budgets that users have spent.")

# First characters of formulas in cells (also in full width), and the quote that marks a text.
_ACTIVE = (*"=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", "'")

LedgerPath = Annotated[Path, typer.Argument(help="File of the ledger.")]
MaxEpsilon = Annotated[
    float | None, option("The node's max-epsilon, to show the budget that is left.", min=0.0)
]


@contextmanager
def _opened(path: Path, *, new: bool = False) -> Iterator["SqliteLedger"]:
    """Open or create a ledger, and end the command if it fails."""
    from ..guarantee.ledger import SqliteLedger
    from ..guarantee.ledger_file import LedgerError

    with failing(LedgerError, code=FAILED):
        yield SqliteLedger.create(path) if new else SqliteLedger(path)


@ledger.command("init")
def ledger_init(path: LedgerPath) -> None:
    """Create an empty ledger in the file PATH, once for each node, before its first query."""
    with _opened(path, new=True):
        console.print(Text(f"Created {path}. Keep it: it records the budget that users spend."))


@ledger.command("show")
def ledger_show(path: LedgerPath) -> None:
    """Show the budget that each user on the ledger in the file PATH has spent.

    Epsilon alone is what a user has spent if all other nodes collude that share their noise. A user
    whose budget was renewed has spent 0 since then.

    A second table shows approved studies, each with the largest sums of a user since the ledger was
    made, which no renewal changes. Answers without a study are in the line "(no study)".
    """
    from ..guarantee.budget import Cost
    from ..presentation.words import printable
    from ..supernode.bookkeeping import NO_STUDY, payers, spent_in_studies

    with _opened(path) as opened:
        users, spent, in_studies = payers(opened), opened.spent(), spent_in_studies(opened)
    costs = ("epsilon", "delta", "epsilon alone")
    table = Table(Column("user", overflow="fold"), *numeric(*costs))
    for user in users:
        numbers = spent.get(user, Cost(0.0)).numbers
        table.add_row(Text(printable(user)), *(f"{number:g}" for number in numbers))
    if users:
        console.print(table)
    console.print(f"{len(users)} user{'' if len(users) == 1 else 's'}")
    if not set(in_studies) - {""}:
        return
    table = Table("study", *numeric("users", "steps", *costs))
    for study, found in in_studies.items():
        steps = f"{found.steps:g}" if study else ""
        shown = (f"{number:g}" for number in found.largest.numbers)
        table.add_row(study or NO_STUDY, str(found.users), steps, *shown)
    console.print(table)


@ledger.command("export")
def ledger_export(path: LedgerPath) -> None:
    r"""Print all entries of the ledger in the file PATH as CSV, by user and run.

    The last column is the approved study that paid, if there is one.

    Some ids get a quote in front: ids that a spreadsheet would read as formulas (=, +, -, @), and
    ids that begin with a quote, also after a semicolon or spaces. Control characters are written
    out (\x1b).
    """
    from ..supernode.bookkeeping import CHARGES, charges

    writer = csv.writer(sys.stdout)
    with _opened(path) as opened:
        writer.writerow(CHARGES)
        for row in charges(opened):
            writer.writerow(_cell(value) for value in row)


@ledger.command("arms")
def ledger_arms(
    path: LedgerPath,
    experiment: Annotated[str, typer.Argument(help="Name of the experiment.")],
    ids: Annotated[Path, typer.Argument(help="Text file with the names of users, one per line.")],
    allocation: Annotated[
        float, option("Share of the users in the first arm, as the strategy has it.")
    ] = 0.5,
) -> None:
    """Print the arm of each user in EXPERIMENT as CSV: 0 for the first arm, 1 for the second.

    The arm is a hash of the user's number on the ledger in the file PATH. Nothing is spent.
    """
    import numpy as np

    from ..data.table_file import names_in
    from ..guarantee.arms import assigned_arms

    with _opened(path) as opened, failing(ValueError, code=USAGE):
        users = names_in(ids)
        arms = assigned_arms(experiment, opened.numbers(np.array(users)), allocation)
    writer = csv.writer(sys.stdout)
    writer.writerow(["user", "arm"])
    for user, arm in zip(users, arms.tolist(), strict=True):
        writer.writerow([_cell(str(user)), arm])


@ledger.command("report")
def ledger_report(
    path: LedgerPath,
    written: Annotated[
        Literal["html", "json", "prometheus"], option("Format of the report.", "--format")
    ] = "html",
    max_epsilon: MaxEpsilon = None,
) -> None:
    """Print a report of the ledger in the file PATH for an auditor.

    The report shows the budget that each user has spent and has left, and all charges by run, by
    day and by approved study. It is one HTML page, JSON, or metrics in Prometheus' text format,
    which name no user.
    """
    from ..guarantee.ledger_file import LedgerError
    from ..supernode.accounts import FORMATS, Accounts

    with failing(LedgerError, code=FAILED):
        accounts = Accounts.of(path, max_epsilon)
    sys.stdout.write(FORMATS[written](accounts))


@ledger.command("serve")
def ledger_serve(
    path: LedgerPath,
    port: Annotated[int, option("Port of the page.", min=0, max=65535)] = 9465,
    address: Annotated[
        str, option("Address of the page; by default this machine's own.")
    ] = "127.0.0.1",
    max_epsilon: MaxEpsilon = None,
    every: Annotated[float, option("Seconds between two readings.", min=1.0, max=86_400.0)] = 60.0,
) -> None:
    """Serve totals of the ledger in the file PATH to Prometheus, until stopped.

    The metrics name no user. They are those of the report, without runs and days: each of these
    would be another time series.
    """
    from ..guarantee.ledger_file import LedgerError
    from ..monitoring import PrometheusExport
    from ..supernode.accounts import Accounts

    with failing(LedgerError, ImportError, OSError, code=FAILED):
        accounts = Accounts.of(path, max_epsilon)
        export = PrometheusExport(port, address)
        console.print(f"Serving http://{address}:{export.port}/metrics")
        while True:
            export(accounts)
            time.sleep(every)
            accounts = Accounts.of(path, max_epsilon)


@ledger.command("renew")
def ledger_renew(
    path: LedgerPath,
    user: Annotated[list[str] | None, option("User who gets a new budget; repeatable.")] = None,
    everybody: Annotated[bool, option("Renew all users of the ledger.", "--all")] = False,
) -> None:
    """Give users on the ledger in the file PATH their whole budget again.

    The server keeps the answers from before a renewal. Over both periods, the guarantee is
    therefore that of twice the limits. The ledger records the renewal.
    """
    from ..supernode.bookkeeping import renew_budgets

    if bool(user) == everybody:
        fail("Expected either --user, once or more, or --all.", USAGE)
    with _opened(path) as opened:
        renewed = renew_budgets(opened, None if everybody else user)
    console.print(f"{renewed} user{'' if renewed == 1 else 's'} may spend again.")


@ledger.command("forget")
def ledger_forget(
    path: LedgerPath,
    days: Annotated[
        float, option("Age of the youngest reply to delete, in days; 0: all.", min=0.0)
    ],
) -> None:
    """Delete stored replies from the ledger in the file PATH; their costs stay.

    A server that did not receive a deleted reply cannot get it again.
    """
    from ..supernode.bookkeeping import forget_replies

    with _opened(path) as opened:
        forgotten = forget_replies(opened, days)
    console.print(f"{forgotten} repl{'y' if forgotten == 1 else 'ies'} deleted.")


def _cell(value: str | float) -> str | float:
    """Return a number unchanged, and a text so that no spreadsheet reads it as a formula."""
    if not isinstance(value, str):
        return value
    from ..presentation.words import printable

    # In locales with decimal commas, a semicolon begins a new cell. Some spreadsheets skip spaces
    # at the beginning of a cell.
    pieces = value.split(";")
    marked = ("'" * piece.lstrip(" ").startswith(_ACTIVE) + piece for piece in pieces)
    return printable(";".join(marked))
