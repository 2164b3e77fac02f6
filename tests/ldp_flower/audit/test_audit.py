"""The audit passes the real mechanisms and catches planted faults.

Every bound below is wrong with a probability of at most 1e-3; seeds are fixed.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from flwr.app import RecordDict
from typer.testing import CliRunner

from ldp_flower import audit, randomizers
from ldp_flower.audit import (
    audit_handler,
    exact_epsilon,
    extreme_inputs,
    extreme_users,
    recorded_queries,
    worst_epsilon,
)
from ldp_flower.audit.runs import audited_runs
from ldp_flower.clients import LdpClientApp
from ldp_flower.clients.statistics import STATISTICS
from ldp_flower.data.users import Users
from ldp_flower.guarantee.messages import HASH_END, Query
from ldp_flower.questions import WIRE_TYPES, Gradient, Question, WireType
from ldp_flower.randomizers import (
    Codebook,
    HadamardResponse,
    HybridMechanism,
    KRandomizedResponse,
    OptimizedLocalHashing,
    PrefixExtending,
    RandomizedResponse,
    SampledCoordinate,
    SubsetHypercube,
    SubsetSelection,
    TreeHist,
    hypercube,
    two_level,
)
from ldp_flower.randomizers.two_level import TwoLevel
from ldp_flower.randomness import derive
from ldp_flower.strategies import LdpIht
from ldp_flower.strategies.catalogue import PROTOCOLS

cli = import_module("ldp_flower.cli.app")  # the package calls the application so


@pytest.fixture(autouse=True)
def no_mechanism_is_kept():
    """Planted faults neither miss mechanisms that were built before nor stay for other tests."""
    kept = (randomizers._kept, hypercube._cap, hypercube.best_subset)
    for cache in kept:
        cache.cache_clear()
    yield
    for cache in kept:
        cache.cache_clear()


EXACT = [
    RandomizedResponse(1.0),
    SubsetHypercube(2.0, 3),
    SubsetHypercube(4.0, 6),
    Codebook(2.0, 3, num_codewords=16),
]

FEW_ITEMS = [
    HadamardResponse(1.0, 5),
    KRandomizedResponse(1.0, 5),
    OptimizedLocalHashing(1.0, 5),
    PrefixExtending(1.0, 4, first_bits=2, step_bits=1),
    SubsetSelection(1.0, 6),
    SubsetSelection(1.0, 6, 2),
    TreeHist(1.0, 4),
]
MANY_ITEMS = [
    HadamardResponse(1.0, 1 << 19),
    KRandomizedResponse(1.0, 1 << 20),
    OptimizedLocalHashing(1.0, 1 << 20),
    PrefixExtending(1.0, 40),
    SubsetSelection(1.0, 1024),
    SubsetSelection(1.0, 1024, 10),
    TreeHist(1.0, 40),
]


def gradient_query(mechanism, bounded=True):
    bounds = {"residual_bound": 1.0, "feature_bound": 1.0} if bounded else {}
    question = Gradient(np.zeros(mechanism.width), **bounds)
    return Query(question, mechanism, 1, 0, HASH_END, 1)


def audited(mechanism, reports=2000, names=("ones", "ones, minus", "NaN", "no rows"), **arguments):
    people = extreme_users(mechanism.width)
    query = gradient_query(mechanism, isinstance(mechanism, SubsetHypercube))
    people = {name: people[name] for name in names}
    return audit_handler(query, people, num_reports=reports, seed=1, **arguments)


# ------------------------------------------------------------------------- enumeration


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse(1.0),
        *(SubsetHypercube(1.0, dim) for dim in (1, 2, 4, 12)),
        Codebook(1.0, 3, num_codewords=16),
    ],
    ids=repr,
)
def test_exact_epsilon_is_the_claimed_one(mechanism, epsilon):
    mechanism = replace(mechanism, epsilon=epsilon)
    signs = np.array(list(product([-1.0, 1.0], repeat=2)))
    corners = np.tile(signs, (1, mechanism.width))[:, : mechanism.width]
    found = exact_epsilon(mechanism, corners, derive(np.arange(3, dtype=np.uint64)))
    assert epsilon - 1e-9 <= found <= epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("mechanism", [*FEW_ITEMS, *MANY_ITEMS], ids=repr)
def test_worst_epsilon_for_items_is_the_claimed_one(mechanism, epsilon):
    mechanism = replace(mechanism, epsilon=epsilon)
    assert epsilon - 1e-9 <= worst_epsilon(mechanism) <= epsilon


@pytest.mark.parametrize("mechanism", [*EXACT, *FEW_ITEMS], ids=repr)
def test_enumeration_finds_the_ratio_that_the_thresholds_promise(mechanism):
    coins = derive(np.arange(8, dtype=np.uint64))  # under one coin two items can share a bucket
    found = exact_epsilon(mechanism, extreme_inputs(mechanism), coins)
    assert found == pytest.approx(worst_epsilon(mechanism), rel=1e-12)


def test_what_has_no_law_has_no_worst_epsilon():
    assert worst_epsilon(HybridMechanism(1.0)) is None


def test_exact_epsilon_of_values_between_the_corners_is_smaller():
    mechanism = SubsetHypercube(2.0, 3)
    inside = np.array([[0.0, 0.0, 0.0], [0.5, -0.5, 0.25]])
    assert 0.1 < exact_epsilon(mechanism, inside) < 1.5
    assert exact_epsilon(mechanism, inside[:1]) == 0


NO_ITEM = [
    (KRandomizedResponse(1.0, 5), np.array([2.5])),
    (HadamardResponse(1.0, 5), np.array([-1.0])),
    (PrefixExtending(1.0, 4), np.array([16.0])),
    (SubsetSelection(1.0, 6, 2), np.array([3.0, 3.0])),
]


def between_the_extremes(mechanism):
    if mechanism in FEW_ITEMS or isinstance(mechanism, KRandomizedResponse):
        return np.arange(mechanism.width)[::-1] + 1.0
    return np.linspace(-0.6, 1.0, mechanism.width)


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [(m, between_the_extremes(m)) for m in [*EXACT, *FEW_ITEMS]] + NO_ITEM,
    ids=repr,
)
def test_the_sampler_has_the_enumerated_law(mechanism, value):
    """Compare 40,000 draws with the law, output by output: 6 standard errors."""
    draws, coin = 40_000, derive(5)
    law = mechanism.law(value, coin)
    assert sum(law.values()) == 1
    rng = np.random.default_rng(7)
    reports = mechanism.randomize(np.tile(value, (draws, 1)), rng, np.repeat(coin, draws))
    counts = Counter(report.tobytes() for report in reports)
    assert set(counts) <= set(law)
    for report, chance in law.items():
        error = math.sqrt(chance * (1 - chance) / draws)
        assert abs(counts[report] / draws - chance) <= 6 * error


def test_too_long_an_enumeration_is_refused(monkeypatch):
    mechanism = SubsetHypercube(4.0, 6)
    most = 2 * mechanism._choice.num_outputs
    monkeypatch.setattr(two_level, "_MAX_TERMS", most)
    with pytest.raises(ValueError, match=f"Expected at most {most} outputs times roundings"):
        exact_epsilon(mechanism, np.zeros((1, 6)))
    assert exact_epsilon(mechanism, np.ones((1, 6))) == 0


# --------------------------------------------------------------- what is right passes


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [*EXACT, SampledCoordinate(HybridMechanism(2.0), 3)], ids=repr
)
def test_real_mechanisms_pass_and_are_measured_well(mechanism):
    found = audited(mechanism, 1200)
    assert found.passed and found.checks["isolation"] and found.checks["replay"]
    assert 0.6 * mechanism.epsilon < found.measured <= found.claimed == mechanism.epsilon
    assert (found.exact is None) == (not mechanism.exact)


class Rows(Question):
    stem = "rows"


def test_a_client_that_refuses_cannot_be_audited():
    query = replace(gradient_query(SubsetHypercube(2.0, 3)), question=Rows())
    with pytest.raises(RuntimeError, match="Unknown statistic 'rows'"):
        audit_handler(query, extreme_users(3))
    with pytest.raises(ValueError, match="Expected at least 2 candidates, got 0"):
        audit_handler(query, {})


def test_every_query_of_a_run_is_recorded():
    rng = np.random.default_rng(0)
    features = rng.choice([-1.0, 1.0], (2000, 3))
    strategy = LdpIht(3, sparsity=1, epsilon=4.0)
    queries = recorded_queries(strategy, Users.from_rows(features, features[:, 0]))
    assert len(queries) >= 3 and [query.step for query in queries] == [*range(1, len(queries) + 1)]
    assert {query.randomizer.epsilon for query in queries} == {4.0}


# -------------------------------------------------------------- what is wrong does not


@dataclass(frozen=True)
class HalfTheNoise(RandomizedResponse):
    """Forgets that the sensitivity is the diameter, twice the radius."""

    @property
    def _choice(self):
        return TwoLevel(2 * self.epsilon, 1, 1)


@dataclass(frozen=True)
class Unclipped(RandomizedResponse):
    """Adds Laplace noise for values in the interval to whatever the value is."""

    report_dtype = np.dtype(np.float64)

    def _randomize(self, values, rng, coins):
        uniforms = rng.uniforms((len(values), 1))[:, 0] - 0.5
        noise = -np.sign(uniforms) * np.log1p(-2 * np.abs(uniforms))
        return values[:, 0] + 2 * self.radius / self.epsilon * noise

    def _debias(self, reports, coins):
        return reports[:, None]


@dataclass(frozen=True)
class Twice(RandomizedResponse):
    """Draws two reports from the same data at the price of one."""

    report_shape = (2,)

    def _randomize(self, values, rng, coins):
        first, second = (super(Twice, self)._randomize(values, rng, coins) for _ in range(2))
        return np.stack([first, second], axis=1)

    def _debias(self, reports, coins):
        return (reports.astype(float).mean(axis=1) * 2 - 1)[:, None] * self.bound


@dataclass(frozen=True)
class ClosedHalfSpaces(SubsetHypercube):
    """The textbook sampler: patterns with half of the signs in agreement are in both sets."""

    subset = 2
    exact = False  # the inherited thresholds are not of this sampler

    def _randomize(self, values, rng, coins):
        positive = np.take_along_axis(values, self.assigned(coins), axis=1) > 0
        uniforms = rng.uniforms((len(values), 2))
        likely = uniforms[:, 0] < 1 / (1 + math.exp(-self.epsilon))
        # Three patterns each: the signs (or their opposites) and the two ties.
        which = np.minimum((3 * uniforms[:, 1]).astype(int), 2)
        flipped = np.where(likely, np.array([0, 1, 2])[which], np.array([3, 1, 2])[which])
        return (positive @ np.array([1, 2]) ^ flipped).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "reports", "at_least"),
    [
        (HalfTheNoise(1.0), 1200, 1.4),
        pytest.param(Unclipped(1.0), 1000, 4.0, marks=pytest.mark.long),
        pytest.param(Twice(1.0), 1600, 1.3, marks=pytest.mark.long),
        (ClosedHalfSpaces(1.0, 2), 8000, 1.1),  # truly log(1 + e) = 1.313
    ],
    ids=lambda value: type(value).__name__,
)
def test_mechanisms_that_lose_more_than_they_claim_are_caught(
    mechanism, reports, at_least, monkeypatch
):
    monkeypatch.setitem(randomizers._REGISTRY, type(mechanism).__name__, type(mechanism))
    names = ("ones", "ones, minus", "alternating")
    found = audited(mechanism, reports, names)
    assert found.measured > at_least and not found.passed
    # What is not clipped moves a sum by more than one report may.
    assert found.checks["isolation"] != isinstance(mechanism, Unclipped) and found.checks["replay"]


# ----------------------------------------------------------------- mechanisms for items


class FirstRow(Question):
    stem = "first_row"


def first_row(users, question):
    """Return each user's first row of features as its items; a stub of what top-k does."""
    rows = np.full((len(users), users.num_features), np.nan)
    some = users.num_rows > 0
    rows[some] = users.features[users.offsets[:-1][some]]
    return rows


