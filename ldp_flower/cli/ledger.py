"""The command ``ldp-flower ledger``."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from ..guarantee.ledger import BOOK, SqliteLedger
from ..guarantee.ledger_file import LedgerError
from ..presentation.words import printable
from .console import FAILED, USAGE, console, fail, failing

ledger = typer.Typer(help="Keep the ledger of what users have spent.", no_args_is_help=True)

# First characters of formulas in cells (also in full width), and the quote that marks a text.
_ACTIVE = (*"=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", "'")

LedgerPath = Annotated[Path, typer.Argument(help="The ledger's file.")]


@ledger.command("init")
def ledger_init(path: LedgerPath) -> None:
    """Create an empty ledger in the file PATH, once per node, before its first query."""
    with failing(LedgerError, code=FAILED):
        SqliteLedger.create(path)
    console.print(Text(f"Created {path}. Keep it: it remembers what every user has spent."))


@ledger.command("show")
def ledger_show(path: LedgerPath) -> None:
    """Show what every user on the ledger in the file PATH has spent."""
    with failing(LedgerError, code=FAILED):
        spent = SqliteLedger(path).spent()
    table = Table()
    table.add_column("user", overflow="fold")
    for name in ("epsilon", "delta"):
        table.add_column(name, justify="right")
    for user, cost in spent.items():
        table.add_row(Text(printable(user)), f"{cost.epsilon:g}", f"{cost.delta:g}")
    if spent:
        console.print(table)
    console.print(f"{len(spent)} user{'' if len(spent) == 1 else 's'}")


@ledger.command("export")
def ledger_export(path: LedgerPath) -> None:
    r"""Print all that ever happened on the ledger in the file PATH as CSV: by user and run.

    A quote stands before ids that a spreadsheet would take for formulas (=, +, -, @), before
    ids that begin with a quote, and before what does so behind a semicolon or spaces; control
    characters are written out (\x1b).
    """
    writer = csv.writer(sys.stdout)
    with failing(LedgerError, code=FAILED):
        writer.writerow(BOOK)
        for row in SqliteLedger(path).book():
            writer.writerow(_cell(value) for value in row)


@ledger.command("report")
def ledger_report(
    path: LedgerPath,
    written: Annotated[
        Literal["html", "json", "prometheus"], typer.Option("--format", help="How it is written.")
    ] = "html",
    max_epsilon: Annotated[
        float | None, typer.Option(min=0.0, help="The node's max-epsilon, to show what is left.")
    ] = None,
) -> None:
    """Print an auditor's report of the ledger in the file PATH: users, spent, left; by run and day.

    As one HTML page, as JSON, or as metrics in Prometheus' text format, which name no user.
    """
    # Imported here, since only reports need pandas and further packages.
    from ..supernode.accounts import FORMATS, Accounts

    with failing(LedgerError, code=FAILED):
        accounts = Accounts.of(path, max_epsilon)
    sys.stdout.write(FORMATS[written](accounts))


@ledger.command("renew")
def ledger_renew(
    path: LedgerPath,
    user: Annotated[list[str] | None, typer.Option(help="A user; may be repeated.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="All users of the ledger.")] = False,
) -> None:
    """Give users on the ledger in the file PATH their whole budget again.

    What they have answered already stays known: over two such times the guarantee is that
    of twice the limits. The ledger keeps a record of it.
    """
    if bool(user) == everybody:
        fail("Expected either --user, once or more, or --all.", USAGE)
    with failing(LedgerError, code=FAILED):
        renewed = SqliteLedger(path).renew(None if everybody else user)
    console.print(f"{renewed} user{'' if renewed == 1 else 's'} may spend again.")


@ledger.command("forget")
def ledger_forget(
    path: LedgerPath,
    days: Annotated[float, typer.Option(min=0.0, help="Only replies older than this; 0: all.")],
) -> None:
    """Delete stored replies from the ledger in the file PATH; what they cost stays.

    A server that never got one of them cannot have it again.
    """
    with failing(LedgerError, code=FAILED):
        forgotten = SqliteLedger(path).forget_replies(days)
    console.print(f"{forgotten} repl{'y' if forgotten == 1 else 'ies'} deleted.")


def _cell(value: str | float) -> str | float:
    """Return a number unchanged, or a text such that no spreadsheet takes it for a formula."""
    if not isinstance(value, str):
        return value
    # In locales with decimal commas, a semicolon begins a new cell. Some spreadsheets skip spaces
    # at the beginning of a cell.
    pieces = value.split(";")
    marked = ("'" * piece.lstrip(" ").startswith(_ACTIVE) + piece for piece in pieces)
    return printable(";".join(marked))
