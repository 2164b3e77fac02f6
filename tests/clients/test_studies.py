"""Approved studies, against a server that asks what no study approves.

Each test is a way around the file, which a node has to refuse with its code before it costs.
"""

import multiprocessing
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import ClassVar
from uuid import uuid4

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from deployed_node import NODE_ID
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from nodes_of_peers import SALT, USERS, Hospitals
from nodes_of_peers import query as shared_query

from ldp_flower import Categories, Numeric, PrivacyPolicy, Schema
from ldp_flower.clients import LdpClientApp, LdpUpdateMod
from ldp_flower.guarantee import ledger as ledger_module
from ldp_flower.guarantee import study_book
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import HASH_END, ErrorCode, Query, Report
from ldp_flower.guarantee.studies import Studies, StudiesError, signed_text
from ldp_flower.guarantee.training import census as census_of_training
from ldp_flower.guarantee.training import with_query
from ldp_flower.questions import (
    CellShares,
    ClippedUpdate,
    Coordinates,
    Gradient,
    Mean,
    Moments,
    Projected,
    Rows,
    TableCell,
)
from ldp_flower.questions.columns import OneColumn
from ldp_flower.randomizers import BallSum, CellSum, Codebook, HybridMechanism, KRandomizedResponse
from ldp_flower.strategies.runtime.named_study import NamedStudy
from ldp_flower.supernode.bookkeeping import renew_budgets, spent_in_studies

SCHEMA = Schema(
    {"age": Numeric(0, 100), "sex": Categories(["f", "m"]), "nihss": Numeric(0, 42)},
    "mrs",
    Numeric(0, 6),
)
PEOPLE = 12
AGE, SEX, NIHSS, MRS = (SCHEMA.places(name) for name in SCHEMA.columns_read)
STROKE = """[[study]]
id = "stroke"
questions = ["table_cell", "cell_shares", "moments"]
columns = ["age", "sex"]
noise = ["user", "node"]
epsilon = 1.0
delta = 1e-6
steps = 12
until = 2027-03-31
census = true
"""
AGES = """[[study]]
id = "ages"
questions = ["table_cell", "moments"]
columns = ["age"]
noise = ["user", "node"]
epsilon = 0.5
delta = 1e-6
steps = 3
until = 2027-03-31
"""
FORMAT = "format = 1\n"