def audited_items(
    mechanism, values, monkeypatch, reports=1600, first_row=first_row, seed=1, **arguments
):
    monkeypatch.setitem(randomizers._REGISTRY, type(mechanism).__name__, type(mechanism))
    monkeypatch.setitem(WIRE_TYPES, FirstRow.stem, WireType((FirstRow,)))
    monkeypatch.setitem(STATISTICS, FirstRow, first_row)
    people = {str(items): Users.from_rows([items], [0.0]) for items in values}
    people["no rows"] = next(iter(people.values())).take(np.zeros(1, np.int64), max_rows=0)
    query = Query(FirstRow(), mechanism, 1, 0, HASH_END, 1)
    return audit_handler(query, people, num_reports=reports, seed=seed, **arguments)


def test_an_unseeded_audit_works_on_items(monkeypatch):
    items, sure = [[0.0], [3.0]], 1 - 1e-6
    mechanism = KRandomizedResponse(2.0, 4)
    found = audited_items(mechanism, items, monkeypatch, 200, seed=None, confidence=sure)
    assert found.passed and found.exact == pytest.approx(2.0, abs=1e-6)


LAST = 1023.0
ONE_ITEM = [[0.0], [1.0], [LAST], [math.nan]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "values", "at_least"),
    [
        (KRandomizedResponse(2.0, 4), [[0.0], [1.0], [3.0]], 1.4),
        (OptimizedLocalHashing(2.0, 1024), ONE_ITEM, 1.2),
        (HadamardResponse(2.0, 1024), ONE_ITEM, 1.2),
        (SubsetSelection(2.0, 64), [[0.0], [1.0], [63.0], [math.nan]], 1.2),
        (SubsetSelection(2.0, 64, 3), [[0.0, 1.0, 2.0], [61.0, 62.0, 63.0], [5.0, 5.0, 5.0]], 1.2),
        (PrefixExtending(2.0, 20), [[0.0], [1.0], [2.0**20 - 1], [math.nan]], 1.2),
        (TreeHist(2.0, 20), [[0.0], [1.0], [2.0**20 - 1], [math.nan]], 1.2),
    ],
    ids=repr,
)
def test_mechanisms_for_items_pass_and_are_measured_well(mechanism, values, at_least, monkeypatch):
    found = audited_items(mechanism, values, monkeypatch)
    assert (
        found.passed
        and found.checks["completeness"]
        and found.checks["isolation"]
        and found.checks["replay"]
    )
    assert found.exact == pytest.approx(2.0, abs=1e-6)
    assert at_least < found.measured <= found.claimed == 2.0


