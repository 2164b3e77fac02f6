"""The whole attack on an app: what its data are made to be, what is compared, what is found."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from flwr.app import Message

from ...accounting import gaussian_noise_multiplier
from ...validation import check_fraction, check_positive
from . import deterministic_leaks
from .claims import Claims
from .compared import Runs, only_errors
from .conversation import PATIENCE, Conversation, overheard
from .data import stand_in
from .data.sources import Sources
from .data.variants import BASE, Variant, other_records, that_differ, variants
from .errors import CannotAuditError
from .findings import AppAudit
from .judged import judge, tell
from .loading import AuditedApp, RunConfig
from .node import Node
from .noise import repeats
from .noise.clocks import with_the_clock
from .noise.measured import USUAL_DELTA, Bound, bounds, furthest
from .noise.moments import Moments, moments
from .noise.steady import Effect, Effects
from .noise.structured_noise import gaps
from .restart import Asked, after_restarts

CONFIDENCE = 0.999
_NODES = 10
_MOST_NODES = 10_000  # that a server gets without being asked for: their census takes seconds
_FEWEST_OF_PAIR = 12  # runs that show what of noise is bare
_FEWEST, _MOST = 4, 24  # runs of each data set that are compared
_LEAST_CONFIRMED, _MOST_CONFIRMED = 20, 6000  # runs of either data set that confirm a bound
_OTHER_RECORDS = 30  # that are changed, beside the first
_OF_SIZE = 144.0  # times the squared noise over sensitivity: an error of an eighth
_FORMS_APART = 0.3  # of the probability of what there is in replies beside numbers
_WITHOUT_CLAIM = 400  # of them, where there is none to contradict
_MESSAGES = 8  # of a run that are attacked, where they are slow
_ALL_BY = 200  # runs of all of them that have to fit into the time, so that all are attacked


@dataclass(frozen=True)
class Options:
    """How an app is attacked.

    Attributes
    ----------
    sample : Path or None
        A file of rows: ``data-path`` in ``node_config``, and what ``flwr_datasets`` returns if it
        is not installed.
    loader : str or None
        The app's function that returns its data; None: it is looked for.
    config : dict
        Settings other than the app's own.
    node_config : dict
        What else a node's operator tells the app.
    nodes : int or None
        Number of nodes; None: those that the project declares, or 10, or as many as a server of
        this library starts with.
    claim, delta : float or None
        What is claimed of a whole run; None: what is attached claims.
    unit : str or None
        ``node`` or ``record``; None: what is attached protects, ``node`` by default.
    seconds : float
        How long noise is measured, about.

    Raises
    ------
    ValueError
        If one is out of its range, or there is no such file.
    """

    sample: Path | None = None
    loader: str | None = None
    config: RunConfig | None = None
    node_config: RunConfig | None = None
    nodes: int | None = None
    claim: float | None = None
    delta: float | None = None
    unit: str | None = None
    seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.claim is not None:
            check_positive("claim", self.claim)
        if self.delta is not None and self.delta != 0:
            check_fraction("delta", self.delta)
        if self.unit not in (None, "node", "record"):
            raise ValueError(f"Expected unit in ['node', 'record'], got {self.unit!r}.")
        check_positive("seconds", self.seconds)
        if self.sample is not None and not self.sample.is_file():
            raise ValueError(f"Expected sample to be a file, got {self.sample}.")


def audit_app(
    folder: Path, options: Options, announce: Callable[[str], None] = lambda step: None
) -> AppAudit:
    """Attack the Flower app in a directory.

    Parameters
    ----------
    folder : Path
        The app's directory.
    options : Options
        How.
    announce : callable, optional
        Is told what is done next, and about how long it takes.

    Returns
    -------
    AppAudit
        What was found and tried.

    Raises
    ------
    CannotAuditError
        If the app cannot be attacked: the text says what to give.
    """
    app = AuditedApp(folder, options.config or {}, options.sample)
    node_config: dict[str, Any] = dict(options.node_config or {})
    if options.sample is not None:
        node_config["data-path"] = str(options.sample.resolve())
    claims = Claims(options.claim, options.delta, options.unit)
    talk, num_nodes = _overheard(app, options, node_config, claims, announce)
    announce(f"Step 2 of 5: finding where the app's data come in, in {len(talk.messages)} messages")
    sources = Sources(app)
    whole = Node(app, talk.messages, num_nodes, node_config, sources, claims)
    if options.loader is not None:
        sources.named(options.loader)
    else:
        few = Node(app, _first(talk.messages), num_nodes, node_config, sources, claims)
        sources.find(few.look)
    report = AppAudit(app.folder.name)
    chosen, seconds, all_by = _affordable(whole, talk, options.seconds)
    if left := len(talk.messages) - len(chosen):
        report.untried.append(
            f"{left} of {len(talk.messages)} messages, since the app is slow: "
            f"some --seconds {all_by} would attack all"
        )
    if options.sample is not None and not ({"data-path"} & whole.asked_for or stand_in.served):
        raise CannotAuditError(
            "The app read no sample: it asked neither its operator for data-path "
            "(context.node_config) nor a package that --sample stands in for, which are "
            f"{' and '.join(stand_in.NAMES)} where they are not installed."
        )
    node = Node(app, chosen, num_nodes, node_config, sources, claims)
    with sources.answered_for(node.look):
        base = _attack(node, talk, seconds, report, options, announce)
    announce("Step 5 of 5: asking the app in processes that have just started")
    asked = Asked(app.folder, options.sample, options.config or {}, node_config, num_nodes, chosen)
    report.findings.extend(after_restarts(asked, node, base))
    return report


def _overheard(
    app: AuditedApp,
    options: Options,
    node_config: dict[str, Any],
    claims: Claims,
    announce: Callable[[str], None],
) -> tuple[Conversation, int]:
    """Run the app's server with the nodes that are wanted, or with as many as it starts with."""
    num_nodes = options.nodes or app.num_nodes or _NODES
    while True:
        announce(
            f"Step 1 of 5: running the app's server with {num_nodes} nodes, {PATIENCE:g} s of work "
            "at most"
        )
        talk = overheard(app, num_nodes, node_config, claims)
        if talk.needed is None or talk.needed <= num_nodes:
            return talk, num_nodes
        if options.nodes is not None or talk.needed > _MOST_NODES:
            raise CannotAuditError(
                f"The server refused {num_nodes} nodes before anybody was asked: use --nodes "
                f"{talk.needed}. It said: {talk.ended}"
            )
        num_nodes = talk.needed
        app.restore()


