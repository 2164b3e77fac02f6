"""The commands ``ldp-flower studies``, for the file of the studies that an operator approves."""

import json
from dataclasses import fields
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from . import names
from .console import FAILED, USAGE, console, fail, failing, pair, scalar, unknown

if TYPE_CHECKING:
    from ..data.schema import Schema
    from ..guarantee.study_book import InStudy

studies = typer.Typer(
    help="Keep the file of the studies that the operator of a node approves.",
    no_args_is_help=True,
    suggest_commands=False,  # click suggests similar commands, too
)

StudyId = Annotated[
    str, typer.Argument(metavar="STUDY", help="Id: small letters, digits and hyphens.")
]


@studies.command("add")
def studies_add(
    study: StudyId,
    protocol: Annotated[
        str,
        typer.Argument(
            help="Name of the protocol that the study runs.",
            autocompletion=names.completion(names.PROTOCOLS),
        ),
    ],
    schema: Annotated[Path, typer.Option(help="JSON file of the agreed schema (Schema.to_dict).")],
    users: Annotated[int, typer.Option(min=1, help="Number of users to be asked.")],
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of each user.")],
    until: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="Last day of the study, in UTC.")
    ],
    noise: Annotated[
        str,
        typer.Option(help="Where noise is added.", autocompletion=names.completion(names.NOISE)),
    ] = "user",
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 1,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "-c", "--config", metavar="KEY=VALUE", help="Argument of the protocol; repeatable."
        ),
    ] = None,
    signed_by: Annotated[
        list[str] | None,
        typer.Option(help="Key of an analyst who signs the questions; repeatable."),
    ] = None,
) -> None:
    """Print the table of the study STUDY for the file of approved studies.

    The command runs PROTOCOL on synthetic users of the schema, and lists the questions, columns and
    places of noise of its messages, with the number of its steps and its cost. It reads no data.
    Read the table before you add it to the file: what it lists is what a server may ask.
    """
    from ..guarantee.studies import StudiesError, Study
    from ..simulation.questions_asked import questions_asked
    from ..strategies import TooFewReports
    from ..strategies.catalogue import PROTOCOLS

    if protocol not in PROTOCOLS:
        fail(unknown(protocol, (), PROTOCOLS), USAGE)
    kind = PROTOCOLS[protocol]
    if "schema" not in {each.name for each in fields(kind)}:
        fail(f"Expected a protocol for tables with a schema, got {protocol}.", USAGE)
    with failing(ValueError, TypeError):  # also for an argument that is missing or unknown
        declared = _schema(schema)
        given: dict[str, Any] = {
            key: scalar(text) for key, text in (pair(each) for each in arguments or ())
        }
        strategy = kind(schema=declared, epsilon=epsilon, noise=noise, **given)
    with failing(TooFewReports, code=FAILED):
        found = questions_asked(strategy, declared, users, nodes)
    with failing(StudiesError):
        approved = Study(
            id=study,
            questions=tuple(found.questions),
            columns=tuple(found.columns),
            noise=tuple(found.noise),
            epsilon=found.epsilon,
            delta=found.delta,
            epsilon_alone=found.alone,
            steps=found.steps,
            until=until.date(),
            signed_by=tuple(signed_by or ()),
            census=True,
        )
    typer.echo(approved.to_toml(), nl=False)


@studies.command("show")
def studies_show(
    path: Annotated[Path, typer.Argument(metavar="STUDIES_FILE", help="File of the studies.")],
    ledger: Annotated[
        Path | None, typer.Option(help="File of the node's ledger, to show what is left.")
    ] = None,
) -> None:
    """Show the studies in the file STUDIES_FILE and, with a ledger, what is left of their shares.

    The numbers are those of the user who has spent most in a study.
    """
    from ..guarantee.ledger import SqliteLedger
    from ..guarantee.ledger_file import LedgerError
    from ..guarantee.studies import LIMITS, Studies, StudiesError

    with failing(StudiesError, LedgerError, code=FAILED):
        approved = Studies.read(path).approved
        spent = {} if ledger is None else SqliteLedger(ledger).spent_in_studies()
    table = Table(title=None if ledger is None else "Left of the shares", title_justify="left")
    for column in ("study", "until"):
        table.add_column(column)
    for column in (*LIMITS, "steps"):
        table.add_column(column, justify="right")
    for each in approved.values():
        limits = (*each.limits, each.steps)
        used = numbers_of(spent.get(each.id))
        if ledger is None:
            shown = [f"{most:g}" for most in limits]
        else:
            pairs = zip(limits, used, strict=True)
            shown = [f"{max(most - own, 0):g} of {most:g}" for most, own in pairs]
        over = "" if each.until >= date.today() else " (over)"
        table.add_row(each.id, f"{each.until}{over}", *shown)
    console.print(table)


@studies.command("sign")
def studies_sign(
    key: Annotated[
        Path, typer.Argument(metavar="KEY_FILE", help="File of the analyst's key (keys create).")
    ],
    study: StudyId,
    digest: Annotated[
        str, typer.Argument(metavar="DIGEST", help="Digest of the query, 64 hexadecimal digits.")
    ],
) -> None:
    """Print the signature of the query with the digest DIGEST for the study STUDY.

    A strategy signs by itself (`study_key`). The command is for other servers.
    """
    from ..guarantee.peers import PeersError, read_key
    from ..guarantee.studies import signed_text

    with failing(PeersError, code=FAILED):
        private = read_key(key)
    with failing(ValueError):
        text = signed_text(digest, study)
    typer.echo(private.sign(text).hex())


def numbers_of(spent: "InStudy | None") -> tuple[float, float, float, int]:
    """Return the largest sums of a user in a study, and its used steps."""
    if spent is None:
        return 0.0, 0.0, 0.0, 0
    largest = spent.largest
    return largest.epsilon, largest.delta, largest.epsilon_alone, spent.steps


def _schema(path: Path) -> "Schema":
    from ..data.schema import Schema

    try:
        return Schema.from_dict(json.loads(path.expanduser().read_text("utf-8-sig")))
    except OSError as error:
        raise ValueError(f"Expected --schema to be a JSON file: {error.strerror}.") from error
