"""Statistics that an app brings along: kept apart by construction, and known to this app only."""

import logging
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from as_sent import AsSent
from deployed_node import DIM, SALT, ask, load_users, report_in
from flwr.app import Message
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid, Users, simulate
from ldp_flower.audit import audit_handler, extreme_users, recorded_queries
from ldp_flower.clients import LdpClientApp, Refusal, attach
from ldp_flower.clients.values import values_of
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.questions import (
    WIRE_TYPES,
    AboutFeatures,
    Labels,
    Mean,
    PerFeature,
    Question,
    Rotated,
    Signed,
    Standardised,
    UpdateQuestion,
    wire_types_with,
)
from ldp_flower.randomizers import RandomizedResponse, RecordGaussian, SubsetHypercube
from ldp_flower.strategies import Ask, LdpStrategy, Result
from ldp_flower.supernode.bookkeeping import charges


@dataclass(frozen=True, eq=False)
class Above(Question):
    """1 for a user whose mean target is above ``threshold``, -1 for another."""

    stem: ClassVar[str] = "above"

    threshold: Signed

    def width(self, num_features):
        return 1


@dataclass(frozen=True, eq=False)
class Shifted(AboutFeatures):
    """A user's mean row minus ``centre``."""

    stem: ClassVar[str] = "shifted"

    centre: PerFeature


def above(features, targets, question):
    return 1.0 if targets.mean() > question.threshold else -1.0


def shifted(features, targets, question):
    return features.mean(axis=0) - question.centre


OWN = {Above: above, Shifted: shifted}


def query(question, randomizer, **changes):
    return Query(
        question, randomizer, **{"salt": SALT, "low": 0, "high": HASH_END, "step": 1} | changes
    )


ASKED = {
    "above": query(Above(-0.25), RandomizedResponse(2.0)),
    "shifted": query(Shifted(np.full(DIM, 0.5)), SubsetHypercube(2.0, DIM)),
}


def values(statistic, people, asked=ASKED["shifted"]):
    """Return what a statistic makes of single users on one node."""
    rows = [len(y) for _, y in people]
    users = Users(
        np.concatenate([x for x, _ in people]),
        np.concatenate([y for _, y in people]),
        np.concatenate([[0], np.cumsum(rows)]),
    )
    own = {type(asked.question): statistic}
    return values_of(users.take, np.arange(len(users)), asked, own)


def person(seed, rows):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, DIM)), rng.standard_normal(rows)


# --------------------------------------------------------------------------- isolation

NEIGHBOURS = [
    (np.full((2, DIM), np.nan), np.full(2, np.nan)),
    (np.full((3, DIM), 1e308), np.full(3, -1e308)),
    (np.zeros((0, DIM)), np.zeros(0)),
    (np.full((1, DIM), 5e-324), np.full(1, np.inf)),
    person(5, 400),
]


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("before", range(len(NEIGHBOURS)))
@pytest.mark.parametrize("after", range(len(NEIGHBOURS)))
def test_a_user_has_the_same_bits_whoever_else_is_there(asked, before, after):
    me, statistic = person(1, 5), OWN[type(asked.question)]
    alone = values(statistic, [me], asked)
    among = values(statistic, [NEIGHBOURS[before], me, NEIGHBOURS[after]], asked)
    assert np.isfinite(alone).all()
    assert among[1].tobytes() == alone[0].tobytes()


def test_a_function_sees_copies_of_one_users_rows_and_nothing_else():
    seen = []

    def spying(features, targets, question):
        seen.append((features, targets, question))
        features += 1.0
        targets[:] = 7.0
        return np.zeros(DIM)

    people = [person(seed, rows) for seed, rows in enumerate([2, 0, 3])]
    kept = [(x.copy(), y.copy()) for x, y in people]
    for _ in range(2):
        values(spying, people)
    assert len(seen) == 6
    for (features, targets, _), (x, y) in zip(seen, kept * 2, strict=True):
        assert features.base is None and targets.base is None
        assert features.flags.c_contiguous and features.dtype == targets.dtype == np.float64
        np.testing.assert_array_equal(features, x + 1.0)
        assert targets.tolist() == [7.0] * len(y)
    users = Users(*kept[0], np.array([0, 2]))
    values_of(users.take, np.arange(1), ASKED["shifted"], {Shifted: spying})
    np.testing.assert_array_equal(users.features, kept[0][0])


