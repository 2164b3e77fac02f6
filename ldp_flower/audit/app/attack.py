"""Audit of an app: it collects messages and data, compares replies, and reports findings."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

from .classifier import Pair, furthest, lower_bound
from .data_forms import arrays, digest
from .findings import AppAudit, CannotAuditError, Finding
from .leaks import differences, leaks
from .loader import DECLARE
from .loading import AuditedApp
from .looks import LAST_BITS, Look
from .node import AuditedNode
from .options import Options
from .variants import BASE, Variant, variants

CONFIDENCE = 0.999
_ONLY_ERRORS = "The app answers with errors only, on its own data: "
_MIN_RUNS, _MAX_RUNS = 4, 40  # number of compared runs on each data set
_PER_CLAIM = 45.0  # times exp(claim): runs on each data set, of which at least half are judged
_MIN_JUDGED, _MAX_JUDGED = 1500, 12_000  # runs on each data set, if the CPU time suffices


def audit_app(
    folder: Path, options: Options, announce: Callable[[str], None] = lambda step: None
) -> AppAudit:
    """Attack the Flower app in a directory, and return the findings.

    ``announce`` is called with a text about each step.

    Raises
    ------
    CannotAuditError
        If the app cannot be attacked; the message says what to provide.
    """
    app = AuditedApp(folder, options.config or {})
    node = AuditedNode(app, options)
    _hear(node, announce)
    announce(f"Step 2 of 5: changing the app's data, for {len(node.messages)} messages")
    data, tried = _neighbours(node)
    report = AppAudit(app.folder.name)
    few = node.affordable() // (len(tried) + 1)
    few = min(max(few, _MIN_RUNS), _MAX_RUNS)
    announce(f"Step 3 of 5: comparing replies on {len(tried) + 1} data sets, {few} runs each")
    looks = [node.look(variant, few) for variant in (BASE, *tried)]
    seen = [found for look in looks[1:] for found in differences(looks[0], look)]
    report.found += leaks(node, seen, few)
    announce("Step 4 of 5: importing the app again")
    report.found += _after_restart(node, few)
    errors, claims = _errors(node, looks[0]), node.claims
    if report.found:
        report.measured = math.inf
        report.untried.append("noise, since replies reveal data without any: mend these first")
    elif pair := furthest(looks, lambda variant: node.look(variant, 3 * few)):
        _distinguish(node, pair, announce, report)
    elif not seen:
        report.untried.append("anything that changes a reply: no change of the data did")
    _judge(node, report)
    if len(errors) == len(node.heard) and not report.found:
        raise CannotAuditError(_ONLY_ERRORS + "; ".join(errors.values()))
    kinds = ", ".join(f"{count} {kind}" for kind, count in node.heard.items())
    records = max(map(len, arrays(data)))
    report.tried[:0] = [
        f"messages of a run to one node: {kinds}; attacked: {len(node.messages)}",
        f"data came from {', '.join(node.loaders)} ({records} records)",
        f"neighbours differ in one {claims.unit}'s data; {len(tried)} of them were tried, "
        f"{few} runs each: {'; '.join(variant.name for variant in tried)}",
        *(f"seen at work: {mechanism}" for mechanism in [*claims.local.values(), *claims.opacus]),
    ]
    report.untried += [
        *(f"{kind}: it answers with nothing but {error}" for kind, error in errors.items()),
        *(f"values of ldp-flower's reports on {kind}, which `ldp-flower audit PROTOCOL` attacks"
          for kind in sorted(claims.own_kinds)),
        *("updates that are 0 or not finite, which LocalDpMod shows" for _ in claims.local),
        "how long a reply takes, and ways out beside replies (files, network, logs)",
        "other data, other settings, other orders of messages than those above",
    ]  # fmt: skip
    return report


def _hear(node: AuditedNode, announce: Callable[[str], None]) -> None:
    """Run the app's server. If it refuses, run it again with the number of nodes that it names."""
    while True:
        announce(f"Step 1 of 5: running the app's server with {node.num_nodes} nodes")
        error = node.hear()
        needed: int | None = getattr(error, "needed", None)
        if needed is None:
            return
        if node.options.nodes is not None or needed <= node.num_nodes:
            raise CannotAuditError(
                f"The server refused {node.num_nodes} nodes before anybody was asked: use --nodes "
                f"{needed}. It said: {type(error).__name__}: {error}"
            )
        node.num_nodes = needed