def _first(messages: list[Message]) -> list[Message]:
    """Return the first messages of each type: the data that come in later come in with these."""
    found: dict[str, list[int]] = {}
    for number, message in enumerate(messages):
        found.setdefault(message.metadata.message_type, []).append(number)
    each = max(_MESSAGES // len(found), 1)
    return [messages[number] for number in sorted(n for of in found.values() for n in of[:each])]


def _affordable(whole: Node, talk: Conversation, budget: float) -> tuple[list[Message], float, int]:
    """Return the messages that are attacked, how long they take, and which budget takes all."""
    started = time.process_time()
    whole.look(0)
    seconds = time.process_time() - started
    all_by = math.ceil(seconds * _ALL_BY)
    if seconds * _ALL_BY <= budget or len(talk.messages) <= _MESSAGES // 2:
        return talk.messages, seconds, all_by
    kinds: dict[str, list[Message]] = {}
    for message in talk.messages:
        kinds.setdefault(message.metadata.message_type, []).append(message)
    each = max(1, _MESSAGES // 2 // len(kinds)) if seconds * 20 > budget else _MESSAGES // 2
    kept = {id(m) for found in kinds.values() for m in found[:each]}
    chosen = [m for m in talk.messages if id(m) in kept]
    return chosen, seconds * len(chosen) / len(talk.messages), all_by


def _attack(
    node: Node,
    talk: Conversation,
    seconds: float,
    report: AppAudit,
    options: Options,
    announce: Callable[[str], None],
) -> Runs:
    claims, sources = node.claims, node.sources
    tried = variants(claims.unit, sources.others_differ, sources.targets_alone)
    tried = that_differ(tried, lambda note: sources.shown(note, node.look))
    if not sources.found:
        tried = [Variant(f"partition {i + 1}'s data", None, i) for i in (1, 2, 3)]
    few = int(options.seconds / 2 / max(seconds * (len(tried) + 1), 1e-9))
    few = min(max(few, _FEWEST), _MOST)
    announce(
        f"Step 3 of 5: comparing replies on {len(tried) + 1} data sets, {few} runs each: some "
        f"{few * (len(tried) + 1) * seconds:.0f} s"
    )
    started = time.process_time()
    base = node.runs(BASE, few)
    # The first look is slower than all others: an app warms up.
    seconds = min(seconds, (time.process_time() - started) / few)
    report.findings.extend(with_the_clock(node, base))
    node.mark(base)
    found = {BASE: moments(base)}
    errors = only_errors([message.metadata.message_type for message in node.messages], base)
    report.untried.extend(f"{kind}: it answers with nothing but {e}" for kind, e in errors.items())
    comparison = deterministic_leaks.Comparison(node, base, seconds)
    for variant in tried:
        runs = node.runs(variant, few)
        comparison.add(variant, runs)
        if variant.valid:
            found[variant] = moments(runs)
    others: list[Variant] = []
    if claims.unit == "record":
        affordable = int(options.seconds / 2 / max(seconds * _FEWEST, 1e-9))
        others = other_records(sources.records, min(affordable, _OTHER_RECORDS))
    for variant in others:
        comparison.add(variant, node.runs(variant, _FEWEST))
    report.findings.extend(comparison.findings())
    report.findings.extend(repeats.between_rounds(node, base))
    pairs = _furthest(node, found, others)
    measured: dict[int, Bound] = {}
    if pairs:
        epsilon, delta = claims.of_run()
        wanted = _WITHOUT_CLAIM if epsilon is None else _runs_for(epsilon, delta)
        how_many = int(options.seconds / max(seconds, 1e-9) / 5)
        how_many = min(
            max(how_many, _LEAST_CONFIRMED), max(wanted, _WITHOUT_CLAIM), _MOST_CONFIRMED
        )
        # Data sets that are furthest apart may have a round number in common.
        compared = dict.fromkeys((BASE, *pairs[0][0]))
        report.findings.extend(gaps(node, list(compared), max(few, _FEWEST_OF_PAIR)))
        confidence = 1 - (1 - CONFIDENCE) / len(pairs)
        announce(
            f"Step 4 of 5: measuring noise on {2 * len(pairs)} data sets, {how_many} runs each: "
            f"some {2 * len(pairs) * how_many * seconds:.0f} s"
        )
        for pair, effect in pairs:
            for number, bound in bounds(node, pair, effect, how_many, delta, confidence).items():
                measured[number] = max(
                    bound, measured.get(number, bound), key=lambda each: each.epsilon
                )
        most = _seen_by_counting(how_many, confidence)
        report.tried.append(
            f"noise was measured by {how_many} runs on either of two data sets; what is not normal "
            f"or Laplace noise shows an epsilon of {most:.2g} by so many, or less"
        )
    elif not comparison.any and sources.found:
        report.untried.append("anything that changes a reply: no change of the data did")
    elif not comparison.any:
        raise CannotAuditError(
            "Nothing that was tried changed any reply: the app's data were not reached. "
            "No function that returns data was found. "
            + (f"The server ended early: {talk.ended.rstrip('.')}. " if talk.ended else "")
            + "".join(f"Not tried: {limit}. " for limit in talk.limits)
            + "Name the one that does with --loader MODULE:FUNCTION, or give rows by --sample."
        )
    judge(node, talk, measured, report)
    if len(errors) == len(talk.kinds()) and not report.found:
        raise CannotAuditError(
            "The app answers with errors only, on its own data: " + "; ".join(errors.values())
        )
    tell(node, talk, tried, len(others), few, report)
    return base


def _runs_for(epsilon: float, delta: float) -> int:
    """Return how many runs a claim is contradicted with, by events or by the noise's size."""
    by_size = gaussian_noise_multiplier(epsilon, delta or USUAL_DELTA)
    return int(max(12 * math.exp(min(epsilon, 12.0)), _OF_SIZE * by_size**2))


def _seen_by_counting(runs: int, confidence: float) -> float:
    """Return the largest epsilon that an event shows which is always or never seen."""
    never = 1 - ((1 - confidence) / 2) ** (1 / runs)
    return math.log((1 - never) / never)


def _furthest(
    node: Node, found: dict[Variant, Moments], others: list[Variant]
) -> list[tuple[tuple[Variant, Variant], Effect]]:
    """Return data sets that are told apart best, and how they move noisy replies.

    By numbers, and by what there is beside them if that varies and depends on data; ``others``
    were run too seldom for what is not drawn alike.
    """
    pairs: list[tuple[tuple[Variant, Variant], Effect]] = []
    if len(found) < 2:
        return pairs
    if found[BASE].noisy:
        effects = Effects(node, found[BASE])
        for variant in (*found, *others):
            if variant != BASE:
                effects.add(variant)
        apart = effects.furthest()
        pairs += [apart] if apart is not None else []
    if not pairs and (pair := furthest(found)) is not None:
        pairs.append((pair, {}))
    one, two = max(
        combinations(found, 2), key=lambda pair: found[pair[0]].apart_in_form(found[pair[1]])
    )
    surely = len({number for number, _ in found[one].forms}) == len(found[one].forms)
    surely &= len({number for number, _ in found[two].forms}) == len(found[two].forms)
    if found[one].apart_in_form(found[two]) > _FORMS_APART and not surely:
        pairs.append(((one, two), {}))
    return pairs
