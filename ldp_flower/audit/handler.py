"""Audit: try to break what a protocol's clients promise, and report how far one gets.

The attacks are on the whole client, called with messages as a server would: extreme users'
reports are distinguished, which bounds the privacy loss from below, and all that :class:`Audit`
lists is checked. Where a mechanism is exact, its largest log-ratio is computed from its thresholds.

A user who is left out because of its data is distinguished like any other output.

An audit cannot prove privacy; what it finds is wrong with a stated probability only.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from ..clients.statistics import OwnStatistics
from ..data.users import Users
from ..guarantee.messages import HASH_END, NodeKeys, Query
from ..randomness import derive
from ..simulation.grid import silenced
from ..validation import check_fraction, check_integer, check_seed, plain_arguments
from .distinguish import Sample, likeliest_events
from .enumeration import worst_epsilon
from .extreme_users import crowd, together
from .independence import independent, many_users
from .neighbours import compared
from .probe import Client, MakeApp, ldp_client_app
from .records import bounded
from .settings import kept

_CONFIRMED = 5  # events that are tested on fresh reports
_REPLAYED = 20  # nodes that are asked twice
_NEIGHBOURS = 12  # users on the node whose isolation is tested
_CHANGES = 3  # of the data of each of them


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What an audit found: a lower bound on the privacy loss, and checks by name."""

    #: Epsilon that is claimed.
    claimed: float
    #: The privacy loss is at least this, with probability ``confidence``.
    measured: float
    #: Probability with which ``measured`` is a lower bound.
    confidence: float
    #: Every check's name, and whether it found nothing.
    checks: dict[str, bool]

    @property
    def passed(self) -> bool:
        """True if nothing contradicts the claim."""
        return all(self.checks.values())


@dataclass(frozen=True, kw_only=True)
class Audit(Checked):
    """What an audit of one query found.

    The checks:

    * ``loss``: neither the measured nor the exact loss is above the claim;
    * ``completeness``: every user of every candidate was answered for by one report of the
      mechanism's form;
    * ``isolation``: every user's report ignored everybody else's data, and a sum of reports is
      theirs to the last bit: it has room for what no report shows;
    * ``replay``: the same query got the same bytes again;
    * ``own noise``: every user's noise was its own and the system's, question for question;
    * ``record bound``: one record moved a silo's sum, or one value that noise is added to, by no
      more than the noise is for; of other mechanisms nothing is asked;
    * of neighbouring nodes of a deployment: ``census``, the same byte by byte; ``reply's form``,
      the same metadata, names, types, sizes and texts, errors included, and as much randomness
      drawn; ``who answers``, those who are addressed and can pay, in order; ``ledger``, the
      mechanism's cost and the reply are on it when the reply leaves;
    * of an operator's settings: ``rehearsal``, the same bytes whatever the data, at no cost; ``row
      limit``, the replies of users without further rows; ``waiting``, no reply leaves before
      ``reply-after``, nor is dated earlier, and none while somebody else keeps its spend from being
      written.
    """

    query: Query
    #: The two users whom the reports distinguish best.
    worst_pair: tuple[str, str]
    #: The largest log-ratio from the mechanism's thresholds; None unless it is exact.
    exact: float | None


