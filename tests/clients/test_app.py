"""The whole client handler as a black box, called with messages as a server would."""

import logging
import math
from itertools import pairwise

import numpy as np
import pytest
from as_sent import AsSent
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid, PrivacyPolicy, Users
from ldp_flower.clients import LdpClientApp, LdpUpdateMod, RecordDpSgdMod, attach
from ldp_flower.clients.statistics import STATISTICS
from ldp_flower.guarantee.messages import HASH_END, NodeKeys, Purpose, Query, Report
from ldp_flower.questions import Curvature, FrequentItems, Gradient, NormalisedUpdate
from ldp_flower.randomizers import (
    Codebook,
    HybridMechanism,
    KRandomizedResponse,
    RandomizedResponse,
    SampledCoordinate,
    SubsetHypercube,
)
from ldp_flower.randomness import KeyedRandom, RandomSource

DIM = 3
INEXACT = SampledCoordinate(HybridMechanism(1.0), DIM)


def ask(app, query, grid=None):
    """Send a query to the one node of a grid and return its reply."""
    grid = grid or InProcessGrid(app, 1)
    content = query if isinstance(query, RecordDict) else query.to_record_dict()
    (reply,) = grid.send_and_receive([Message(content, 1, "query.report")])
    return reply


def query(**changes):
    arguments = {
        "question": Gradient(np.zeros(DIM), feature_bound=1.0, residual_bound=1.0),
        "randomizer": SubsetHypercube(2.0, DIM),
        "salt": 1,
        "low": 0,
        "high": HASH_END,
        "step": 1,
    }
    return Query(**arguments | changes)


def app_of(users, **arguments):
    return LdpClientApp(lambda context: users, **arguments)


def records(x, y, users=1):
    return Users.from_rows(np.tile(np.asarray(x, float), (users, 1)), np.full(users, float(y)))


EXTREMES = {
    "all ones": ([1, 1, 1], 1e9),
    "minus": ([1, -1, 1], -1e9),
    "zeros": ([0, 0, 0], 0),
    "NaN": ([np.nan] * 3, np.nan),
    "NaN target": ([1, 1, 1], np.nan),
    "infinity": ([np.inf, 1, -np.inf], np.inf),
    "huge": ([1e308] * 3, -1e308),
}


class Counting(RandomSource):
    """Counts the words that a handler draws."""

    def __init__(self, inner):
        self.inner, self.drawn = inner, 0

    def words(self, shape):
        self.drawn += int(np.prod(shape))
        return self.inner.words(shape)


@pytest.mark.parametrize(
    "mechanism",
    [SubsetHypercube(2.0, DIM), Codebook(2.0, DIM, num_codewords=8), INEXACT],
    ids=lambda m: type(m).__name__,
)
def test_shape_and_number_of_draws_do_not_depend_on_data(mechanism, monkeypatch):
    from ldp_flower.clients import node

    shapes, draws = set(), set()
    for x, y in EXTREMES.values():
        source = Counting(node.SystemRandom())
        monkeypatch.setattr(node, "SystemRandom", lambda source=source: source)
        reply = ask(app_of(records(x, y)), query(randomizer=mechanism))
        monkeypatch.undo()
        arrays = Report.from_record_dict(reply.content).arrays
        shapes.add(tuple((n, a.shape, a.dtype.str) for n, a in sorted(arrays.items())))
        shapes.add(tuple(sorted(reply.content["config"].items()))[:1])
        draws.add(source.drawn)
    assert len(shapes) == 2 and len(draws) == 1 and draws != {0}


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_output_is_much_likelier_for_one_input_than_for_another(epsilon):
    """Compare frequencies of all reports between the extreme inputs, 40,000 users each.

    For every pair of inputs and every output the log of the frequencies' ratio stays
    within epsilon plus 5 of its standard errors: fails by chance once in 10,000 seeds.
    """
    users = 40_000
    mechanism = SubsetHypercube(epsilon, DIM)
    frequencies = {}
    for seed, (name, (x, y)) in enumerate(EXTREMES.items()):
        reports = _single_reports(records(x, y, users), mechanism, seed)
        # The coin assigns coordinates: outputs are (assigned run, pattern) together.
        coins = NodeKeys(1, 0, users).coins(1, 1, np.arange(users))
        first = mechanism.assigned(coins)[:, 0]
        counts = np.bincount(
            first * 2**mechanism.subset + reports, minlength=DIM << mechanism.subset
        )
        per_start = counts.reshape(DIM, -1)
        frequencies[name] = per_start / per_start.sum(axis=1, keepdims=True), per_start
    largest = 0.0
    for p, counts_p in frequencies.values():
        for q, counts_q in frequencies.values():
            ratio = np.log(p / q)
            assert (ratio <= epsilon + 5 * np.sqrt(1 / counts_p + 1 / counts_q)).all()
            largest = max(largest, ratio.max())
    assert largest > 0.8 * epsilon  # the audit has something to see


