"""What was measured and is known, beside what is claimed; and what was tried, in words."""

import math
from collections import Counter

from .conversation import Conversation
from .data.variants import Variant
from .findings import AppAudit, Finding, Worth
from .loading import quiet
from .node import Node
from .noise.events import Bound
from .noise.measured import USUAL_DELTA
from .noise.scores import WHOLE_RUN

_OF_ITS_GRID = 1.05  # its accountant rounds up


def judge(node: Node, talk: Conversation, measured: dict[int, Bound], report: AppAudit) -> None:
    """Compare what was measured, and what is known, with what is claimed."""
    claims, kinds = node.claims, talk.kinds()
    epsilon, delta = claims.of_run()
    exact = 0.0 if claims.local else math.nan
    for kind, local in claims.local.items():
        answers = kinds.get(kind, 0)
        true = local.true_epsilon(answers, claims.delta)
        exact += true
        claimed = local.epsilon if claims.epsilon is None else claims.epsilon
        if true > claimed * (1 + 1e-6):
            report.findings.append(
                Finding(
                    "the claim is too small",
                    f"{kind}, {answers} answer{'s' * (answers > 1)}",
                    f"{local}: {answers} answer{'s' * (answers > 1)} with noise {local.noise:.3g} "
                    f"times the clip cost epsilon {true:.4g} at delta {delta:g}, "
                    f"{local.true_epsilon(1, claims.delta):.4g} each; claimed {claimed:g}",
                )
            )
    if claims.opacus and claims.unit == "record":  # its accountant knows no other
        exact = _of_opacus(node, kinds, report)
    whole = measured.get(WHOLE_RUN)
    reached = max((bound.epsilon for bound in measured.values()), default=0.0)
    if any(finding.bare for finding in report.found):
        reached = math.inf
    report.worth.append(
        Worth("the whole run", epsilon, reached, None if math.isnan(exact) else exact, delta)
    )
    by_kind: dict[str, Bound] = {}
    for number, bound in measured.items():
        if number == WHOLE_RUN:
            continue
        kind = node.messages[number].metadata.message_type
        if kind not in by_kind or bound.epsilon > by_kind[kind].epsilon:
            by_kind[kind] = bound
    for kind, bound in by_kind.items():
        report.worth.append(Worth(f"one {kind}", None, bound.epsilon, None, delta))
    best = max(measured.values(), key=lambda bound: bound.epsilon, default=None)
    if best is None or best.epsilon <= (epsilon or 0.0):
        return
    where = "the whole run"
    if best is not whole:
        where = next(kind for kind, bound in by_kind.items() if bound.epsilon == best.epsilon)
    promise = "no claim is known (--claim)" if epsilon is None else f"claimed {epsilon:g}"
    report.findings.append(
        Finding(
            "noisy replies tell data apart",
            where,
            f"epsilon is at least {best.epsilon:.3g} at delta {delta:g}, {promise}; "
            f"'{best.pair[0]}' and '{best.pair[1]}' by {best.by}",
        )
    )


def _of_opacus(node: Node, kinds: dict[str, int], report: AppAudit) -> float:
    """Return what Opacus' accountant says of a run, and compare it with the claim."""
    claims = node.claims
    claims.engines.clear()
    node.first()
    answered = Counter(message.metadata.message_type for message in node.messages)
    delta = claims.of_run()[1] or USUAL_DELTA
    try:
        with quiet():
            epsilon = claims.of_opacus(answered, kinds, delta)
    except (ValueError, RuntimeError, OverflowError):  # too little noise for its arithmetic
        epsilon = math.inf
    epsilon = math.inf if math.isnan(epsilon) else epsilon
    if claims.epsilon is not None and epsilon > claims.epsilon * _OF_ITS_GRID:
        report.findings.append(
            Finding(
                "the claim is too small",
                ", ".join(sorted({kind for kind, _ in claims.engines})),
                f"{'; '.join(claims.opacus)}: by its own accountant all rounds cost epsilon "
                f"{epsilon:.4g} at delta {delta:g}; claimed {claims.epsilon:g}",
            )
        )
    return epsilon


def tell(
    node: Node, talk: Conversation, tried: list[Variant], others: int, few: int, report: AppAudit
) -> None:
    """Say what was tried, on how many other records, and what was not."""
    sources = node.sources
    kinds = ", ".join(f"{count} {kind}" for kind, count in talk.kinds().items())
    report.tried[:0] = [
        f"messages of a run to one node: {kinds}; attacked: {len(node.messages)}",
        "data came from "
        + (
            f"{', '.join(s.label for s in sources.found)} ({sources.records} records)"
            if sources.found
            else "the app's own partitions, taken as they are"
        ),
        f"neighbours differ in one {node.claims.unit}'s data; {len(tried)} of them were tried, "
        f"{few} runs each: {'; '.join(variant.name for variant in tried)}"
        + (f"; and one of {others} other records, less often" if others else ""),
    ]
    if node.claims.named:
        report.tried.append("protection seen at work: " + "; ".join(node.claims.named))
    report.untried.extend(talk.limits)
    if talk.ended:
        report.untried.append(f"the server ended early: {talk.ended.rstrip('.')}")
    if not sources.found:
        report.untried.append("single records: no function that returns data was found (--loader)")
    if node.claims.wrappers:
        report.untried.append("what others than the server see: wrappers add noise on the server")
    if node.claims.own_kinds:
        report.untried.append(
            "what `ldp-flower audit PROTOCOL` does, which knows this library's clients from inside "
            "and is the better tool for them"
        )
    report.untried.extend(
        [
            "how long a reply takes, and ways out beside replies (files, network, logs)",
            "other data, other settings, other orders of messages than those above",
        ]
    )