@dataclass(frozen=True)
class DoubleOdds(KRandomizedResponse):
    """Tells the truth with the odds of twice the epsilon."""

    @property
    def _choice(self):
        return TwoLevel(2 * self.epsilon, 1, self.domain_size - 1)


@dataclass(frozen=True)
class TwoAnswers(KRandomizedResponse):
    """Draws two reports for the same item at the price of one."""

    report_shape = (2,)

    def _randomize(self, values, rng, coins):
        draws = [super(TwoAnswers, self)._randomize(values, rng, coins) for _ in range(2)]
        return np.stack(draws, axis=1)

    def _supports(self, reports, coins):
        return reports[:, :1] == np.arange(self.domain_size)

    def _support(self, reports, coins):
        return super()._support(reports[:, 0], coins)

    def _debias(self, reports, coins):
        return (super()._debias(reports, coins) + super()._debias(reports[:, ::-1], coins)) / 2

    def contains(self, reports):
        return super().contains(reports.ravel())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "at_least", "exact"),
    [
        (DoubleOdds(1.0, 16), 1.5, 2.0),
        (TwoAnswers(1.0, 4), 1.3, 1.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_mechanisms_for_items_that_lose_more_than_they_claim_are_caught(
    mechanism, at_least, exact, monkeypatch
):
    values = [[0.0], [1.0], [mechanism.domain_size - 1.0], [math.nan]]
    found = audited_items(mechanism, values, monkeypatch, 4000)
    assert found.measured > at_least and not found.passed
    assert found.exact == pytest.approx(exact, abs=1e-3)
    assert found.checks["completeness"] and found.checks["isolation"] and found.checks["replay"]


@dataclass(frozen=True)
class Dropping(SubsetSelection):
    """Sends no report for users who hold the last item."""

    def randomize(self, values, rng, coins=None):
        reports = super().randomize(values, rng, coins)
        return reports[(values != self.domain_size - 1).all(axis=1)]


def test_users_who_are_dropped_by_their_data_are_missed(monkeypatch):
    found = audited_items(Dropping(1.0, 16, 2), [[0.0, 1.0], [14.0, 15.0]], monkeypatch)
    assert not found.checks["completeness"] and not found.checks["isolation"] and not found.passed
    assert found.measured > 3


def neighbours_item(users, question):
    return np.roll(first_row(users, question), 1, axis=0)


@pytest.mark.slow
def test_an_item_in_a_neighbours_report_is_caught(monkeypatch):
    values = [[0.0], [15.0]]
    found = audited_items(
        KRandomizedResponse(8.0, 16), values, monkeypatch, 400, first_row=neighbours_item
    )
    assert not found.checks["isolation"] and not found.passed


HONEST_GRADIENT = STATISTICS[Gradient]


def averaging(users, question):
    """Average over the node's users, so that noise is added to what is not one user's."""
    values = HONEST_GRADIENT(users, question)
    return np.tile(values.mean(axis=0), (len(values), 1))


def test_noise_added_after_averaging_is_caught(monkeypatch):
    monkeypatch.setitem(STATISTICS, Gradient, averaging)
    found = audited(SubsetHypercube(2.0, 3), 100, ("ones", "ones, minus"))
    assert not found.checks["isolation"] and not found.passed
    assert found.measured <= found.claimed  # identical users average to themselves


class Forgetful(LdpClientApp):
    """Keeps no ledger: the same query gets a second draw."""

    def __call__(self, message, context):
        context.state = RecordDict()
        return super().__call__(message, context)


def test_a_second_draw_for_the_same_query_is_caught():
    names, forgetful = ("ones", "ones, minus"), lambda load_users, seed: Forgetful(load_users)
    found = audited(SubsetHypercube(2.0, 3), 100, names, make_app=forgetful)
    assert not found.checks["replay"] and not found.passed


# ------------------------------------------------------------------------ command line


def command(*arguments):
    return CliRunner().invoke(cli.app, ["audit", *arguments])


def only_two_queries(monkeypatch, epsilon):
    """Let the command audit the first query and the last of one variant, so that it is quick."""
    run = next(audited_runs()["NonInteractiveIht"](2, epsilon))
    monkeypatch.setitem(audited_runs(), "NonInteractiveIht", lambda dim, epsilon: [run])
    monkeypatch.setattr(audit, "recorded_queries", lambda *run: recorded_queries(*run)[::3])


def test_command_audits_every_mechanism_of_the_protocol():
    runs = audited_runs()["LdpIht"](2, 1.0)
    mechanisms = [{type(q.randomizer) for q in recorded_queries(*run)} for run in runs]
    assert mechanisms == [
        *[{SubsetSelection, Codebook}] * 4,
    ]


@pytest.mark.slow
def test_command_prints_claimed_and_measured(monkeypatch):
    only_two_queries(monkeypatch, 2.0)
    outcome = command("NonInteractiveIht", "--dim", "2", "--reports", "100", "--seed", "1")
    assert outcome.exit_code == 0, outcome.output
    for text in ("claimed", "measured", "SubsetHypercube", "nothing found"):
        assert text in outcome.stdout


@pytest.mark.slow
def test_command_audits_items_too():
    """Drawn items, counts, pairs of items and both ways through prefixes; these do not add up."""
    outcome = command("HeavyHitters", "--dim", "4", "--reports", "200", "--seed", "1")
    assert outcome.exit_code == 0, outcome.output
    assert "5 queries, nothing found" in outcome.stdout


@pytest.mark.parametrize(
    "protocol", ["UserLevelMean", "TwoRoundRegression", "MultiRoundRegression"]
)
def test_every_question_of_the_user_level_protocols_is_recorded(protocol):
    """The methods' mechanisms, each with the whole epsilon."""
    for run in audited_runs()[protocol](4, 4.0):
        mechanisms = {query.randomizer for query in recorded_queries(*run)}
        assert {mechanism.epsilon for mechanism in mechanisms} == {4.0}
        expected = SampledCoordinate if run[0].method == "paper" else Codebook
        assert expected in {type(mechanism) for mechanism in mechanisms}
        assert all(worst_epsilon(m) == pytest.approx(4.0, abs=1e-6) for m in mechanisms)


@pytest.mark.parametrize(
    "protocol", ["ConstrainedMean", "ConstrainedRegression", "KernelRidgeRegression", "SmoothGlm"]
)
def test_the_one_question_of_protocols_that_collect_once_is_recorded(protocol):
    """At the whole epsilon: pure with "auto", with a delta with "paper"."""
    runs = list(audited_runs()[protocol](4, 4.0))
    assert [run[0].method for run in runs] == ["auto", "paper"]
    (auto,), (paper,) = (recorded_queries(*run) for run in runs)
    assert auto.randomizer.epsilon == paper.randomizer.epsilon == 4.0
    assert worst_epsilon(auto.randomizer) == pytest.approx(4.0, abs=1e-6)
    assert auto.randomizer.delta == 0 < paper.randomizer.delta


def test_every_protocol_can_be_audited():
    """But those whose clients take other messages: test_update_mod, test_network_records."""
    runs = [run for of_one in audited_runs().values() for run in of_one(4, 4.0)]
    found = {type(strategy).__name__ for strategy, _ in runs}
    assert found == set(audited_runs()) == set(PROTOCOLS) - {"LdpFedAvg", "RecordDpSgd"}


@pytest.mark.slow
def test_command_fails_if_the_promise_is_broken(monkeypatch):
    exp = two_level._exp_rounded_down
    monkeypatch.setattr(two_level, "_exp_rounded_down", lambda epsilon: exp(2 * epsilon))
    only_two_queries(monkeypatch, 1.0)
    options = ("--dim", "2", "--epsilon", "1", "--reports", "100", "--seed", "1")
    outcome = command("NonInteractiveIht", *options)
    assert outcome.exit_code == 1
    assert (
        "The claim does not hold in 1 of 2 queries." in outcome.stderr
        and "fails: loss" in outcome.stdout
    )


def test_command_refuses_what_it_does_not_know():
    outcome = command("fedavg")
    assert outcome.exit_code == 2
    assert "There is no 'fedavg'. All protocols: `ldp-flower protocols`." in outcome.stderr
    assert command("LdpIht", "--epsilon", "-1").exit_code == 2
    idle = command("LdpIht", "--node-config", "data-path=1")
    assert idle.exit_code == 2 and "Expected no --node-config with PROTOCOL" in idle.stderr