def _single_reports(users, mechanism, seed):
    """Run the handler's own steps up to single reports (it would send sums of so many)."""
    from ldp_flower.clients.effective_policy import EffectivePolicy
    from ldp_flower.clients.users_node import UsersNode
    from ldp_flower.clients.values import values_of
    from ldp_flower.guarantee.state_ledger import StateLedger

    slots = np.arange(len(users))
    ledger = StateLedger(RecordDict(), len(users))
    terms = EffectivePolicy(True, PrivacyPolicy(10.0), seed=1000 + seed)
    keys = NodeKeys(1, 0, len(users))
    node = UsersNode(terms, keys, ledger, slots, 0, users)
    asked = query(randomizer=mechanism)
    values = values_of(node.take, slots, asked)
    coins = keys.coins(1, 1, slots)
    return mechanism.randomize(values, node.private_randomness(1, slots), coins).astype(int)


def fifty_users(seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(50), rng.integers(1, 6, 50))
    x = rng.choice([-1.0, 1.0], (len(groups), DIM))
    return x, rng.standard_normal(len(groups)), groups


@pytest.mark.parametrize("mechanism", [SubsetHypercube(8.0, DIM), Codebook(8.0, DIM)])
def test_changing_one_of_fifty_users_leaves_the_others_reports_bitwise_unchanged(mechanism):
    x, y, groups = fifty_users()
    # Few users send single reports, many their sum: ask cohorts of ten.
    cuts = np.sort(NodeKeys(1, 0, 50).hashes(1))
    bounds = [0, *(int(cuts[i]) for i in (10, 20, 30, 40)), HASH_END]

    def reports(features, targets):
        app = app_of(Users.from_rows(features, targets, groups), seed=3)
        grid, found = InProcessGrid(app, 1), {}
        for step, (low, high) in enumerate(pairwise(bounds), start=1):
            sent = query(randomizer=mechanism, low=low, high=high, step=step)
            arrays = Report.from_record_dict(ask(app, sent, grid).content).arrays
            found |= dict(zip(arrays["slots"].tolist(), arrays["reports"].tolist(), strict=True))
        return found

    before = reports(x, y)
    assert len(before) == 50
    own = []
    for value in ((1e9, 1e9), (1e9, -1e9), (np.nan, np.nan)):
        x2, y2 = x.copy(), y.copy()
        x2[groups == 17], y2[groups == 17] = value
        after = reports(x2, y2)
        own.append(after.pop(17))
        assert after == {user: report for user, report in before.items() if user != 17}
    assert own != [before[17]] * 3  # the change did reach user 17's own report


def test_few_users_send_reports_and_many_send_sums():
    users = records([1, 1, 1], 1.0, 500)
    few = int(np.sort(NodeKeys(1, 0, 500).hashes(1))[5])
    app = app_of(users)
    single = Report.from_record_dict(ask(app, query(high=few)).content).arrays
    assert sorted(single) == ["reports", "slots"] and len(single["slots"]) == 5
    summed = Report.from_record_dict(ask(app, query(low=few, step=2)).content).arrays
    assert summed["count"].tolist() == [495]


def test_a_second_different_query_is_refused_and_the_same_one_is_free():
    app = app_of(records([1, 1, 1], 0.5, 5), policy=PrivacyPolicy(2.0))
    grid = InProcessGrid(app, 1)
    first = ask(app, query(), grid)
    again = ask(app, query(), grid)
    assert again.content == first.content
    refused = ask(app, query(step=2), grid)
    assert refused.error.code == 102
    assert refused.error.reason == (
        "No addressed user can afford this query: the cost is above what the privacy budget leaves."
    )
    assert ask(app, query(), grid).content == first.content