@plain_arguments
def audit_handler(
    query: Query,
    candidates: Mapping[str, Users],
    *,
    make_app: MakeApp | None = None,
    num_reports: int = 4000,
    confidence: float = 0.999,
    seed: int | None = None,
    statistics: OwnStatistics | None = None,
) -> Audit:
    """Audit a whole client handler on one query.

    Parameters
    ----------
    query : Query
        The query; it is put to all users of a node.
    candidates : mapping of str to Users
        Single users, of which the worst pair is searched: :func:`extreme_users`, or
        users with extreme items where the statistic feeds a mechanism for items.
    make_app : callable, optional
        Function from ``load_users`` and ``seed`` to the ClientApp under audit; by
        default :class:`ldp_flower.clients.LdpClientApp`.
    num_reports : int (default: 4000)
        Number of reports of either user that confirm a finding. The search for it
        spends a quarter of that on each candidate.
    confidence : float (default: 0.999)
        Probability with which the measured bound is below the true privacy loss.
    seed : int, optional
        Makes the audit reproducible; by default the system's randomness.
    statistics : mapping of type to callable, optional
        The app's own, as of :class:`ldp_flower.clients.LdpClientApp`; with ``make_app`` those
        of the app that it makes.

    Notes
    -----
    The most promising events are tested on fresh reports with Clopper-Pearson bounds
    and Bonferroni's correction for their number. Reports with different coins are
    pooled, for which these bounds stay valid (Hoeffding 1956). The mechanism's
    delta is taken off the larger probability first.

    Raises
    ------
    ValueError
        If there is no pair of candidates, a number is out of its range, or there are
        ``statistics`` beside ``make_app``.
    RuntimeError
        If the client refuses to answer.
    """
    check_integer("num_reports", num_reports, 100)
    check_fraction("confidence", confidence)
    check_seed("seed", seed)
    if len(candidates) < 2:
        raise ValueError(f"Expected at least 2 candidates, got {len(candidates)}.")
    if make_app is not None and statistics is not None:
        raise ValueError("Expected no statistics beside make_app, which makes an app with its own.")
    make_app = make_app or partial(ldp_client_app, statistics=statistics)
    client = Client(replace(query, low=0, high=HASH_END), make_app)
    mechanism, names = query.randomizer, list(candidates)

    def sample(phase: int, name: str, size: int) -> Sample:
        nodes = np.arange(-(-size // copies), dtype=np.uint64)
        seeds: list[int | None] = [None] * len(nodes)
        if seed is not None:
            seeds = [int(word) for word in derive(seed, phase, names.index(name), nodes)]
        return client.sample(candidates[name], copies, seeds)

    with silenced("ldp_flower"):  # the data are bad on purpose
        copies = client.copies(candidates[names[0]])
        searched = {name: sample(1, name, num_reports // 4) for name in names}
        alpha = (1 - confidence) / _CONFIRMED
        events = likeliest_events(searched, _CONFIRMED, mechanism.delta, alpha)
        needed = {name: None for event in events for name in event.pair}
        fresh = {name: sample(2, name, num_reports) for name in needed}
        bounds = [event.bound(fresh, mechanism.delta, alpha) for event in events]
        tape_seed = secrets.randbits(62) if seed is None else seed
        people = list(candidates.values())
        found = [
            {
                "completeness": all(of.complete for of in [*searched.values(), *fresh.values()]),
                "isolation": _isolated(client, copies, people),
                "replay": _replayed(client, people[0], seed),
                "own noise": independent(client, copies, people[0], tape_seed),
                "record bound": bounded(client.query, make_app, people[0].num_features),
            },
            many_users(client, people[0].num_features, tape_seed),
            compared(client.query, make_app, copies, people, tape_seed),
            kept(client.query, make_app, copies, people, tape_seed),
        ]
    best = int(np.argmax(bounds))
    measured, exact = max(bounds[best], 0.0), worst_epsilon(mechanism)
    checks = {"loss": max(measured, exact or 0.0) <= mechanism.epsilon}
    for each in found:
        checks |= {name: right and checks.get(name, True) for name, right in each.items()}
    return Audit(
        query=query,
        claimed=mechanism.epsilon,
        measured=measured,
        confidence=confidence,
        worst_pair=events[best].pair,
        exact=exact,
        checks=checks,
    )


def _isolated(client: Client, copies: int, candidates: Sequence[Users]) -> bool:
    """Return True if changing each user of a node in turn leaves all other reports as they are."""
    query = client.query
    cuts = np.sort(NodeKeys(0, 0, _NEIGHBOURS).hashes(query.salt)).tolist()
    bounds = [0, *cuts[copies::copies], HASH_END]  # cohorts small enough for single reports
    cohorts = [replace(query, low=low, high=high) for low, high in pairwise(bounds)]

    def reports(people: Sequence[Users]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for answer in client.answers(together(people), [0], cohorts):
            slots, drawn = client.single_reports(answer)
            found |= {int(s): r.tobytes() for s, r in zip(slots, drawn, strict=True)}
        return found

    people = crowd(_NEIGHBOURS, candidates[0].num_features)
    before = reports(people)
    for i in range(_NEIGHBOURS):
        for shift in range(_CHANGES):
            other = candidates[(i + shift) % len(candidates)]
            after = reports([*people[:i], other, *people[i + 1 :]])
            if after | {i: b""} != before | {i: b""}:
                return False
    return True


def _replayed(client: Client, user: Users, seed: int | None) -> bool:
    """Return True if nodes that are asked the same twice answer the same."""
    seeds = [None if seed is None else seed + node for node in range(_REPLAYED)]
    answers = client.answers(user, seeds, [client.query] * 2)
    first, second = answers[:_REPLAYED], answers[_REPLAYED:]
    return [a.to_bytes() for a in first] == [a.to_bytes() for a in second]
