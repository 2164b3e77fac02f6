"""The command ``ldp-flower audit``."""

from typing import Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperCommand

from ..audit import Audit, audit_handler, extremes, recorded_queries
from .console import FAILED, USAGE, console, fail


class NamesProtocols(TyperCommand):
    """A command whose help names the protocols; only that has to import them all."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from ..audit.runs import AUDITED

        self.epilog = f"PROTOCOL is one of: {', '.join(AUDITED)}."
        super().format_help(ctx, formatter)


def audit(
    protocol: str,
    epsilon: Annotated[float, typer.Option(help="Privacy parameter of each user.")] = 2.0,
    dim: Annotated[int, typer.Option(min=2, help="Number of features, or of items.")] = 8,
    reports: Annotated[
        int, typer.Option(min=100, help="Reports of either user that confirm a finding.")
    ] = 4000,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the reports.", show_default="the system's")
    ] = None,
) -> None:
    """Try to break the client's promise on every query that PROTOCOL sends.

    Prints the claimed epsilon, the largest that was measured (at 99.9 % confidence), the exact
    one where outputs can be enumerated, and which checks failed: completeness, isolation, replay,
    own noise, record bound, and what neighbouring nodes of a deployment show (census, reply's
    form, who answers, ledger) and with an operator's settings (rehearsal, row limit, waiting). The
    exit code is 1 if anything contradicts the claim.
    """
    from ..audit.runs import AUDITED

    if protocol not in AUDITED:
        fail(f"Expected a protocol in {list(AUDITED)}, got {protocol!r}.", USAGE)
    audits: list[Audit] = []
    try:
        runs = list(AUDITED[protocol](dim, epsilon))
        with console.status("Recording the protocol's queries") as status:
            queries = [query for run in runs for query in recorded_queries(*run)]
            for number, query in enumerate(queries, 1):
                status.update(f"Auditing query {number} of {len(queries)}: {query.statistic}")
                people = extremes(query, dim)
                found = audit_handler(query, people, num_reports=reports, seed=seed)
                audits.append(found)
    except ValueError as error:
        fail(str(error), USAGE)
    except RuntimeError as error:
        fail(str(error), FAILED)
    table = Table()
    table.add_column("statistic", overflow="fold")
    table.add_column("mechanism", no_wrap=True)
    for name in ("claimed", "measured", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("worst pair", overflow="fold")
    table.add_column("passed", no_wrap=True)
    for found in audits:
        table.add_row(
            found.query.statistic,
            type(found.query.randomizer).__name__,
            f"{found.claimed:g}",
            f"{found.measured:.3f}",
            "" if found.exact is None else f"{found.exact:.6f}",
            " / ".join(found.worst_pair),
            _verdict(found),
        )
    console.print(table)
    failed = sum(not found.passed for found in audits)
    if failed:
        fail(f"{failed} of {len(audits)} queries break their promise.", FAILED)
    console.print(f"{len(audits)} queries, nothing found.", style="green")


def _verdict(found: Audit) -> str:
    failed = [name for name, passed in found.checks.items() if not passed]
    return f"no: {', '.join(failed)}" if failed else "yes"