def test_a_function_cannot_write_into_the_next_users_question():
    def centring(features, targets, question):
        question.centre += features.mean(axis=0)
        return question.centre

    asked = query(Shifted(np.full(DIM, 0.5)), SubsetHypercube(2.0, DIM))
    found = values(centring, [person(0, 1), person(1, 1)], asked)
    assert np.isnan(found).all()
    assert asked.question.centre.tolist() == [0.5] * DIM


def test_what_a_function_sets_in_numpy_ends_with_its_user():
    def setting(features, targets, question):
        np.seterr(all="raise")
        return features.sum(axis=0) * 1e300 * 1e300

    with np.errstate(all="ignore"):
        found = values(setting, [person(0, 1), (np.zeros((1, DIM)), np.zeros(1))])
        assert np.geterr()["over"] == "ignore"
    assert np.isnan(found[0]).all()  # raised
    assert found[1].tolist() == [0.0] * DIM


FAULTS = {
    "raises": lambda x, y, q: 1 / 0,
    "leaves": lambda x, y, q: sys.exit(1),
    "nothing": lambda x, y, q: None,
    "text": lambda x, y, q: "secret",
    "too short": lambda x, y, q: np.zeros(DIM - 1),
    "too long": lambda x, y, q: np.zeros((2, DIM)),
    "one for all": lambda x, y, q: 0.5,
    "complex": lambda x, y, q: np.full(DIM, 1j),
    "ragged": lambda x, y, q: [[1.0], [1.0, 2.0]],
    "infinite": lambda x, y, q: np.full(DIM, np.inf),
}


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("fault", FAULTS)
def test_one_users_failure_costs_nobody_else_and_is_logged(fault, caplog):
    def failing(features, targets, question):
        if len(targets) == 2:
            return FAULTS[fault](features, targets, question)
        return shifted(features, targets, question)

    people = [person(0, 3), person(1, 2), person(2, 1)]
    with caplog.at_level(logging.WARNING):
        found = values(failing, people)
    good = values(shifted, people)
    assert found[[0, 2]].tobytes() == good[[0, 2]].tobytes()
    if fault == "complex":
        assert found[1].tolist() == [0.0] * DIM  # NumPy takes the real part
    else:
        assert not np.isfinite(found[1]).any()
        assert "is not a number): 1." in caplog.text


def test_a_failure_of_all_is_told_once(caplog):
    values(FAULTS["raises"], [person(seed, 1) for seed in range(50)])
    assert caplog.text.count("ZeroDivisionError") == 1
    assert "is not a number): 50." in caplog.text


def test_the_operators_interrupt_is_not_a_value():
    def interrupted(features, targets, question):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        values(interrupted, [person(0, 1)])


# ------------------------------------------------------------------- what may be brought


class Bare(Question):
    stem: ClassVar[str] = "bare"

    threshold: Signed


class Inheriting(Above):
    stem: ClassVar[str] = "inheriting"

    other: Signed


@dataclass(frozen=True, eq=False)
class Textual(Question):
    stem: ClassVar[str] = "textual"

    how: str


@dataclass(frozen=True, eq=False)
class Listed(Question):
    stem: ClassVar[str] = "listed"

    numbers: list


@dataclass(frozen=True, eq=False)
class Inside(Question):
    stem: ClassVar[str] = "inside"

    inner: Question


@dataclass(frozen=True, eq=False)
class Viewing(Standardised):
    stem: ClassVar[str] = "viewing"


@dataclass(frozen=True, eq=False)
class Updating(UpdateQuestion):
    stem: ClassVar[str] = "updating"


@dataclass(frozen=True, eq=False)
class Publishing(Labels):
    stem: ClassVar[str] = "publishing"


def named(stem):
    return dataclass(frozen=True, eq=False)(type("Named", (Question,), {"stem": stem}))


@pytest.mark.parametrize("kind", [Bare, Inheriting])
def test_a_question_is_a_frozen_dataclass(kind):
    with pytest.raises(ValueError, match=f"Expected {kind.__name__} to be a frozen dataclass"):
        LdpClientApp(load_users, statistics={kind: above})


@pytest.mark.parametrize("kind", [Textual, Listed, Inside])
def test_all_fields_of_a_question_cross_the_wire(kind):
    with pytest.raises(ValueError, match=rf"Expected {kind.__name__}\.\w+ to be annotated"):
        LdpClientApp(load_users, statistics={kind: above})


@pytest.mark.parametrize("kind", [Viewing, Updating, Publishing])
def test_a_question_is_about_private_rows(kind):
    with pytest.raises(ValueError, match=f"Expected {kind.__name__} to be about rows"):
        LdpClientApp(load_users, statistics={kind: above})


