"""A client whose users are silos: what it reports, what it refuses, what it charges."""

import dataclasses

import numpy as np
import pytest
from deployed_node import SALT, ask, report_in

from ldp_flower import PrivacyPolicy, Users
from ldp_flower.audit import audit_handler, extreme_silos, recorded_queries
from ldp_flower.clients import LdpClientApp, Refusal
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.messages import HASH_END, Query, Report
from ldp_flower.questions import Gradient
from ldp_flower.randomizers import GaussianMechanism, RecordGaussian, RecordPeeling
from ldp_flower.strategies import DpIht, PeelingDpIht, PeelingTransfer

DIM = 3
RECORDS = np.random.default_rng(0).standard_normal((40, DIM))
SILOS = Users(RECORDS, RECORDS[:, 0], np.array([0, 30, 40]), np.array(["clinic", "hospital"]))


def query(step=1, epsilon=90.0, steps=3, mechanism=RecordGaussian, **more):
    """Return a question with so little noise that the mean shows."""
    randomizer = mechanism(epsilon, DIM, 10.0, 1e-3, steps, **more)
    return Query(Gradient(np.zeros(DIM)), randomizer, SALT, 0, HASH_END, step)


@pytest.fixture
def node_config(ledger, tmp_path):
    return {
        "max-epsilon": 100.0,
        "max-delta": 0.01,
        "allow-inexact": True,
        "unit": "record",
        "num-records": 20,
        "ledger-path": str(tmp_path / "ledger.db"),
    }


def test_a_silo_reports_the_sum_over_its_first_declared_records(node_config):
    reply = report_in(ask(LdpClientApp(lambda _: SILOS), query(), node_config))
    reports = Report.from_bytes(reply).arrays["reports"].astype(float)
    x, y = SILOS.features, SILOS.targets
    sums = [(-y[a:b, None] * x[a:b]).sum(axis=0) for a, b in ((0, 20), (30, 40))]
    sigma = query().randomizer.sigma
    np.testing.assert_allclose(reports[:, :DIM], sums, atol=6 * sigma)
    # Declared, whatever is there: the hospital's ten records stay its secret.
    assert reports[:, DIM].tolist() == [20.0, 20.0]


@pytest.mark.parametrize("rows", [0, 1, 19, 20, 500])
def test_the_size_of_a_reply_does_not_depend_on_the_number_of_records(node_config, rows):
    x = np.zeros((rows, DIM))
    silo = Users(x, x[:, 0], np.array([0, rows]), np.array(["clinic"]))
    reply = report_in(ask(LdpClientApp(lambda _: silo), query(), node_config))
    assert len(reply) == len(
        report_in(ask(LdpClientApp(lambda _: SILOS[:1]), query(2), node_config))
    )
    assert Report.from_bytes(reply).arrays["reports"][0, DIM] == 20


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_bad_record_costs_itself_only(node_config, bad):
    x = RECORDS.copy()
    x[4] = bad
    silos = dataclasses.replace(SILOS, features=x)
    reply = report_in(ask(LdpClientApp(lambda _: silos), query(), node_config))
    report = Report.from_bytes(reply).arrays["reports"].astype(float)[0]
    rest = np.delete(np.arange(20), 4)
    expected = (-SILOS.targets[rest, None] * RECORDS[rest]).sum(axis=0)
    # 1e300 is finite, and shortened to the radius; the others count as zero.
    far = 10.0 if bad == 1e300 else 0.0
    assert np.linalg.norm(report[:DIM] - expected) < far + 6 * 3 * query().randomizer.sigma


def test_a_plan_is_charged_once_and_ends(ledger, node_config):
    app = LdpClientApp(lambda _: SILOS)
    for step in (1, 2, 3):
        assert isinstance(report_in(ask(app, query(step), node_config)), bytes)
        assert ledger.spent() == {name: Cost(90.0, 1e-3) for name in SILOS.ids}
    refused = ask(app, query(4), node_config)
    assert refused.error.code == Refusal.EXHAUSTED
    # The same question again is free also when its plan is used up.
    assert isinstance(report_in(ask(app, query(2), node_config)), bytes)


