"""Audit of a protocol's client: attacks on its guarantee, and their results.

The attacks are on the whole client, which gets messages as from a server. The audit distinguishes
the reports of extreme users, which bounds the privacy loss from below, and makes all checks in
:class:`Audit`. If a mechanism is exact, its largest log-ratio is computed from its thresholds.

If a client leaves out a user because of its data, this counts as an output like any other.

An audit cannot prove privacy. Its findings are wrong with a stated probability only.
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
from ..randomizers import NodeSum
from ..simulation.grid import silenced
from ..validation import Fraction, check_integer, check_seed, plain_arguments
from .distinguish import Sample, confirmed, likeliest_events
from .enumeration import worst_epsilon
from .extreme_users import crowd, together
from .independence import independent, many_users
from .neighbours import neighbour_checks
from .node_sums import Attack
from .probe import Client, MakeApp, all_of, derived_seeds, ldp_client_app
from .records import bounded
from .settings import settings_checks

_CONFIRMED = 5  # number of events that are tested on fresh reports
_REPLAYED = 20  # number of nodes that get the same query twice
_NEIGHBOURS = 12  # number of users on the node whose isolation is tested
_CHANGES = 3  # number of changes of the data of each of these users


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Result of an audit: a lower bound on the privacy loss, and checks by name."""

    #: The claimed epsilon.
    claimed: float
    #: Lower bound on the privacy loss, which holds with probability ``confidence``.
    measured: float
    #: Probability that ``measured`` is a lower bound.
    confidence: float
    #: Checks by name; True if the check found nothing.
    checks: dict[str, bool]

    @property
    def passed(self) -> bool:
        """True if nothing contradicts the claim."""
        return all(self.checks.values())


@dataclass(frozen=True, kw_only=True)
class Audit(Checked):
    """Result of an audit of one query.

    The checks:

    * ``loss``: neither the measured nor the exact loss is above the claim;
    * ``completeness``: there was one report of the mechanism's form for every copy of every
      candidate;
    * ``isolation``: no user's report depended on other users' data, and a sum of reports is
      exactly the sum of the users' reports, to the last bit (a sum could carry hidden data);
    * ``replay``: the same query got the same bytes again;
    * ``own noise``: every user's noise came from the operating system, and was independent of other
      users' noise and of the noise of other questions;
    * ``record bound``: one record moved a silo's sum, or a value before noise, by no more than
      the noise covers; for other mechanisms there is no such check;
    * with noise at the node: ``user bound``, one user moved the node's sum by no more than the
      noise covers, and by the same amount for any other users of the node; ``noise``, the noise is
      normal with the stated standard deviation (Kolmogorov & Smirnov) and independent, which honest
      noise passes with probability ``confidence``. There is no check of ``completeness`` and
      ``own noise``;
    * with shared noise: the same checks of the sum under the node's masks, where ``claimed`` is the
      epsilon if all other nodes collude. A deployed node refused sets that are not valid: a
      ``small set``, an ``unknown key``, a wrong ``signature``, a commit to another query (``commit
      reused``), and a second set for a commit that is answered (``one sum a commit``). Neighbouring
      nodes and an operator's settings are not compared;
    * for neighbouring nodes of a deployment: ``census``, the census is the same byte by byte;
      ``reply's form``, metadata, names, types, sizes and texts (errors included) are the same, and
      so is the amount of drawn randomness; ``who answers``, exactly the users who are addressed and
      can pay answer, in order; ``ledger``, the mechanism's cost and the reply are on the ledger
      when the reply leaves;
    * for an operator's settings: ``rehearsal``, replies have the same bytes for all data, at no
      cost; ``row limit``, replies are those of users without further rows; ``waiting``, no reply
      leaves or is dated before ``reply-after``, and no reply leaves while another writer blocks the
      ledger, so that the cost cannot be written.
    """

    query: Query
    #: The two users whom the reports distinguish best.
    worst_pair: tuple[str, str]
    #: The largest log-ratio from the mechanism's thresholds; None if the mechanism is not exact.
    exact: float | None