def test_users_over_budget_are_left_out_and_the_rest_answer():
    users = records([1, 1, 1], 0.5, 100)
    app = app_of(users, policy=PrivacyPolicy(2.0))
    grid = InProcessGrid(app, 1)
    half = int(np.sort(NodeKeys(1, 0, 100).hashes(1))[40])
    ask(app, query(high=half), grid)
    both = Report.from_record_dict(ask(app, query(step=2), grid).content).arrays
    assert both["count"].tolist() == [60]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (query(question=AsSent("rows")), 100),
        (query(question=NormalisedUpdate()), 100),
        (query(question=Gradient(np.zeros(DIM + 1))), 100),
        (query(randomizer=SubsetHypercube(2.0, DIM + 1)), 100),
        (query(low=5, high=5), 100),
        (RecordDict(), 100),
        (query(randomizer=SubsetHypercube(2.1, DIM)), 101),
        (query(randomizer=INEXACT), 101),
    ],
)
def test_what_is_refused_costs_nothing(content, code):
    app = app_of(records([1, 1, 1], 123.456, 5), policy=PrivacyPolicy(2.0))
    grid = InProcessGrid(app, 1)
    reply = ask(app, content, grid)
    assert reply.error.code == code and "123" not in reply.error.reason
    assert ask(app, query(), grid).has_content()  # the budget is still there


def test_nothing_private_is_computed_for_a_refused_query(monkeypatch):
    def explode(*arguments):
        raise AssertionError("computed")

    from ldp_flower.clients import respond

    monkeypatch.setattr(respond, "_of_users", explode)
    app = app_of(records([1, 1, 1], 1.0, 5), policy=PrivacyPolicy(2.0))
    assert ask(app, query(randomizer=SubsetHypercube(2.1, DIM))).error.code == 101
    assert ask(app, query(question=AsSent("rows"))).error.code == 100


def test_a_loader_that_fails_says_nothing(caplog):
    def load(context):
        raise ValueError("patient 4711 has no record")

    with caplog.at_level(logging.ERROR):
        reply = ask(LdpClientApp(load), query())
    assert reply.error.code == 104 and "4711" not in reply.error.reason
    assert "4711" in caplog.text  # the operator does get to know


@pytest.mark.parametrize(
    "users", [(np.zeros((3, DIM)), np.zeros(3)), np.zeros((3, DIM)), None, Users]
)
def test_a_loader_that_returns_no_users_is_the_operators_to_know(users, caplog):
    with caplog.at_level(logging.ERROR):
        reply = ask(LdpClientApp(lambda context: users), query())
    assert reply.error.code == 104
    assert reply.error.reason == "The client failed; its log says why."
    assert f"Expected load_users to return Users, got {type(users).__name__}" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"load_users": records([1, 1, 1], 1.0)}, "load_users to be a function .* got Users"),
        ({"policy": {"max_epsilon": 1.0}}, "policy to be a PrivacyPolicy, got dict"),
        ({"seed": "a"}, "seed to be an integer, a function or \"run\", got 'a'"),
    ],
)
@pytest.mark.parametrize("construct", [LdpClientApp, lambda **given: attach(ClientApp(), **given)])
def test_bad_arguments_are_refused_at_construction(construct, arguments, message):
    with pytest.raises(ValueError, match=f"Expected {message}"):
        construct(**{"load_users": lambda context: None} | arguments)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"question": Gradient(np.zeros(16))},
            f"Expected {DIM} floats in theta, got 16: the node's users have {DIM} features.",
        ),
        (
            {"randomizer": SubsetHypercube(2.0, 16)},
            f"Expected a randomizer of {DIM} coordinates, got 16: "
            f"the node's users have {DIM} features.",
        ),
    ],
)
def test_a_question_about_other_features_is_told_how_many_there_are(changes, text):
    reply = ask(app_of(records([1, 1, 1], 123.0, 5)), query(**changes))
    assert (reply.error.code, reply.error.reason) == (100, text)


def test_the_log_says_why_a_mechanism_is_refused_and_the_reply_does_not(caplog):
    app = app_of(records([1, 1, 1], 1.0, 5), policy=PrivacyPolicy(1.5))
    with caplog.at_level(logging.WARNING):
        reply = ask(app, query())
    assert reply.error.reason == "The operator's policy does not allow this mechanism."
    assert "SubsetHypercube: epsilon 2.0 is above max-epsilon 1.5." in caplog.text


def test_items_outside_the_domain_are_in_the_log_alone(caplog):
    users = Users.from_items(["a", "b", "c"])
    question = query(
        question=FrequentItems(set_size=1, domain_size=100),
        randomizer=KRandomizedResponse(1.0, 100),
    )
    with caplog.at_level(logging.WARNING):
        assert ask(app_of(users), question).has_content()
    assert "3 users hold no item of the domain, the integers from 0 to 99;" in caplog.text
    caplog.clear()
    inside = Users.from_items([1, 99, 0], groups=[0, 1, 1], ids=[0, 1, 2])  # 2 has no rows
    assert ask(app_of(inside), question).has_content()
    assert "hold no item" not in caplog.text


