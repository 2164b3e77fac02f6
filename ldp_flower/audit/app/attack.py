"""Audit of an app: it collects messages and data, compares replies, and reports findings."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...validation import PlainFields, check_fraction, check_integer, check_positive
from .claims import Claims
from .classifier import RunSummary, furthest, lower_bound
from .findings import AppAudit, CannotAuditError, Finding, Worth
from .leaks import Leaks, stacked
from .loading import AuditedApp, RunConfig
from .node import LAST_BITS, AuditedNode, Conversation, Transcript, run_server
from .sources import Sources
from .variants import BASE, Variant, arrays, digest, other_records, variants

CONFIDENCE = 0.999
_NODES = 10
_MIN_RUNS, _MAX_RUNS = 4, 40  # number of compared runs on each data set
_OTHER_RECORDS = 30  # number of records that are changed, in addition to the first
_PER_CLAIM = 45.0  # times exp(claim): runs on each data set, of which at least half are judged
_MIN_JUDGED, _MAX_JUDGED = 1500, 12_000  # runs on each data set, if the CPU time suffices
_RESTARTS = 3  # number of restarts whose noise is compared


@dataclass(frozen=True)
class Options(PlainFields):
    """Options of an audit of an app.

    ``loader`` names the app's function that returns its data; by default, it is searched.
    ``config`` and ``node_config`` are settings of the app and of a node's operator. ``nodes`` is
    the number of nodes, by default the project's number, or 10. ``claim``, ``delta`` and ``unit``
    (``node`` or ``record``) are the claim for a whole run, by default that of the attached
    mechanisms. ``runs`` is the number of compared runs with noise on each data set, by default as
    many as take ``seconds`` of CPU time. With a given number of runs, the audit is the same on any
    machine.
    """

    loader: str | None = None
    config: RunConfig | None = None
    node_config: RunConfig | None = None
    nodes: int | None = None
    claim: float | None = None
    delta: float | None = None
    unit: str | None = None
    seconds: float = 10.0
    runs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes is not None:
            check_integer("nodes", self.nodes, 1)
        if self.claim is not None:
            check_positive("claim", self.claim)
        if "ledger-path" in (self.node_config or {}):
            raise ValueError(
                "Expected node_config without ledger-path: an audit would spend the budgets there."
            )
        if self.delta is not None and self.delta != 0:
            check_fraction("delta", self.delta)
        if self.unit not in (None, "node", "record"):
            raise ValueError(f"Expected unit in ['node', 'record'], got {self.unit!r}.")
        check_positive("seconds", self.seconds)
        if self.runs is not None:
            check_integer("runs", self.runs, 1)

    def affordable(self, seconds: float) -> int:
        """Return the number of runs on each of two data sets, if a run takes ``seconds``."""
        return int(self.seconds / (2 * seconds)) if self.runs is None else self.runs


def audit_app(
    folder: Path, options: Options, announce: Callable[[str], None] = lambda step: None
) -> AppAudit:
    """Attack the Flower app in a directory; ``announce`` is called with the name of each step.

    Raises
    ------
    CannotAuditError
        If the app cannot be attacked; the message says what to provide.
    """
    app = AuditedApp(folder, options.config or {})
    node_config: dict[str, Any] = dict(options.node_config or {})
    claims = Claims(options.claim, options.delta, options.unit)
    num_nodes = options.nodes or app.num_nodes or _NODES
    while True:
        announce(f"Step 1 of 5: running the app's server with {num_nodes} nodes")
        talk = run_server(app, num_nodes, node_config, claims)
        if talk.needed is None:
            break
        if options.nodes is not None or talk.needed <= num_nodes:
            raise CannotAuditError(
                f"The server refused {num_nodes} nodes before anybody was asked: use --nodes "
                f"{talk.needed}. It said: {talk.ended}"
            )
        num_nodes = talk.needed
        app.restore()
    sources = Sources(app)
    node = AuditedNode(app, talk.messages, num_nodes, node_config, sources, claims)
    announce(f"Step 2 of 5: finding where the app's data come in, in {len(talk.messages)} messages")
    if options.loader is not None:
        sources.named(options.loader)
    else:
        sources.find(node.look)
    report = AppAudit(app.folder.name)
    with sources.replaced():
        base = _attack(node, talk, report, options, announce)
    announce("Step 5 of 5: importing the app anew")
    report.found.extend(_after_restarts(node, base))
    return report


def _attack(
    node: AuditedNode,
    talk: Conversation,
    report: AppAudit,
    options: Options,
    announce: Callable[[str], None],
) -> list[Transcript]:
    claims, sources = node.claims, node.sources
    node.look(0)
    records, known = max(map(len, arrays(sources.returned)), default=0), {digest(sources.returned)}
    every = variants(claims.unit)
    if claims.unit == "record":
        every += other_records(records, _OTHER_RECORDS)
    tried = []
    for variant in every if sources.found else ():
        node.runs(variant, 1)
        if (made := digest(sources.returned)) not in known:  # skip variants without a new change
            known.add(made)
            tried.append(variant)
    if not sources.found:
        tried = [Variant(f"partition {i + 1}'s data", None, i) for i in (1, 2, 3)]
    started = time.process_time()
    node.runs(BASE, _MIN_RUNS)
    seconds = (time.process_time() - started) / _MIN_RUNS + 1e-6
    few = options.affordable(seconds) // (len(tried) + 1)
    few = min(max(few, _MIN_RUNS), _MAX_RUNS)
    announce(f"Step 3 of 5: comparing replies on {len(tried) + 1} data sets, {few} runs each")
    started = time.process_time()
    base = node.runs(BASE, few)
    seconds = min(seconds, (time.process_time() - started) / few + 1e-6)  # first runs are slower
    leaks, summaries = Leaks(node, base, options.runs, seconds), {BASE: RunSummary(base)}
    for variant in tried:
        runs = node.runs(variant, few)
        leaks.add(variant, runs)
        summaries[variant] = RunSummary(runs)
    report.found.extend(leaks.findings())
    replies = [
        (kind, reply.form["reply"])
        for run in base
        for kind, reply in zip(node.kinds, run, strict=True)
    ]
    answered = {kind for kind, reply in replies if reply == "content"}
    errors = {kind: reply for kind, reply in replies if kind not in answered}
    bound, by = 0.0, ""
    if report.found:
        report.untried.append("noise, since replies reveal data without any: mend these first")
    elif pair := furthest(summaries, lambda variant: RunSummary(node.runs(variant, 3 * few))):
        epsilon, delta = claims.of_run()
        wanted = max(_PER_CLAIM * math.exp(min(epsilon or 0.0, 20.0)), _MIN_JUDGED)
        how_many = int(min(wanted, max(options.affordable(seconds), 60), _MAX_JUDGED))
        announce(f"Step 4 of 5: distinguishing two of them: some {2 * how_many * seconds:.0f} s")
        looks = (summaries[pair[0]], summaries[pair[1]])
        bound, name = lower_bound(node, pair, looks, how_many, delta, 1 - CONFIDENCE)
        which = f"'{pair[0].name}' and '{pair[1].name}'"
        by = f"{name} distinguished {which}, with {how_many} runs each"
        report.tried.append(by)
    elif not leaks.by and not sources.found and len(errors) < len(talk.kinds):
        raise CannotAuditError(
            "Nothing that was tried changed any reply: the app's data were not reached. Name the "
            "function that returns them with --loader MODULE:FUNCTION."
        )
    elif not leaks.by:
        report.untried.append("anything that changes a reply: no change of the data did")
    _judge(node, talk, bound, by, report)
    if len(errors) == len(talk.kinds) and not report.found:
        raise CannotAuditError(
            "The app answers with errors only, on its own data: " + "; ".join(errors.values())
        )
    kinds = ", ".join(f"{count} {kind}" for kind, count in talk.kinds.items())
    labels = ", ".join(label for label, _ in sources.found) or "its own partitions"
    report.tried[:0] = [
        f"messages of a run to one node: {kinds}; attacked: {len(node.messages)}",
        f"data came from {labels} ({records} records)",
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
    return base


def _judge(node: AuditedNode, talk: Conversation, bound: float, by: str, report: AppAudit) -> None:
    """Compare the measured bound, and the exact costs of known mechanisms, with the claim."""
    claims = node.claims
    epsilon, delta = claims.of_run()
    exact = 0.0 if claims.local else None
    reached = math.inf if report.found else bound
    for kind, local in claims.local.items():
        answers, of_one = talk.kinds[kind], local.delta
        true = local.true_epsilon(answers, of_one if claims.delta is None else claims.delta)
        exact = (exact or 0.0) + true
        claimed = local.epsilon if claims.epsilon is None else claims.epsilon
        if true > claimed * (1 + 1e-6):
            many = f"{answers} answer{'s' * (answers > 1)}"
            evidence = (
                f"{local}: {many} with noise {local.noise:.3g} times the clip cost epsilon "
                f"{true:.4g} at delta {delta:g}; claimed {claimed:g}"
            )
            report.found.append(Finding("the claim is too small", f"{kind}, {many}", evidence))
    report.worth.append(Worth("the whole run", epsilon, reached, exact, delta))
    if bound > (epsilon or 0.0):
        promise = "no claim is known (--claim)" if epsilon is None else f"claimed {epsilon:g}"
        evidence = f"epsilon is at least {bound:.3g} at delta {delta:g}, {promise}: {by}"
        report.found.append(Finding("noisy replies distinguish data", "the whole run", evidence))


def _after_restarts(node: AuditedNode, base: list[Transcript]) -> Iterator[Finding]:
    """Yield findings for arrays whose noise varies between runs but repeats after restarts."""
    varying: dict[tuple[str, str], tuple[int, Any]] = {}
    for number, kind in enumerate(node.kinds):
        for path in base[0][number].numbers:
            rows = stacked([run[number] for run in base], path)
            # If rows differ in all runs, equal rows after restarts are no coincidence.
            random = rows.size and len({row.tobytes() for row in rows}) == len(rows)
            if random and not path.endswith(LAST_BITS):
                varying.setdefault((kind, path), (number, (rows != rows[0]).any(axis=0)))
    restarted = [node.after_restart() for _ in range(_RESTARTS if varying else 0)]
    for (kind, path), (number, noisy) in varying.items():
        rows = stacked([run[number] for run in restarted], path)
        if rows.shape[1:] == noisy.shape and (rows[:, noisy] == rows[0, noisy]).all():
            evidence = f"{_RESTARTS} times the app was imported anew and sent the same noise"
            yield Finding("noise is the same after a restart", f"{kind}: {path}", evidence)