def patients():
    rng = np.random.default_rng(1)
    table = {
        "age": rng.uniform(20, 90, PEOPLE),
        "sex": np.array(["f", "m"] * (PEOPLE // 2)),
        "nihss": rng.uniform(0, 42, PEOPLE),
        "mrs": rng.uniform(0, 6, PEOPLE),
    }
    return SCHEMA.users(table, [f"patient-{i:02d}" for i in range(PEOPLE)])


def shares(places=SEX, study="stroke", salt=7, parts=1000, epsilon=0.5, step=1):
    """Return a question for shares of categories, with noise at the node."""
    places = np.array(places)
    mechanism = CellSum(epsilon, 1e-6, len(places), parts)
    question = CellShares(places, np.array([float(len(places))]))
    return Query(question, mechanism, salt, 0, HASH_END, step, study=study)


def level(places=AGE, study="stroke", salt=7, epsilon=0.5, step=1):
    """Return a question for a number in two levels, with noise at each user."""
    question = TableCell(np.array(places), np.empty(0), 2, -1.0, 1.0)
    mechanism = KRandomizedResponse(epsilon, 2)
    return Query(question, mechanism, salt, 0, HASH_END, step, study=study)


class Node:
    """A node of a deployment with a file of studies."""

    def __init__(self, folder, users=None, own=None):
        self.file, self.book = folder / "studies.toml", folder / "ledger.db"
        self.users, self.own = users or patients(), own
        SqliteLedger.create(self.book)
        self.config = {"max-epsilon": 2.0, "max-delta": 1e-5, "noise": "node"}
        self.config |= {"ledger-path": str(self.book), "studies": str(self.file)}
        self.approve(STROKE, AGES)

    def approve(self, *tables):
        self.file.write_text("\n".join([FORMAT, *tables]))
        self.file.chmod(0o644)

    def send(self, content, kind, app=None):
        if vars(TaskIdentity)["_run_id"] is None:  # messages belong to one of Flower's processes
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
        message = Message(content, NODE_ID, kind)
        message.metadata.__dict__["_message_id"] = str(uuid4())
        app = app or LdpClientApp(lambda _: self.users, statistics=self.own)
        return app(message, Context(1, NODE_ID, self.config, RecordDict(), {}))

    def reason(self, query):
        """Return the text of a refusal."""
        return self.send(query.to_record_dict(), "query.report").error.reason

    def ask(self, query):
        """Return the stored bytes of an answer, or the code of a refusal."""
        reply = self.send(query.to_record_dict(), "query.report")
        if reply.has_error():
            return reply.error.code
        return Report.from_record_dict(reply.content).to_bytes()

    def census(self, *records):
        content = RecordDict({name: ConfigRecord() for name in records})
        reply = self.send(content, "query.census")
        return reply.error.code if reply.has_error() else set(reply.content)

    @property
    def ledger(self):
        return SqliteLedger(self.book)

    def steps(self):
        return {study: each.steps for study, each in spent_in_studies(self.ledger).items()}

    def spent(self):
        return {study: each.largest for study, each in spent_in_studies(self.ledger).items()}


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def clock(monkeypatch):
    """A clock of the node's ledger that the test sets."""
    clock = SimpleNamespace(now=datetime(2027, 1, 1, tzinfo=UTC).timestamp())
    shown = SimpleNamespace(time=lambda: clock.now)
    monkeypatch.setattr(study_book, "time", shown)
    monkeypatch.setattr(ledger_module, "time", shown)
    return clock


def refused(node, query, code=ErrorCode.NOT_APPROVED):
    """Whether a query is refused with this code, and costs nothing."""
    before = node.spent(), node.steps()
    return node.ask(query) == code and (node.spent(), node.steps()) == before


def test_a_study_answers_what_it_approves_and_pays_for_it(node):
    assert isinstance(node.ask(shares()), bytes) and isinstance(node.ask(level()), bytes)
    assert node.spent() == {"stroke": Cost(1.0, 1e-6)} and node.steps() == {"stroke": 2}
    assert isinstance(node.ask(level(study="ages")), bytes)
    assert node.spent() == {"stroke": Cost(1.0, 1e-6), "ages": Cost(0.5)}
    assert set(node.ledger.spent().values()) == {Cost(1.5, 1e-6)}


def test_without_a_file_a_study_is_a_name_that_nothing_depends_on(node):
    del node.config["studies"]
    for query in (shares(study=None), shares(study="never-heard-of", salt=8)):
        assert isinstance(node.ask(query), bytes)
    assert node.spent() == {"": Cost(1.0, 2e-6)} and node.steps() == {"": 0}
    assert node.census("numbers") == {"census", "numbers", "schema"}


# ------------------------------------------------------------------ 1 and 2: what is asked


def test_a_question_that_no_study_lists_is_refused(node):
    mean = Query(Mean(np.zeros(5)), Codebook(0.5, 5, 1.0, 8), 7, 0, HASH_END, 1, study="stroke")
    assert refused(node, mean)
    for study in (None, "strok", "stroke-2", "cell_shares".replace("_", "-")):
        assert refused(node, shares(study=study))
    assert refused(node, shares(study="ages"))


def test_every_column_that_is_read_has_to_be_approved(node):
    assert refused(node, level(NIHSS)) and refused(node, level(MRS))
    assert refused(node, shares([*NIHSS])) and refused(node, shares([0]))
    by_sex = Moments(np.array([*SEX, *NIHSS]), np.array([2.0]), -1.0, 1.0)
    mechanism = BallSum(0.5, 1e-6, 6, 1000, radius=by_sex.radius)
    assert refused(node, Query(by_sex, mechanism, 7, 0, HASH_END, 1, study="stroke"))
    by_sex = replace(by_sex, coordinates=np.array([*SEX, *AGE]))
    query = Query(by_sex, mechanism, 7, 0, HASH_END, 1, study="stroke")
    assert refused(node, replace(query, study="ages"))  # groups are read, too
    assert isinstance(node.ask(query), bytes)


def test_a_refusal_names_what_is_not_approved(node):
    assert "its study: question cell_shares." in node.reason(shares(study="ages"))
    assert "its study: columns nihss." in node.reason(level(NIHSS))
    assert "its study: columns nihss, intercept." in node.reason(shares([*NIHSS, *SEX, 0]))
    node.approve(STROKE.replace('"user", "node"', '"user"'))
    assert "its study: noise node." in node.reason(shares())


def test_a_refusal_names_few_columns_in_printable_signs_and_none_without_a_schema(tmp_path):
    long, forged = "n" * 100, "line\nend"
    names = ["intercept", long, forged, "b", "c", "mrs"]
    node = Node(tmp_path, replace(patients(), columns=names))
    node.approve(STROKE.replace('"age", "sex"', '"intercept"'))
    reason = node.reason(shares([1, 2, 3, 4]))
    assert reason.endswith(f": columns {long[:30]}, line?end, b, 1 more.") and len(reason) <= 200
    node.users = replace(node.users, schema_digests=None)  # no census has told the names
    assert node.reason(shares([1, 2, 3, 4])).endswith("for its study: columns.")


@pytest.mark.parametrize("without", SCHEMA.columns_read)
def test_a_map_of_one_column_reads_all_since_rows_count_if_they_are_finite(node, without):
    theta = np.eye(5)[AGE[0]]
    questions = {
        "gradient": (Gradient(theta, coordinates=np.array(AGE)), 1),
        "mean": (Mean(np.zeros(5), coordinates=np.array(AGE)), 1),
        "projected_mean": (Projected(Mean(np.zeros(2)), 5, 2), 2),
    }
    listed = STROKE.replace('"table_cell", "cell_shares", "moments"', str([*questions])[1:-1])
    names = ["intercept", *SCHEMA.columns_read]
    for number, (question, width) in enumerate(questions.values()):
        query = Query(question, Codebook(0.25, width, 1.0, 8), number, 0, HASH_END, 1)
        query = replace(query, study="stroke")
        some = [name for name in names if name != without]
        node.approve(listed.replace('"age", "sex"', str(some)[1:-1]))
        assert refused(node, query)
        node.approve(listed.replace('"age", "sex"', str(names)[1:-1]))
        assert isinstance(node.ask(query), bytes)


@dataclass(frozen=True, eq=False)
class Sly(OneColumn):
    """A question of an app, whose statistic reads other columns than the one it names."""

    stem: ClassVar[str] = "sly"
    rows: ClassVar[Rows] = Rows.PRESENT
    fixed_width: ClassVar[int] = 1

    coordinates: Coordinates


def test_a_statistic_of_an_app_reads_all_columns(tmp_path):
    node = Node(tmp_path, own={Sly: lambda features, targets, question: targets[:1]})
    query = Query(Sly(np.array(AGE)), HybridMechanism(0.5), 7, 0, HASH_END, 1, study="stroke")
    node.config["allow-inexact"] = True
    node.approve(STROKE.replace('"table_cell"', '"sly"'))
    assert refused(node, query)


@pytest.mark.parametrize("names", [None, ["intercept", "age", "sex", "sex", "nihss"]])
def test_columns_without_names_are_not_approved(tmp_path, names):
    """The second has no name for the target."""
    node = Node(tmp_path, replace(patients(), columns=names))
    assert refused(node, level())


# ------------------------------------------------------------------------- 3: signatures

ANALYST, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


def signed_by(*keys):
    listed = ", ".join(f'"{key.public_key().public_bytes_raw().hex()}"' for key in keys)
    return f"signed-by = [{listed}]\n"


def test_a_query_has_to_be_signed_for_its_study(node):
    node.approve(STROKE + signed_by(OTHER, ANALYST), AGES + signed_by(OTHER))
    named = NamedStudy("stroke", ANALYST)
    good = named.naming(level())
    for bad in (
        level(),  # not signed
        NamedStudy("stroke", Ed25519PrivateKey.generate()).naming(level()),
        replace(good, salt=8),
        replace(good, high=HASH_END - 1),
        replace(good, step=2),
        replace(good, randomizer=KRandomizedResponse(0.4, 2)),
        replace(good, question=replace(good.question, high=2.0)),
        replace(level(), signature=ANALYST.sign(signed_text(level().digest(), "ages"))),
        replace(level(), signature=ANALYST.sign(bytes.fromhex(level().digest()))),
    ):
        assert refused(node, bad, ErrorCode.NOT_SIGNED)
    # What is signed for one study says nothing in another that knows the key.
    node.approve(STROKE + signed_by(ANALYST), AGES + signed_by(ANALYST))
    assert refused(node, replace(good, study="ages"), ErrorCode.NOT_SIGNED)
    first = node.ask(good)
    assert isinstance(first, bytes) and node.ask(good) == first
    assert node.steps() == {"stroke": 1}
    assert good.digest() == level().digest()


def test_a_signature_of_another_form_is_malformed(node):
    for signature in (b"short", bytes(65), "text" * 16, 1):
        content = level().to_record_dict()
        content["config"]["signature"] = signature
        assert node.send(content, "query.report").error.code == ErrorCode.MALFORMED
    for study in ("Stroke", "", "a" * 41, 1, b"stroke"):
        content = level().to_record_dict()
        content["config"]["study"] = study
        assert node.send(content, "query.report").error.code == ErrorCode.MALFORMED


# -------------------------------------------------------------- 4, 5, 6 and 11: the shares


def test_two_studies_that_approve_the_same_pay_apart_and_no_more_than_their_shares(node):
    assert isinstance(node.ask(level(study="stroke")), bytes)
    assert isinstance(node.ask(level(study="ages")), bytes)  # the same question, another study
    assert refused(node, level(study="ages", salt=8), ErrorCode.EXHAUSTED)
    assert isinstance(node.ask(level(study="stroke", salt=8)), bytes)
    assert refused(node, level(study="stroke", salt=9), ErrorCode.EXHAUSTED)
    assert node.spent() == {"stroke": Cost(1.0), "ages": Cost(0.5)}
    assert set(node.ledger.spent().values()) == {Cost(1.5)}  # 2 would be left without studies


@pytest.mark.parametrize(
    "more",
    [
        STROKE.replace("stroke", "more").replace("epsilon = 1.0", "epsilon = 1.1"),
        STROKE.replace("stroke", "more").replace("1e-6", "9.1e-6"),
    ],
)
def test_shares_above_the_policy_are_a_file_that_is_refused(node, more):
    node.approve(STROKE, more)
    assert refused(node, level(), ErrorCode.STUDIES_FILE)


def test_an_apps_policy_tightens_and_shares_above_it_are_refused(node):
    app = LdpClientApp(lambda _: node.users, PrivacyPolicy(1.0, 1e-5, noise="node"))
    reply = node.send(level().to_record_dict(), "query.report", app)
    assert reply.error.code == ErrorCode.STUDIES_FILE
    own = PrivacyPolicy(2.0, 1e-5, noise="node", studies="other.toml")
    reply = node.send(level().to_record_dict(), "query.report", LdpClientApp(lambda _: None, own))
    assert reply.error.code == ErrorCode.MISCONFIGURED


def test_the_delta_of_a_study_is_a_limit_of_its_own(node):
    assert isinstance(node.ask(shares(epsilon=0.1)), bytes)
    assert refused(node, shares(salt=8, epsilon=0.1), ErrorCode.EXHAUSTED)
    assert isinstance(node.ask(level()), bytes)


def test_a_refusal_names_the_limit_unless_it_would_tell_users_apart(node):
    exceeds, unnamed = "leaves. It exceeds the study's epsilon.", "the privacy budget leaves."
    first = replace(level(study="ages"), high=HASH_END // 2)
    rest, again = replace(first, low=first.high, high=HASH_END), replace(first, step=2)
    assert isinstance(node.ask(first), bytes)
    assert node.reason(again).endswith(unnamed)  # other users have something left
    assert node.reason(level(study="ages", epsilon=0.6)).endswith(exceeds)  # as the file says
    assert isinstance(node.ask(rest), bytes)
    assert node.reason(again).endswith(exceeds)


def test_a_refusal_names_the_policys_limit_and_that_of_the_study(node):
    file = node.config.pop("studies")
    assert isinstance(node.ask(level(study=None, epsilon=1.75)), bytes)
    node.config["studies"] = file
    assert node.reason(level()).endswith("leaves. It exceeds max-epsilon.")
    assert isinstance(node.ask(level(epsilon=0.25)), bytes)
    reason = node.reason(level(salt=8, epsilon=0.8))
    assert reason.endswith("leaves. It exceeds the study's epsilon, max-epsilon.")


def test_a_node_of_one_user_names_no_limit_of_what_it_has_spent(tmp_path):
    node = Node(tmp_path, patients().take(np.arange(1)))
    assert isinstance(node.ask(level(study="ages")), bytes)
    assert node.reason(level(study="ages", salt=8)).endswith("the privacy budget leaves.")
    assert node.reason(level(study="ages", epsilon=0.6)).endswith("exceeds the study's epsilon.")


def test_noise_belongs_to_a_study(node):
    node.approve(STROKE.replace('"user", "node"', '"user"'))
    assert refused(node, shares()) and isinstance(node.ask(level()), bytes)
    node.approve(STROKE.replace('"user", "node"', '"node"'))
    assert refused(node, level(salt=8)) and isinstance(node.ask(shares()), bytes)


def test_the_plan_that_one_study_has_paid_is_none_of_another(node):
    """Two sums of half a plan each: the second is free in its own study only."""
    both = STROKE.replace('"stroke"', '"other"')
    node.approve(STROKE.replace("1.0", "0.5"), both)
    assert isinstance(node.ask(shares(parts=5000)), bytes)
    assert isinstance(node.ask(shares(parts=5000, step=2, study="other")), bytes)
    assert node.spent() == {"stroke": Cost(0.5, 1e-6), "other": Cost(0.5, 1e-6)}
    assert isinstance(node.ask(shares(parts=5000, step=3)), bytes)
    assert node.spent() == {"stroke": Cost(0.5, 1e-6), "other": Cost(0.5, 1e-6)}
    assert refused(node, shares(parts=5000, step=4), ErrorCode.EXHAUSTED)
    assert node.steps() == {"stroke": 2, "other": 1}


def test_a_plan_from_before_the_file_is_paid_anew(node):
    file = node.config.pop("studies")
    assert isinstance(node.ask(shares(parts=5000, study=None)), bytes)
    node.config["studies"] = file
    assert isinstance(node.ask(shares(parts=5000, step=2)), bytes)
    assert node.spent() == {"": Cost(0.5, 1e-6), "stroke": Cost(0.5, 1e-6)}


def test_a_renamed_study_spends_of_what_the_policy_leaves_and_an_id_goes_on(node):
    for salt in (7, 8):
        assert isinstance(node.ask(level(salt=salt)), bytes)
    renamed = STROKE.replace('"stroke"', '"stroke-2"')
    node.approve(renamed)
    for salt in (7, 8):
        assert isinstance(node.ask(level(salt=salt, study="stroke-2")), bytes)
    node.approve(STROKE)  # the first one again
    assert refused(node, level(salt=9), ErrorCode.EXHAUSTED)
    node.approve(STROKE.replace('"stroke"', '"stroke-3"'))
    assert refused(node, level(salt=9, study="stroke-3"), ErrorCode.EXHAUSTED)  # 2 are spent
    assert node.spent() == {"stroke": Cost(1.0), "stroke-2": Cost(1.0)}


def test_neither_renewals_nor_periods_renew_a_study(node, clock):
    node.approve(STROKE.replace("delta = 1e-6", ""))
    for salt in (7, 8):
        assert isinstance(node.ask(level(salt=salt)), bytes)
    assert renew_budgets(node.ledger) == PEOPLE
    assert refused(node, level(salt=9), ErrorCode.EXHAUSTED)
    del node.config["max-delta"]
    node.config |= {"noise": "user", "period": "1d", "lifetime-epsilon": 9.0}
    assert refused(node, level(salt=10), ErrorCode.EXHAUSTED)
    clock.now += 2 * 86_400
    assert refused(node, level(salt=11), ErrorCode.EXHAUSTED)


def test_steps_are_counted_for_all_users_together(node):
    cuts = np.linspace(0, HASH_END, 5).astype(object)
    some = [replace(level(study="ages"), low=int(a), high=int(b)) for a, b in pairwise(cuts)]
    answers = [node.ask(query) for query in some]
    there = [answer for answer in answers if answer != ErrorCode.MALFORMED]  # addresses nobody
    assert len(there) == 4 and [isinstance(each, bytes) for each in there] == [True] * 3 + [False]
    assert there[3] == ErrorCode.STUDY_OVER
    assert node.reason(some[3]) == "The query's study has used up its steps."
    assert [node.ask(query) for query in some[:3]] == answers[:3]  # stored replies may go out
    assert node.steps() == {"ages": 3}


# ----------------------------------------------------------------------------- 7: the file


BAD = {
    "empty": "",
    "no format": STROKE,
    "another format": "format = 2\n" + STROKE,
    "a key beside the studies": FORMAT + "max-epsilon = 9.0\n" + STROKE,
    "no toml": FORMAT + STROKE + "until = \n",
    "one id twice": FORMAT + STROKE + STROKE,
    "no tables": FORMAT + "study = [1]\n",
    "an unknown key": FORMAT + STROKE + "period = '30d'\n",
    "a wildcard of questions": FORMAT + STROKE.replace('"table_cell"', '"*"'),
    "a wildcard in a question": FORMAT + STROKE.replace('"table_cell"', '"table_*"'),
    "a wildcard of columns": FORMAT + STROKE.replace('"age"', '"*"'),
    "no list": FORMAT + STROKE.replace('["age", "sex"]', '"age"'),
    "an empty list": FORMAT + STROKE.replace('["age", "sex"]', "[]"),
    "a list of numbers": FORMAT + STROKE.replace('["age", "sex"]', "[1]"),
    "unknown noise": FORMAT + STROKE.replace('"node"', '"nowhere"'),
    "shared noise without epsilon-alone": FORMAT + STROKE.replace('"node"', '"shared"'),
    "epsilon-alone without shared noise": FORMAT + STROKE + "epsilon-alone = 4.0\n",
    "no epsilon": FORMAT + STROKE.replace("epsilon = 1.0\n", ""),
    "an epsilon of 0": FORMAT + STROKE.replace("epsilon = 1.0", "epsilon = 0"),
    "an infinite epsilon": FORMAT + STROKE.replace("epsilon = 1.0", "epsilon = inf"),
    "no number": FORMAT + STROKE.replace("epsilon = 1.0", "epsilon = nan"),
    "true as epsilon": FORMAT + STROKE.replace("epsilon = 1.0", "epsilon = true"),
    "a delta of 1": FORMAT + STROKE.replace("1e-6", "1.0"),
    "no steps": FORMAT + STROKE.replace("steps = 12", "steps = 0"),
    "half steps": FORMAT + STROKE.replace("steps = 12", "steps = 1.5"),
    "no end": FORMAT + STROKE.replace("until = 2027-03-31\n", ""),
    "a time as end": FORMAT + STROKE.replace("2027-03-31", "2027-03-31T00:00:00Z"),
    "a text as end": FORMAT + STROKE.replace("2027-03-31", '"2027-03-31"'),
    "an id in capitals": FORMAT + STROKE.replace('"stroke"', '"Stroke"'),
    "no key": FORMAT + STROKE + 'signed-by = ["3f"]\n',
    "an empty list of keys": FORMAT + STROKE + "signed-by = []\n",
    "1 as census": FORMAT + STROKE.replace("true", "1"),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_file_that_is_not_valid_refuses_everything(node, text):
    node.file.write_text(text)
    with pytest.raises(StudiesError):
        Studies.read(node.file)
    for query in (level(), level(study=None), shares()):
        assert refused(node, query, ErrorCode.STUDIES_FILE)
    assert node.census() == ErrorCode.STUDIES_FILE


def test_a_file_that_is_not_there_or_that_others_can_write_refuses_everything(node):
    assert isinstance(node.ask(level()), bytes)
    for mode in (0o664, 0o646, 0o666):
        node.file.chmod(mode)
        assert refused(node, level(salt=8), ErrorCode.STUDIES_FILE)
    node.file.unlink()
    assert refused(node, level(salt=8), ErrorCode.STUDIES_FILE)
    node.file.mkdir()
    assert refused(node, level(salt=8), ErrorCode.STUDIES_FILE)
    node.file.rmdir()
    os.mkfifo(node.file, 0o600)
    assert refused(node, level(salt=8), ErrorCode.STUDIES_FILE)
    node.file.unlink()
    node.file.write_bytes(b"\xff\xfe")
    assert refused(node, level(salt=8), ErrorCode.STUDIES_FILE)
    for path in ("", 7, True):
        node.config["studies"] = path
        assert refused(node, level(salt=8), ErrorCode.MISCONFIGURED)
    del node.config["studies"]
    node.config["Studies"] = str(node.file)  # would otherwise be a key of the app's
    assert refused(node, level(salt=8), ErrorCode.MISCONFIGURED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_account_is_refused(node):
    os.chown(node.file, 1234, 1234)
    assert refused(node, level(), ErrorCode.STUDIES_FILE)
    os.chown(node.file, 0, 0)
    assert isinstance(node.ask(level()), bytes)


def test_the_file_is_read_with_every_message(node):
    assert isinstance(node.ask(level()), bytes)
    node.approve(AGES)
    assert refused(node, level(salt=8)) and refused(node, level())  # not even what is stored
    node.approve(STROKE, AGES)
    assert isinstance(node.ask(level(salt=8)), bytes)


# ------------------------------------------------------------------------------ 8: the end

LAST = datetime(2027, 3, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def test_a_study_ends_with_its_last_day_by_the_latest_time_of_the_ledger(node, clock):
    clock.now = LAST
    first = node.ask(level())
    assert isinstance(first, bytes)
    clock.now = LAST + 1
    assert refused(node, level(salt=8), ErrorCode.STUDY_OVER)
    assert node.reason(level(salt=8)) == "The query's study has ended."
    assert node.ask(level()) == first  # was paid before, and may go out
    clock.now = LAST - 86_400  # a clock that goes back
    assert refused(node, level(salt=8), ErrorCode.STUDY_OVER)
    assert node.census() == ErrorCode.NOT_APPROVED
    node.approve(STROKE.replace("2027-03-31", "2027-04-01"))
    assert isinstance(node.ask(level(salt=8)), bytes)


def test_what_was_paid_and_not_computed_before_the_end_is_not_computed_after_it(node, clock):
    clock.now = LAST
    fulfil, SqliteLedger.fulfil = SqliteLedger.fulfil, None  # the process ends after the payment
    try:
        assert node.ask(level()) == ErrorCode.FAILED
    finally:
        SqliteLedger.fulfil = fulfil
    assert node.steps() == {"stroke": 1}
    clock.now = LAST + 1
    assert refused(node, level(), ErrorCode.STUDY_OVER)
    node.approve(STROKE.replace("2027-03-31", "2027-04-01").replace("12", "1"))
    assert isinstance(node.ask(level()), bytes)  # the last step, which is paid
    assert node.steps() == {"stroke": 1}


# -------------------------------------------------------------------------- 10: the census


def test_the_census_and_numbers_are_off_unless_a_study_has_them(node, clock):
    assert node.census("numbers") == {"census", "numbers", "schema"}
    node.approve(STROKE.replace("census = true", ""), AGES)
    assert node.census() == node.census("numbers") == ErrorCode.NOT_APPROVED
    node.approve(STROKE.replace("census = true", ""), AGES + "census = true\n")
    assert node.census() == {"census", "schema"}
    numbered = replace(level(), numbered=True)
    assert refused(node, numbered)
    assert isinstance(node.ask(replace(numbered, study="ages")), bytes)
    clock.now = LAST + 1
    assert node.census() == ErrorCode.NOT_APPROVED


def test_no_study_approves_a_training(node):
    node.config |= {"user-id": "clinic", "public-metrics": "loss"}
    node.approve(STROKE.replace('"table_cell"', '"clipped_update"').replace("census = true", ""))
    app = ClientApp(mods=[LdpUpdateMod(public_metrics=["loss"])])

    @app.train()
    def train(message, context):
        raise AssertionError("trained")

    update = ClippedUpdate(radius=1.0)
    query = Query(update, Codebook(0.5, 3, 1.0, 8), 7, 0, HASH_END, 1, study="stroke")
    model = RecordDict({"arrays": ArrayRecord([np.zeros(3)])})
    for content in (with_query(model, query), census_of_training()):
        assert node.send(content, "train", app).error.code == ErrorCode.NOT_APPROVED
    assert node.ledger.spent() == {}


# ------------------------------------------------------------------- shared noise, and kills

SHARED = """[[study]]
id = "sums"
questions = ["mean"]
columns = ["x0", "x1", "x2", "x3", "x4", "y"]
noise = ["shared"]
epsilon = 1.0
delta = 1e-6
epsilon-alone = 4.0
steps = 2
until = 2027-03-31
"""


@pytest.fixture
def hospitals(tmp_path):
    file = tmp_path / "approved.toml"
    file.write_text(FORMAT + SHARED)
    file.chmod(0o644)
    hospitals = Hospitals(tmp_path, studies=str(file))
    hospitals.file = file
    return hospitals


def summed(step=1, parts=3000, study="sums", **changed):
    return replace(shared_query(step, parts, **changed), study=study)


def test_a_shared_sum_of_a_study_is_checked_at_the_commit_and_at_the_sum(hospitals, clock):
    assert hospitals.commit("site-0", summed(study=None)) == ErrorCode.NOT_APPROVED
    commits = hospitals.commits(summed())
    good = hospitals.file.read_text()
    for text, code in (
        (good.replace('"y"', '"z"'), ErrorCode.NOT_APPROVED),
        (good.replace('"mean"', '"squares"'), ErrorCode.NOT_APPROVED),
        (good.replace('"shared"', '"node"').replace("epsilon-alone = 4.0\n", ""), 121),
        (good + signed_by(ANALYST), ErrorCode.NOT_SIGNED),
        (good.replace("epsilon = 1.0", "epsilon = 0.9"), ErrorCode.EXHAUSTED),
        (good.replace("1e-6", "1e-7"), ErrorCode.EXHAUSTED),
        (good.replace("epsilon-alone = 4.0", "epsilon-alone = 2.0"), ErrorCode.EXHAUSTED),
        (good.replace("epsilon-alone = 4.0", "epsilon-alone = 12.1"), ErrorCode.STUDIES_FILE),
        (good.replace("format = 1", "format = 2"), ErrorCode.STUDIES_FILE),
        (good.replace("sums", "rums"), ErrorCode.NOT_APPROVED),
    ):
        hospitals.file.write_text(text)
        assert hospitals.sum("site-0", summed(), commits) == code, text
        assert hospitals.commit("site-0", summed(salt=SALT + 1)) == code, text
    hospitals.file.write_text(good)
    clock.now = LAST + 1
    assert hospitals.sum("site-0", summed(), commits) == ErrorCode.NO_COMMIT  # a day old
    assert hospitals.commit("site-0", summed(salt=SALT + 1)) == ErrorCode.STUDY_OVER
    assert hospitals.ledger("site-0").spent() == {}


def test_a_commit_before_the_end_is_no_sum_after_it(hospitals, clock):
    clock.now = LAST
    commits = hospitals.commits(summed())
    first = hospitals.sum("site-1", summed(), commits)
    clock.now = LAST + 1
    assert hospitals.sum("site-0", summed(), commits) == ErrorCode.STUDY_OVER
    again = hospitals.sum("site-1", summed(), commits)
    assert again.to_bytes() == first.to_bytes()
    assert hospitals.ledger("site-0").spent() == {}


def test_a_signature_is_checked_at_the_sum_and_no_part_of_what_members_sign(hospitals):
    hospitals.file.write_text(FORMAT + SHARED + signed_by(ANALYST))
    query = NamedStudy("sums", ANALYST).naming(summed())
    commits = hospitals.commits(query)
    assert hospitals.sum("site-0", replace(query, signature=None), commits) == ErrorCode.NOT_SIGNED
    reports = hospitals.sums(query, commits)
    assert all(isinstance(each, Report) for each in reports)


def test_steps_of_one_plan_are_one_price_and_no_more_steps_than_approved(hospitals):
    for step in (1, 2):
        assert isinstance(hospitals.run(summed(step)), np.ndarray)
    assert hospitals.commit("site-0", summed(3)) == ErrorCode.STUDY_OVER
    alone = summed().randomizer.alone
    found = spent_in_studies(hospitals.ledger("site-0"))["sums"]
    assert (found.users, found.largest, found.steps) == (USERS, Cost(1.0, 1e-6, alone=alone), 2)


def test_a_study_in_a_rehearsal_spends_no_share_and_no_step(node):
    node.config["rehearsal"] = True
    for salt in range(5):
        assert isinstance(node.ask(level(salt=salt)), bytes)
    assert refused(node, level(NIHSS))
    assert node.spent() == {} and node.steps() == {}


def _asks(sender, node, query):
    sender.send(node.ask(query))


def test_processes_that_ask_at_once_share_the_last_step(node):
    node.approve(STROKE.replace("steps = 12", "steps = 1").replace("1.0", "2.0"))
    processes, waiting = multiprocessing.get_context("fork"), []
    for salt in range(4):
        receiver, sender = processes.Pipe(duplex=False)
        process = processes.Process(target=_asks, args=(sender, node, level(salt=salt)))
        process.start()
        sender.close()
        waiting.append((receiver, process))
    found = [receiver.recv() for receiver, _ in waiting]
    for _, process in waiting:
        process.join()
    assert sum(isinstance(each, bytes) for each in found) == 1
    assert found.count(ErrorCode.STUDY_OVER) == 3
    assert node.steps() == {"stroke": 1} and node.spent() == {"stroke": Cost(0.5)}