def test_a_statistic_that_fails_on_one_user_costs_the_others_nothing(monkeypatch, caplog):
    def picky(users, question):
        if (users.targets > 5).any():
            raise ZeroDivisionError("secret 7.25")
        return np.repeat(users.targets[:, None], DIM, axis=1)

    monkeypatch.setitem(STATISTICS, Gradient, picky)
    targets = np.array([1.0, 7.25, 1.0])
    app = app_of(Users.from_rows(np.ones((3, DIM)), targets), seed=0)
    clean = app_of(Users.from_rows(np.ones((3, DIM)), np.array([1.0, 0.0, 1.0])), seed=0)
    reply = ask(app, query())
    assert reply.content == ask(clean, query()).content


def test_users_without_rows_answer_like_everybody(caplog):
    users = Users(np.zeros((0, DIM)), np.zeros(0), np.zeros(4, np.int64))
    reply = ask(app_of(users), query())
    assert len(Report.from_record_dict(reply.content).arrays["reports"]) == 3


def test_the_operators_cap_on_rows_is_kept():
    x = np.ones((4, DIM))
    y = np.array([0.3, 0.3, 9.0, 9.0])
    capped = app_of(Users.from_rows(x, y, [0] * 4), policy=PrivacyPolicy(9.0, max_rows=2), seed=1)
    first = app_of(Users.from_rows(x[:2], y[:2], [0] * 2), policy=PrivacyPolicy(9.0), seed=1)
    mechanism = Codebook(8.0, DIM)
    sent = query(question=Gradient(np.zeros(DIM)), randomizer=mechanism)
    assert ask(capped, sent).content == ask(first, sent).content


@pytest.mark.parametrize("key", ["max-epsilon", "ledger-path"])
def test_an_operators_settings_mean_a_deployment_wherever_it_runs(key):
    app = app_of(records([1, 1, 1], 0.5, 5))
    grid = InProcessGrid(app, 1)
    grid.contexts[1].node_config[key] = 1.0
    assert ask(app, query(), grid).error.code == 103


def test_census_tells_public_facts_only():
    grid = InProcessGrid(app_of(records([1, 1, 1], 0.5, 5), seed=2), 1)
    (reply,) = grid.send_and_receive([Message(RecordDict(), 1, "query.census")])
    assert dict(reply.content["census"]) == {
        "group": 1,
        "first": 0,
        "users": 5,
        "seeded": 1,
        "rehearsing": 0,
        "simulated": 1,
        "exhausted": 0,
        "features": 3,
    }


def test_attach_leaves_an_existing_app_as_it_is():
    app = ClientApp()

    @app.query("ping")
    def ping(message: Message, context: Context) -> Message:
        return Message(RecordDict(), reply_to=message)

    attach(app, lambda context: records([1, 1, 1], 0.5, 5))
    grid = InProcessGrid(app, 1)
    assert ask(app, query(), grid).has_content()
    (pong,) = grid.send_and_receive([Message(RecordDict(), 1, "query.ping")])
    assert pong.has_content()


@pytest.mark.parametrize("mod", [LdpUpdateMod(), RecordDpSgdMod(1.0, 1e-5, 2)])
def test_attach_refuses_an_app_whose_mods_refuse_its_messages(mod):
    with pytest.raises(ValueError, match=f"through, got {type(mod).__name__} among the mods"):
        attach(ClientApp(mods=[mod]), lambda context: records([1, 1, 1], 0.5, 5))


def test_unseeded_reports_differ_from_run_to_run():
    users = records([1, 1, 1], 0.5, 200)
    mechanism = RandomizedResponse(0.1)
    sent = query(question=Curvature(np.ones(DIM), cap=8.0), randomizer=mechanism)
    sums = {
        float(Report.from_record_dict(ask(app_of(users), sent).content).arrays["sum"][0])
        for _ in range(5)
    }
    # five equal sums of 200 fair coins: one in 10**5
    assert len(sums) > 1


def test_seeded_streams_belong_to_users_and_steps():
    keys, slots = NodeKeys(0, 0, 10), np.arange(10)
    one = KeyedRandom(keys.states(Purpose.NOISE, 1, 1, slots)).words((10, 2))
    two = KeyedRandom(keys.states(Purpose.NOISE, 1, 2, slots)).words((10, 2))
    assert len(np.unique(np.concatenate([one, two]))) == 40
    assert math.isfinite(float(one[0, 0]))
