"""Strategies that name an approved study, against nodes with a file of approved studies."""

from dataclasses import fields

import numpy as np
import pytest

from ldp_flower import Categories, Numeric, PrivacyPolicy, Schema, simulate
from ldp_flower.guarantee.messages import ErrorCode
from ldp_flower.guarantee.peers import PeersError
from ldp_flower.guarantee.peers_file import create_key
from ldp_flower.strategies import Counts, LdpFedAvg, Means, PrivateRegression, Series
from ldp_flower.strategies.runtime import TooFewReports
from ldp_flower.strategies.runtime.exchange import _UNPAID

SCHEMA = Schema({"city": Categories(["A", "B"])}, "wage", Numeric(0, 100))
FILE = """format = 1
[[study]]
id = "wages"
questions = ["level_rounding", "table_cell"]
columns = ["wage"]
noise = ["user"]
epsilon = 2.0
steps = 4
until = 2999-01-01
census = true
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "studies.toml"
    file.write_text(FILE)
    file.chmod(0o644)
    return file


def people(number=600):
    rng = np.random.default_rng(4)
    table = {"city": rng.choice(["A", "B"], number), "wage": rng.uniform(20, 60, number)}
    return SCHEMA.users(table)


def ask(file, strategy, num_nodes=1):
    policy = PrivacyPolicy(2.0, studies=str(file))
    return simulate(strategy, people(), seed=3, policy=policy, num_nodes=num_nodes)


def means(**changed):
    return Means(**{"schema": SCHEMA, "columns": "wage", "epsilon": 2.0} | changed)


def test_a_run_of_an_approved_study_is_that_of_nodes_without_a_file(file):
    found = ask(file, means(study="wages"))
    without = simulate(means(), people(), seed=3)
    assert (found.means == without.means).all() and (found.std_error == without.std_error).all()
    assert found.num_reports == 600


@pytest.mark.parametrize("study", [None, "ages"])
def test_nodes_refuse_a_run_of_no_approved_study_before_it_costs(file, study):
    with pytest.raises(TooFewReports, match="study") as refused:
        ask(file, means(study=study))
    assert "spent" not in str(refused.value)


def test_what_the_file_limits_ends_a_run(file):
    with pytest.raises(TooFewReports, match="approved this query for its study"):
        ask(file, Counts(schema=SCHEMA, column="city", epsilon=1.0, study="wages"))
    file.write_text(FILE.replace("epsilon = 2.0", "epsilon = 0.4"))
    with pytest.raises(TooFewReports, match="afford"):
        ask(file, means(study="wages"))
    file.write_text(FILE.replace("2999", "1999"))
    with pytest.raises(TooFewReports, match="census"):
        ask(file, means(study="wages"))
    file.write_text(FILE.replace("census = true", ""))
    with pytest.raises(TooFewReports, match="census"):
        ask(file, means(study="wages"))


def test_a_key_signs_every_question_of_a_run(file, tmp_path):
    keys = [tmp_path / name for name in ("analyst.key", "other.key")]
    publics = [create_key(key).public_key().public_bytes_raw().hex() for key in keys]
    file.write_text(f'{FILE}signed-by = ["{publics[0]}"]\n')
    for key in (None, str(keys[1])):
        with pytest.raises(TooFewReports, match="not signed"):
            ask(file, means(study="wages", study_key=key))
    found = ask(file, means(study="wages", study_key=str(keys[0])), num_nodes=3)
    assert found.num_reports == 600
    with pytest.raises(PeersError):
        ask(file, means(study="wages", study_key=str(tmp_path / "none.key")))


def test_a_shared_sum_is_asked_in_a_study(file, tmp_path):
    key = tmp_path / "analyst.key"
    public = create_key(key).public_key().public_bytes_raw().hex()
    shared = FILE.replace('"user"', '"shared"').replace('"table_cell"', '"moments"')
    limits = f'delta = 1e-6\nepsilon-alone = 8.0\nsigned-by = ["{public}"]\n'
    file.write_text(shared + limits)
    policy = PrivacyPolicy(2.0, 1e-6, noise="shared", max_dishonest=1, studies=str(file))
    strategy = means(noise="shared", study="wages", study_key=str(key))
    found = simulate(strategy, people(), seed=3, policy=policy, num_nodes=6)
    assert found.num_reports == 600
    with pytest.raises(TooFewReports):
        unsigned = means(noise="shared", study="wages")
        simulate(unsigned, people(), seed=3, policy=policy, num_nodes=6)


def test_arguments_of_a_study_are_checked():
    with pytest.raises(ValueError, match="study"):
        means(study="Wages")
    with pytest.raises(ValueError, match="study_key"):
        means(study_key="analyst.key")
    with pytest.raises(ValueError, match="trainings"):
        LdpFedAvg(epsilon=1.0, study="wages")
    series = Series(means(study="wages"), collections=4)
    assert series.study == "wages"
    every = [field.name for field in fields(PrivateRegression)]
    assert {"study", "study_key"} <= set(every)


def test_refusals_by_a_file_of_studies_are_unpaid():
    of_studies = {code for code in ErrorCode if code >= ErrorCode.STUDIES_FILE}
    assert len(of_studies) == 4 and of_studies <= _UNPAID
    assert ErrorCode.ANOTHER_SET not in _UNPAID and ErrorCode.FAILED not in _UNPAID
