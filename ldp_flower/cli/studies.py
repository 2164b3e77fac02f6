"""The commands ``ldp-flower studies``, for the file of the studies that an operator approves."""

import json
import time
from collections.abc import Sequence
from dataclasses import MISSING, fields
from datetime import datetime
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from . import names
from .console import (
    FAILED,
    USAGE,
    command_group,
    console,
    fail,
    failing,
    numeric,
    option,
    pair,
    scalar,
    unknown,
)

if TYPE_CHECKING:
    from ..data.schema import Schema
    from ..guarantee.limits import Limit
    from ..guarantee.studies import Studies, Study

studies = command_group("Keep the file of the studies that the operator of a node approves.")

StudyId = Annotated[
    str, typer.Argument(metavar="STUDY", help="Id: lowercase letters, digits and hyphens.")
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
    schema: Annotated[Path, option("JSON file of the agreed schema (Schema.to_dict).")],
    users: Annotated[int, option("Number of users to be asked.", min=1)],
    epsilon: Annotated[float, option("Privacy parameter of each user.")],
    until: Annotated[datetime, option("Last day of the study, in UTC.", formats=["%Y-%m-%d"])],
    noise: Annotated[
        str, option("Where noise is added.", autocompletion=names.completion(names.NOISE))
    ] = "user",
    nodes: Annotated[int, option("Number of nodes.", min=1)] = 1,
    arguments: Annotated[
        list[str] | None,
        option("Argument of the protocol; repeatable.", "-c", "--config", metavar="KEY=VALUE"),
    ] = None,
    signed_by: Annotated[
        list[str] | None,
        option(
            "Public key of an analyst who signs the queries, as ldp-flower keys create prints "
            "it; repeatable.",
            metavar="DIGITS",
        ),
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
    with failing(ValueError, TypeError):  # also for an argument of another type
        declared = _schema(schema)
        given = _arguments_of(kind, arguments or ())
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
    typer.echo(as_toml(approved), nl=False)


# Arguments of strategies that have options or arguments of the command of their own.
_OWN = ("schema", "epsilon", "noise", "study", "study_key")


def _arguments_of(kind: type, texts: Sequence[str]) -> dict[str, Any]:
    """Return the other arguments of a strategy's class from texts KEY=VALUE.

    Raise ValueError if the class has no such argument, or if one without default is missing.
    """
    allowed = {each.name: each for each in fields(kind) if each.init and each.name not in _OWN}
    given = {key: scalar(value) for key, value in map(pair, texts)}
    for key in given:
        if key not in allowed:
            named = ", ".join(allowed)
            raise ValueError(f"Expected arguments of {kind.__name__} among {named}, got {key!r}.")
    for name, field in allowed.items():
        if name not in given and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"Expected -c {name}=..., which {kind.__name__} needs.")
    return given


# Fields of a study in the order of its table in the file.
_FIELDS = (
    *("id", "questions", "columns", "noise", "epsilon", "delta", "epsilon_alone"),
    *("steps", "until", "signed_by", "census"),
)


def as_toml(study: "Study") -> str:
    """Return the table of a study for the file of approved studies, without optional defaults."""
    defaults = {each.name: each.default for each in fields(study)}
    lines = ["[[study]]"]
    for name in _FIELDS:
        if (value := getattr(study, name)) != defaults[name]:
            # A string, number or list of JSON is also one of TOML; TOML has dates, too.
            text = str(value) if name == "until" else json.dumps(value, ensure_ascii=False)
            lines.append(f"{name.replace('_', '-')} = {text}")
    return "\n".join(lines) + "\n"


@studies.command("show")
def studies_show(
    path: Annotated[Path, typer.Argument(metavar="STUDIES_FILE", help="File of the studies.")],
    node_config: Annotated[
        str | None, option("The node's configuration, to show what its users can still spend.")
    ] = None,
) -> None:
    """Show the studies in the file STUDIES_FILE and, with NODE_CONFIG, what is left of them.

    What is left is the smaller of what the study's share and the node's policy leave, for the user
    on the node's ledger for whom it is least. A line for each study says which limit that is.
    """
    from ..guarantee.ledger_file import LedgerError
    from ..guarantee.studies import LIMITS, Studies, StudiesError
    from ..supernode.node_arguments import ArgumentsError

    with failing(StudiesError, LedgerError, ArgumentsError, ValueError, code=FAILED):
        read = Studies.read(path)
        left = {} if node_config is None else _left(read, node_config)
    title = "Left" if left else None
    columns = numeric(*LIMITS, "steps")
    table = Table("study", "until", *columns, title=title, title_justify="left")
    for each in read.approved.values():
        shown = [f"{most:g}" for most in (*each.limits, each.steps)]
        if left:
            numbers, _ = left[each.id]
            shown = [f"{rest:g} of {most}" for rest, most in zip(numbers, shown, strict=True)]
        over = " (over)" if each.ends <= time.time() else ""
        table.add_row(each.id, f"{each.until}{over}", *shown)
    console.print(table)
    for study, (_, told) in left.items():
        console.print(f"{study}: {told}", soft_wrap=True)


def _left_of(
    limits: "Sequence[Limit]", shares: Sequence[float], steps: int
) -> tuple[tuple[float, ...], str]:
    """Return what every user can still spend in a study, and a text with the limits that bind.

    The numbers are epsilon, delta, epsilon alone and steps. ``shares`` are the study's shares of
    the first three, and ``steps`` is the number of steps left.
    """
    import numpy as np

    numbers: list[float] = []
    names: list[str] = []
    for place, share in enumerate(shares):
        limiting = [each for each in limits if each.place == place]
        numbers.append(min(each.least for each in limiting))
        names += [e.name for e in limiting if share and isclose(e.least, numbers[-1])]
    told = [f"limited by {', '.join(dict.fromkeys(names))}."]
    most = np.minimum.reduce([each.left for each in limits if each.place == 0]).max(initial=0)
    if most > numbers[0]:
        told.append(f"Other users have up to {most:g} epsilon left.")
    if not steps:
        told.append("The steps are used up.")
    return (*numbers, steps), " ".join(told)


def _left(studies: "Studies", node_config: str) -> dict[str, tuple[tuple[float, ...], str]]:
    """Return what users can still spend in each study, by study, on one node."""
    import numpy as np

    from ..guarantee.budget import PrivacyPolicy
    from ..guarantee.ledger import SqliteLedger
    from ..supernode.bookkeeping import payers, spent_in_studies
    from ..supernode.node_arguments import read

    config = read(node_config)
    policy, path = PrivacyPolicy.from_node_config(config), config.get("ledger-path")
    if policy is None or not isinstance(path, str):
        raise ValueError(
            f"Expected max-epsilon and ledger-path in --node-config, got {node_config}."
        )
    studies.check(policy)
    ledger = SqliteLedger(path)
    users, spent = np.array(payers(ledger)), spent_in_studies(ledger)
    found = {}
    for each in studies.approved.values():
        limits = ledger.limits(users, policy, each)
        steps = each.steps - (spent[each.id].steps if each.id in spent else 0)
        found[each.id] = _left_of(limits, each.limits, max(steps, 0))
    return found


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


def _schema(path: Path) -> "Schema":
    from ..data.schema import Schema

    try:
        return Schema.from_dict(json.loads(path.expanduser().read_text("utf-8-sig")))
    except OSError as error:
        raise ValueError(f"Expected --schema to be a JSON file: {error.strerror}.") from error