@pytest.mark.parametrize("stem", ["", "A", "1st", "a b", "a.b", "_a", "a" * 65, "größe", "a\n", 7])
def test_a_name_is_plain(stem):
    with pytest.raises(ValueError, match="Expected the stem of Named to be lowercase"):
        LdpClientApp(load_users, statistics={named(stem): above})


@pytest.mark.parametrize("stem", sorted(WIRE_TYPES))
def test_no_name_that_exists_can_be_taken(stem):
    with pytest.raises(ValueError, match="Expected Named to have a new stem, got"):
        attach(ClientApp(), load_users, statistics={named(stem): above})


def test_no_two_questions_have_one_name():
    with pytest.raises(ValueError, match="new stem, got 'twice'"):
        LdpClientApp(load_users, statistics={named("twice"): above, named("twice"): above})
    with pytest.raises(ValueError, match="new stem, got 'mean'"):
        LdpClientApp(load_users, statistics={Mean: shifted})


@pytest.mark.parametrize(
    "statistics", [7, [Above], {"above": above}, {int: above}, {Above: "mean"}]
)
def test_anything_else_is_refused_at_once(statistics):
    with pytest.raises(ValueError, match="Expected"):
        LdpClientApp(load_users, statistics=statistics)


def test_the_mapping_is_copied(tmp_path):
    given = {Above: above}
    app = LdpClientApp(load_users, statistics=given)
    given[Shifted] = given.pop(Above)
    config = deployed(tmp_path)
    assert isinstance(report_in(ask(app, ASKED["above"], config)), bytes)
    assert report_in(ask(app, ASKED["shifted"], config)) == Refusal.MALFORMED


# ------------------------------------------------------------------------- on the node


def deployed(folder, max_epsilon=4.0):
    SqliteLedger.create(folder / "ledger.db")
    return {"max-epsilon": max_epsilon, "ledger-path": str(folder / "ledger.db"), "num-users": 6}


def test_a_deployed_node_answers_pays_and_answers_the_same_again(tmp_path):
    config = deployed(tmp_path, 2.0)
    app = LdpClientApp(load_users, statistics=OWN)
    first = ask(app, ASKED["above"], config)
    assert Report.from_record_dict(first.content).arrays["count"].tolist() == [6]
    spent = SqliteLedger(config["ledger-path"]).spent()
    assert {cost.epsilon for cost in spent.values()} == {2.0} and len(spent) == 6
    again = ask(LdpClientApp(load_users, statistics=OWN), ASKED["above"], config)
    assert report_in(again) == report_in(first)
    assert report_in(ask(app, ASKED["shifted"], config)) == Refusal.EXHAUSTED
    (booked,) = {row[3:5] for row in charges(SqliteLedger(config["ledger-path"]))}
    assert booked == ("above", "RandomizedResponse")


def test_another_app_knows_nothing_of_it(tmp_path):
    config = deployed(tmp_path)
    LdpClientApp(load_users, statistics=OWN)
    before = dict(WIRE_TYPES)
    plain = LdpClientApp(load_users)
    for asked in ASKED.values():
        reply = ask(plain, asked, config)
        assert reply.error.code == Refusal.MALFORMED
        assert reply.error.reason == f"Unknown statistic {asked.statistic!r}."
    assert before == WIRE_TYPES and not {"above", "shifted"} & set(WIRE_TYPES)


@pytest.mark.parametrize(
    "name",
    [
        *("above_", "Above", "rotated_above", "standardised_above", "logistic_above"),
        *("__class__", "test_own_statistics.Above", "os.system", "", "a" * 10_000, "above\0"),
    ],
)
def test_a_message_registers_nothing(tmp_path, name):
    app = LdpClientApp(load_users, statistics=OWN)
    config = deployed(tmp_path)
    asked = query(AsSent(name, {"threshold": np.zeros(1)}), RandomizedResponse(1.0))
    assert report_in(ask(app, asked, config)) == Refusal.MALFORMED
    assert not SqliteLedger(config["ledger-path"]).spent()
    assert isinstance(report_in(ask(app, ASKED["above"], config)), bytes)


