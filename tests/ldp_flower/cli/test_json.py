"""Output as JSON: one document, with the keys and the exit codes that the page documents."""

import json
import math
import re
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ldp_flower.audit import Audit
from ldp_flower.audit.app.findings import AppAudit, Finding
from ldp_flower.cli.check_app import AppFindings
from ldp_flower.cli.console import print_json
from ldp_flower.planning import plan
from ldp_flower.strategies import Means
from ldp_flower.strategies.catalogue import PROTOCOLS

app = import_module("ldp_flower.cli.app").app
PAGE = (Path(__file__).parents[3] / "docs" / "command-line.md").read_text("utf-8")


def printed(*arguments, code=0):
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout, parse_constant=pytest.fail)


def keys(document):
    """Return the keys that the page documents, in any order."""
    (row,) = re.findall(rf"^\| {re.escape(document)} \| (.*) \|$", PAGE, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))


def test_numbers_that_json_lacks_are_texts_or_null(capsys):
    print_json({"a": [math.inf, math.nan, (1.5, None)], "b": {"c": "é"}})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"a": ["infinite", None, [1.5, None]], "b": {"c": "é"}}


def test_a_plan_has_its_attributes():
    found = printed("plan", "mean", "--users", 2000, "--target", 0.1)
    made = plan(Means, num_users=2000, epsilon=1.0, target=0.1)
    assert set(found) == keys("`plan QUESTION`")
    assert found["expected"]["value"] == made.expected.value and found["refusal"] == ""
    assert found["setting"]["num_users"] == 2000 and found["changes"] == made.changes
    assert found["expected"]["report_bytes"] == made.expected.report_bytes
    assert len(found["curve"]) == len(made.curve)


def test_plans_of_several_places_of_noise_are_one_document():
    found = printed("plan", "mean", "--users", 2000, "--nodes", 10)
    assert set(found) == keys("`plan QUESTION --nodes` without `--noise`")
    assert [each["noise"] for each in found["plans"]] == ["user", "node", "shared"]
    none = printed("plan", "mean", "--users", 11, "--nodes", 10, code=3)
    assert [each["expected"] for each in none["plans"]] == [None, None, None]


def test_a_refused_plan_has_a_reason_and_an_exit_code(tmp_path):
    page = tmp_path / "plan.html"
    found = printed("plan", "mean", "--users", 5, "--html", page, code=3)
    assert found["expected"] is None and "5 users are too few" in found["refusal"]
    assert found["target"] is None and found["changes"]["users"] > 5
    assert page.exists()


def test_a_plan_that_is_not_known_and_series():
    assert set(printed("plan", "Series", "--users", 5)) == keys(
        "`plan QUESTION` if the expected error is not known"
    )
    series = printed("plan", "Means", "--users", 5000, "--collections", 12)
    assert set(series) == keys("`plan QUESTION --collections`")
    series = printed("plan", "Means", "--users", 2, "--collections", 12, code=3)
    assert series["split"] is None


@pytest.mark.parametrize("measured", [1.9, 2.1])
def test_an_audit_has_its_attributes(monkeypatch, measured):
    """The attack itself is left out."""

    def found(query, people, **_):
        numbers = {"claimed": 2.0, "measured": measured, "exact": None, "confidence": 0.999}
        pair = tuple(people)[:2]
        return Audit(query=query, worst_pair=pair, checks={"loss": measured < 2}, **numbers)

    monkeypatch.setattr("ldp_flower.audit.audit_handler", found)
    document = printed("audit", "ConstrainedMean", code=int(measured > 2))
    assert set(document) == keys("`audit PROTOCOL`")
    for each in document["audits"]:
        assert set(each) == keys("an element of `audits`")
        assert each["passed"] == each["checks"]["loss"] == (measured < 2)
        assert each["exact"] is None and each["measured"] == measured


def test_an_audit_of_networks_has_its_attributes():
    pytest.importorskip("torch")
    document = printed("audit", "RecordDpSgd", "--dim", 3, "--reports", 100, "--seed", 1)
    (audit,) = document["audits"]
    assert set(audit) == keys("the element of `audits` for `RecordDpSgd`")


@pytest.mark.parametrize("leaks", [False, True])
def test_an_audit_of_an_app_has_its_attributes(monkeypatch, tmp_path, leaks):
    """The attack itself is left out; its progress goes elsewhere."""
    (tmp_path / "pyproject.toml").write_text("[tool.flwr.app.config]\n")
    found = AppAudit("app", [Finding("a", "b", "c")] * leaks, claimed=1.0, measured=math.inf)

    def attack(folder, options, tell):
        tell("Step 1 of 5")
        return found

    monkeypatch.setattr("ldp_flower.audit.app.audit_app", attack)
    document = printed("audit", "--app", tmp_path, code=int(leaks))
    assert set(document) == keys("`audit --app`")
    told = [document[name] for name in ("claimed", "measured", "exact")]
    assert told == [1.0, "infinite", None]


def test_a_check_has_its_findings():
    found = printed("check", "max-epsilon=2.0", code=2)
    assert set(found) == keys("`check NODE_CONFIG`")
    assert any("no ledger" in problem for problem in found["problems"])
    assert set(asdict(AppFindings())) == keys("`check APP`")


def test_the_protocols_have_their_cards():
    found = printed("protocols")
    assert [each["name"] for each in found] == list(PROTOCOLS)
    assert all(set(each) == keys("an element of `protocols`") for each in found)
    assert found[0]["question"] == PROTOCOLS[found[0]["name"]].card.question