@plain_arguments
def audit_handler(
    query: Query,
    candidates: Mapping[str, Users],
    *,
    make_app: MakeApp | None = None,
    num_reports: int = 4000,
    confidence: Fraction = 0.999,
    seed: int | None = None,
    statistics: OwnStatistics | None = None,
) -> Audit:
    """Return the result of an audit of a whole client on one query.

    Parameters
    ----------
    query : Query
        The query, which is sent for all users of a node.
    candidates : mapping of str to Users
        Single users among which the worst pair is searched: :func:`extreme_users`, or
        users with extreme items if the statistic feeds a mechanism for items.
    make_app : callable, optional
        Function from ``load_users`` and ``seed`` to the ClientApp under audit; by
        default :class:`ldp_flower.clients.LdpClientApp`.
    num_reports : int (default: 4000)
        Number of fresh reports of each of the two users that are compared, from which the lower
        bound is computed. The search for the outputs that tell two candidates apart uses a quarter
        of this number for each candidate.
    confidence : float (default: 0.999)
        Probability that the measured bound is below the true privacy loss.
    seed : int, optional
        Seed that makes the audit reproducible; by default, the system's randomness is used.
    statistics : mapping of type to callable, optional
        The app's own statistics, see :class:`ldp_flower.clients.LdpClientApp`. With
        ``make_app``, the app that it makes brings its statistics.

    Notes
    -----
    The most promising sets of outputs, which are likelier for one user than for the other, are
    tested on fresh reports with Clopper-Pearson bounds and Bonferroni's correction for their
    number. Reports with different coins are pooled; the bounds remain valid for pooled reports
    (Hoeffding 1956). The mechanism's delta is first subtracted from the larger probability.

    Raises
    ------
    ValueError
        If there are fewer than two candidates, a number is out of its range, or
        ``statistics`` are given together with ``make_app``.
    RuntimeError
        If the client refuses to answer.
    """
    check_integer("num_reports", num_reports, 100)
    check_seed("seed", seed)
    if len(candidates) < 2:
        raise ValueError(f"Expected at least 2 candidates, got {len(candidates)}.")
    if make_app is not None and statistics is not None:
        raise ValueError("Expected no statistics with make_app, whose app has its own statistics.")
    make_app = make_app or partial(ldp_client_app, statistics=statistics)
    tape_seed = secrets.randbits(62) if seed is None else seed
    if isinstance(query.randomizer, NodeSum):
        return _of_node(Attack(query, make_app, candidates), num_reports, confidence, tape_seed)
    client = Client(replace(query, low=0, high=HASH_END), make_app)
    mechanism, names = query.randomizer, list(candidates)

    def sample(phase: int, name: str, size: int) -> Sample:
        nodes = -(-size // copies)
        own = None if seed is None else derived_seeds(nodes, seed, phase, names.index(name))
        return client.sample(candidates[name], copies, own or [None] * nodes)

    with silenced("ldp_flower"):  # the data are invalid on purpose, so clients would log warnings
        copies = client.copies(candidates[names[0]])
        searched = {name: sample(1, name, num_reports // 4) for name in names}
        alpha = (1 - confidence) / _CONFIRMED
        events = likeliest_events(searched, _CONFIRMED, mechanism.delta, alpha)
        needed = {name: None for event in events for name in event.pair}
        fresh = {name: sample(2, name, num_reports) for name in needed}
        measured, worst_pair = confirmed(events, fresh, mechanism.delta, alpha)
        exact = worst_epsilon(mechanism)
        people = list(candidates.values())
        checks = all_of(
            {
                "loss": max(measured, exact or 0.0) <= mechanism.epsilon,
                "completeness": all(of.complete for of in [*searched.values(), *fresh.values()]),
                "isolation": _isolated(client, copies, people),
                "replay": _replayed(client, people[0], seed),
                "own noise": independent(client, copies, people[0], tape_seed),
                "record bound": bounded(client.query, make_app, people[0].num_features),
            },
            many_users(client, people[0].num_features, tape_seed),
            neighbour_checks(client.query, make_app, copies, people, tape_seed),
            settings_checks(client.query, make_app, copies, people, tape_seed),
        )
    return Audit(
        query=query,
        claimed=mechanism.epsilon,
        measured=measured,
        confidence=confidence,
        worst_pair=worst_pair,
        exact=exact,
        checks=checks,
    )


def _of_node(attack: Attack, num_reports: int, confidence: float, seed: int) -> Audit:
    alpha = 1 - confidence
    with silenced("ldp_flower"):
        measured, pair = attack.loss(num_reports, alpha, seed)
        checks = attack.checks(num_reports, alpha, seed)
    claimed = attack.mechanism.alone
    return Audit(
        query=attack.client.query,
        claimed=claimed,
        measured=measured,
        confidence=confidence,
        worst_pair=pair,
        exact=None,
        checks={"loss": measured <= claimed, **checks},
    )


def _isolated(client: Client, copies: int, candidates: Sequence[Users]) -> bool:
    """Return True if a change of any one user of a node leaves all other reports unchanged."""
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
    """Return True if nodes that get the same query twice give the same answer."""
    seeds = [None if seed is None else seed + node for node in range(_REPLAYED)]
    first, second = client.answers_in_turn(user, [client.query] * 2, seeds)
    return [a.to_bytes() for a in first] == [a.to_bytes() for a in second]