def test_a_step_asked_twice_counts_once(node_config):
    app = LdpClientApp(lambda _: SILOS)
    first = report_in(ask(app, query(1), node_config))
    assert report_in(ask(app, query(1), node_config)) == first
    assert isinstance(report_in(ask(app, query(2), node_config)), bytes)
    assert isinstance(report_in(ask(app, query(3), node_config)), bytes)


@pytest.mark.parametrize(
    "changed", [{"unit": "user"}, {"unit": None}, {"allow-inexact": False}, {"max-delta": 1e-4}]
)
def test_an_operator_who_did_not_agree_answers_nothing(ledger, node_config, changed):
    config = {k: v for k, v in (node_config | changed).items() if v is not None}
    reply = ask(LdpClientApp(lambda _: SILOS), query(), config)
    assert reply.error.code == Refusal.FORBIDDEN
    assert ledger.spent() == {}


def test_without_a_declared_number_of_records_nothing_is_answered(node_config):
    del node_config["num-records"]
    reply = ask(LdpClientApp(lambda _: SILOS), query(), node_config)
    assert reply.error.code == Refusal.MISCONFIGURED


def test_what_protects_the_whole_silo_is_answered_too(node_config):
    question = dataclasses.replace(query(), randomizer=GaussianMechanism(2.0, DIM))
    assert isinstance(report_in(ask(LdpClientApp(lambda _: SILOS), question, node_config)), bytes)


def test_an_apps_own_policy_that_protects_users_wins(node_config):
    app = LdpClientApp(lambda _: SILOS, PrivacyPolicy(100.0, 0.01, allow_inexact=True))
    assert ask(app, query(), node_config).error.code == Refusal.FORBIDDEN


def test_records_that_cannot_be_read_leave_a_report_of_noise(node_config):
    class Damaged(Users):
        def take(self, slots, max_rows=None):
            raise ValueError("record 17 is damaged")

    reply = report_in(ask(LdpClientApp(lambda _: Damaged(**vars(SILOS))), query(), node_config))
    report = Report.from_bytes(reply).arrays["reports"]
    assert report.shape == (2, DIM + 1) and np.isfinite(report).all()


# ------------------------------------------------------------------------------- the audit


def found(randomizer, seed=1, make_app=None):
    # Rows of 1e9 make every gradient as long as it may be.
    silos = extreme_silos(DIM)
    question = Query(Gradient(np.zeros(DIM)), randomizer, SALT, 0, HASH_END, 1)
    pair = {name: silos[name] for name in ("ones", "ones, minus", "NaN")}
    return audit_handler(question, pair, num_reports=400, seed=seed, make_app=make_app)


MECHANISMS = [
    RecordGaussian(1.0, DIM, 1.0, 1e-3, 1),
    RecordPeeling(1.0, DIM, 1.0, 1e-3, 1, sparsity=1),
]
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=["gaussian", "peeling"])


@pytest.mark.slow
@each
def test_the_audit_finds_nothing_in_the_real_client(mechanism):
    assert found(mechanism).passed


@pytest.mark.slow
@each
@pytest.mark.parametrize("fault", ["a tenth of the noise", "records are clipped too late"])
def test_the_audit_finds_planted_faults(mechanism, fault, monkeypatch):
    if fault == "a tenth of the noise":
        honest = type(mechanism)._noisy
        monkeypatch.setattr(
            type(mechanism),
            "_noisy",
            lambda self, totals, shift, rng: honest(self, 10 * totals, 10 * shift, rng),
        )
    else:
        clipped = type(mechanism)._clipped
        monkeypatch.setattr(
            type(mechanism), "_clipped", lambda self, values: 10 * clipped(self, values)
        )
    audit = found(mechanism)
    assert not audit.passed and audit.measured > 1.0


@pytest.mark.long
def test_every_query_of_the_protocols_is_audited():
    protocols = (DpIht, PeelingDpIht, PeelingTransfer)
    runs = [run for protocol in protocols for run in protocol.audit_runs(DIM, 2.0)]
    assert len(runs) == 6
    queries = [question for run in runs for question in recorded_queries(*run)]
    mechanisms = {type(question.randomizer) for question in queries}
    assert mechanisms == {RecordGaussian, RecordPeeling}
    silos = extreme_silos(DIM)
    assert {len(silo.features) for silo in silos.values()} == {3}
    for question in queries:
        assert audit_handler(question, silos, num_reports=300, seed=0).passed