@pytest.mark.parametrize(
    "asked",
    [
        AsSent("above"),
        AsSent("above", {"threshold": np.zeros(2)}),
        AsSent("above", {"threshold": np.array([np.nan])}),
        AsSent("above", {}, {"threshold": 1.0}),
        AsSent("above", {"threshold": np.zeros(1), "more": np.zeros(1)}),
        AsSent("shifted", {"centre": np.zeros(DIM + 1)}),
        AsSent("shifted", {"centre": np.zeros(DIM, np.float32)}),
    ],
)
def test_arguments_are_checked_as_those_of_the_librarys_questions(tmp_path, asked):
    app = LdpClientApp(load_users, statistics=OWN)
    width = RandomizedResponse(1.0) if asked.name == "above" else SubsetHypercube(1.0, DIM)
    assert report_in(ask(app, query(asked, width), deployed(tmp_path))) == Refusal.MALFORMED


def test_the_width_is_checked(tmp_path):
    app = LdpClientApp(load_users, statistics=OWN)
    asked = query(Above(0.0), SubsetHypercube(1.0, DIM))
    reply = ask(app, asked, deployed(tmp_path))
    assert "Expected a randomizer of 1 coordinates" in reply.error.reason


def test_a_users_answers_go_through_any_mechanism_for_silos_too():
    """A record takes the place of a user, so that a function sees one record at a time."""
    seen = []

    def watched(features, targets, question):
        seen.append(len(targets))
        return above(features, targets, question)

    app = LdpClientApp(
        lambda _: Users(*person(0, 7), np.array([0, 4, 7])), statistics={Above: watched}
    )
    mechanism = RecordGaussian(1.0, 1, delta=1e-5)
    reply = ask_in_grid(app, query(Above(0.0), mechanism))
    assert not reply.has_error()
    assert seen == [1] * 7


def ask_in_grid(app, asked):
    grid = InProcessGrid(app, 1)
    (reply,) = grid.send_and_receive([Message(asked.to_record_dict(), 1, "query.report")])
    return reply


# ------------------------------------------------------------- a protocol, and its audit


@dataclass(kw_only=True, eq=False, repr=False)
class ShareAbove(LdpStrategy[Result]):
    """The share of users above a threshold."""

    threshold: float

    def protocol(self, run):
        (cohort,) = run.cohorts([run.num_users])
        answer = yield Ask(cohort, Above(self.threshold), RandomizedResponse(self.epsilon))
        self.share = (1 + float(answer.mean[0])) / 2
        return Result()


def test_a_protocol_of_ones_own_runs_and_is_right():
    rng = np.random.default_rng(0)
    targets = rng.standard_normal(20_000)
    users = Users.from_rows(np.zeros((20_000, 1)), targets)
    strategy = ShareAbove(threshold=0.5, epsilon=2.0)
    result = simulate(strategy, users, seed=0, num_nodes=3, statistics=OWN)
    assert result.num_reports == 20_000
    assert abs(strategy.share - (targets > 0.5).mean()) < 0.02  # three standard errors


@pytest.mark.slow
def test_the_audit_takes_statistics_from_elsewhere():
    users = Users.from_rows(np.zeros((60, 3)), np.linspace(-1, 1, 60))
    queries = recorded_queries(ShareAbove(threshold=-0.5, epsilon=2.0), users, statistics=OWN)
    assert [asked.statistic for asked in queries] == ["above"]
    assert queries[0].question.threshold == -0.5
    audit = audit_handler(queries[0], extreme_users(3), num_reports=300, seed=0, statistics=OWN)
    assert audit.passed, audit
    assert audit.measured > 1.0  # it is told apart, as far as the mechanism allows


def test_the_audit_finds_a_function_that_keeps_what_it_has_seen():
    before = [0.0]

    def remembering(features, targets, question):
        before[0], last = targets.sum(), before[0]
        return 1.0 if last > question.threshold else -1.0

    audit = audit_handler(
        query(Above(5.0), RandomizedResponse(8.0)),
        extreme_users(2),
        num_reports=200,
        seed=0,
        statistics={Above: remembering},
    )
    assert not audit.checks["isolation"]


def test_an_audit_takes_an_app_or_its_statistics():
    with pytest.raises(ValueError, match="Expected no statistics with make_app"):
        audit_handler(
            ASKED["above"],
            extreme_users(2),
            make_app=lambda load, seed: LdpClientApp(load, seed=seed, statistics=OWN),
            statistics=OWN,
        )


def test_forms_with_adds_to_the_closed_registry_and_leaves_it_alone():
    forms = wire_types_with([Above, Shifted])
    assert set(forms) - set(WIRE_TYPES) == {"above", "shifted"}
    assert {name: forms[name] for name in WIRE_TYPES} == WIRE_TYPES
    with pytest.raises(ValueError, match="Unknown statistic 'rotated_shifted'"):
        Rotated(Shifted(np.zeros(3)), np.ones(3), np.zeros(4))
