"""Audit of a protocol of this library for the command ``ldp-flower audit``, with its output."""

from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from .console import FAILED, USAGE, console, fail, failing, print_json, unknown
from .names import AUDITED, NOISE, OF_NETWORKS

if TYPE_CHECKING:
    from ..audit import Audit, NetworkAudit
    from ..audit.handler import Checked


def audit_protocol(
    protocol: str,
    epsilon: float,
    dim: int,
    reports: int,
    seed: int | None,
    noise: str,
    as_json: bool,
) -> None:
    """Audit all queries of a protocol, and print the results; the command ends if one fails."""
    if protocol == "LdpFedAvg":
        fail("LdpFedAvg is audited with an app: ldp-flower audit --app FOLDER.", USAGE)
    if protocol not in AUDITED:
        fail(unknown(protocol, (), AUDITED), USAGE)
    if noise not in NOISE:
        fail(f"Expected --noise {' or '.join(NOISE)}, got {noise!r}.", USAGE)
    of_networks = protocol == OF_NETWORKS
    if of_networks and noise != "user":
        fail(f"Expected no --noise with {OF_NETWORKS}, whose noise is always at the node.", USAGE)
    with failing(ImportError, ValueError), failing(RuntimeError, code=FAILED):
        found: list[Any] = (
            _step(epsilon, dim, reports, seed)
            if of_networks
            else _queries(protocol, epsilon, dim, reports, seed, noise)
        )
    if as_json:
        audits = [_plain(each) for each in found]
        print_json({"protocol": protocol, "epsilon": epsilon, "audits": audits})
    else:
        console.print(_step_shown(*found) if of_networks else _table(found))
    noun = "step" if of_networks else "query" if len(found) == 1 else "queries"
    if failed := sum(not each.passed for each in found):
        fail(f"The claim does not hold in {failed} of {len(found)} {noun}.", FAILED)
    if not as_json:
        checks = ", ".join(dict.fromkeys(name for each in found for name in each.checks))
        console.print(f"{len(found)} {noun}, nothing found by: {checks}.", style="green")


def _queries(
    protocol: str, epsilon: float, dim: int, reports: int, seed: int | None, noise: str
) -> list["Audit"]:
    from ..audit import audit_handler, extremes, recorded_queries
    from ..audit.runs import audited_runs, with_noise_at_node

    audits = []
    with console.status("Recording the protocol's queries") as status:
        if noise != "user":
            queries = with_noise_at_node(protocol, dim, epsilon, noise)
        else:
            runs = list(audited_runs()[protocol](dim, epsilon))
            queries = [query for run in runs for query in recorded_queries(*run)]
        for number, query in enumerate(queries, 1):
            status.update(f"Auditing query {number} of {len(queries)}: {query.statistic}")
            people = extremes(query, dim)
            audits.append(audit_handler(query, people, num_reports=reports, seed=seed))
    return audits


def _step(epsilon: float, dim: int, reports: int, seed: int | None) -> list["NetworkAudit"]:
    from ..audit import audit_network

    with console.status("Sending a training step to silos"):
        return [audit_network(epsilon, dim, num_reports=reports, seed=seed)]


def _plain(audit: Any) -> dict[str, Any]:
    """Return an audit's results for JSON: its attributes, with names in place of the query."""
    plain = {**vars(audit), "passed": audit.passed}
    if (query := plain.pop("query", None)) is not None:
        plain["statistic"] = query.statistic
        plain["mechanism"] = type(query.randomizer).__name__
    return plain


def _table(audits: list["Audit"]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("statistic, mechanism, worst pair", overflow="fold")
    for name in ("claimed", "measured", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("passed", no_wrap=True)
    for found in audits:
        tried = [found.query.statistic, type(found.query.randomizer).__name__]
        tried += [" / ".join(found.worst_pair), *_failed(found)]
        table.add_row(
            "\n".join(tried),
            f"{found.claimed:g}",
            f"{found.measured:.3f}",
            "" if found.exact is None else f"{found.exact:.6f}",
            "yes" if found.passed else "no",
        )
    return table


def _step_shown(found: "NetworkAudit") -> str:
    told = (
        f"One step of a linear network: claimed epsilon {found.claimed:g} at delta "
        f"{found.delta:g}, measured {found.measured:.3f} at least. One record moved a sum by "
        f"{found.moved:.4g} lengths of a gradient, and at most 2 is allowed (replies are rounded "
        "to four bytes)."
    )
    return "\n".join([told, *_failed(found)])


def _failed(found: "Checked") -> list[str]:
    """Return a list with one line about the checks that failed; it is empty if none failed."""
    failed = [name for name, passed in found.checks.items() if not passed]
    return [f"fails: {', '.join(failed)}"] if failed else []