def _neighbours(node: AuditedNode) -> tuple[list[object], list[Variant]]:
    """Return the data that the app loads, and the variants of them to compare.

    No two variants give the same data.
    """
    base = node.look(BASE, _MIN_RUNS)
    data = list(node.loaded)
    loaders = ", ".join(node.loaders)
    if not data and len(errors := _errors(node, base)) == len(node.heard):
        raise CannotAuditError(_ONLY_ERRORS + "; ".join(errors.values()))
    if not data:
        raise CannotAuditError(f"The node answered without a call of {loaders}. {DECLARE}")
    if not arrays(data):
        kinds = sorted({type(value).__name__ for value in data})
        raise CannotAuditError(
            f"Expected arrays, tables, tensors, data loaders or lists of records from {loaders}, "
            f"got {', '.join(kinds)}. {DECLARE}"
        )
    known, tried = {digest(data)}, []
    for variant in variants(node.claims.unit, max(map(len, arrays(data)))):
        made = digest([variant.of(value) for value in data])
        if made not in known:
            known.add(made)
            tried.append(variant)
    return data, tried


def _errors(node: AuditedNode, base: Look) -> dict[str, str]:
    """Return one error for each type of message to which the app replies with errors only."""
    replies = {(node.kinds[i], form) for (i, path), form in base.forms if path == "reply"}
    answered = {kind for kind, form in replies if form == "content"}
    return {kind: form for kind, form in sorted(replies) if kind not in answered}


def _after_restart(node: AuditedNode, few: int) -> Iterator[Finding]:
    """Yield findings for arrays whose noise varies between runs but repeats after a restart."""
    starts = [node.runs(BASE, few) for _ in range(2)]
    repeated = set()
    for place in starts[0][0].numbers:
        sent, again = (
            [run.numbers[place].tobytes() for run in runs if place in run.numbers]
            for runs in starts
        )
        # If arrays differ in all runs, equal arrays after a restart are not a coincidence.
        if sent == again and len({*sent}) == few and not place[1].endswith(LAST_BITS):
            repeated.add(f"{node.kinds[place[0]]}: {place[1]}")
    evidence = f"the app was imported again and sent the same noise, in all of {few} runs"
    for where in sorted(repeated):
        yield Finding("noise is the same after a restart", where, evidence)


def _distinguish(
    node: AuditedNode, pair: Pair, announce: Callable[[str], None], report: AppAudit
) -> None:
    """Report a lower bound on a run's epsilon, found by a classifier of two data sets."""
    epsilon, delta = node.claims.of_run()
    wanted = max(_PER_CLAIM * math.exp(min(epsilon or 0.0, 20.0)), _MIN_JUDGED)
    how_many = int(min(wanted, max(node.affordable(), 60), _MAX_JUDGED))
    announce(f"Step 5 of 5: distinguishing two of them: some {2 * how_many * node.seconds:.0f} s")
    report.measured, name = lower_bound(node, pair, how_many, delta, 1 - CONFIDENCE)
    which = " and ".join(f"'{look.variant.name}'" for look in pair)
    by = f"{name} distinguished {which}, with {how_many} runs each"
    report.tried.append(by)
    if report.measured > (epsilon or 0.0):
        promise = "no claim is known (--claim)" if epsilon is None else f"claimed {epsilon:g}"
        evidence = f"epsilon is at least {report.measured:.3g} at delta {delta:g}, {promise}: {by}"
        report.found.append(Finding("noisy replies distinguish data", "the whole run", evidence))


def _judge(node: AuditedNode, report: AppAudit) -> None:
    """Report a finding if the exact cost of a known mechanism exceeds the claim."""
    claims = node.claims
    report.claimed, delta = claims.of_run()
    for kind, local in claims.local.items():
        answers, of_one = node.heard[kind], local.delta
        true = local.true_epsilon(answers, of_one if claims.delta is None else claims.delta)
        report.exact = (report.exact or 0.0) + true
        claimed = local.epsilon if claims.epsilon is None else claims.epsilon
        if true > claimed * (1 + 1e-6):
            many = f"{answers} answer{'s' * (answers > 1)}"
            evidence = (
                f"{local}: {many} with noise {local.noise:.3g} times the clip cost epsilon "
                f"{true:.4g} at delta {delta:g}; claimed {claimed:g}"
            )
            report.found.append(Finding("the claim is too small", f"{kind}, {many}", evidence))
