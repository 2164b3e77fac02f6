"""Commands for the file of approved studies, and what other commands say about it."""

import csv
import json
import re
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from typer.testing import CliRunner

from ldp_flower import Categories, Numeric, PrivacyPolicy, Schema, simulate
from ldp_flower.cli import app
from ldp_flower.cli.studies import as_toml
from ldp_flower.guarantee.budget import Cost
from ldp_flower.guarantee.ledger import Entry, SqliteLedger
from ldp_flower.guarantee.peers_file import create_key
from ldp_flower.guarantee.studies import Studies
from ldp_flower.strategies import Counts, Means, PrivateRegression, Quantiles

SCHEMA = Schema(
    {"age": Numeric(0, 100), "city": Categories(["A", "B", "C"])}, "wage", Numeric(0, 200)
)


def run(*arguments):
    return CliRunner().invoke(app.app, [str(each) for each in arguments])


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA.to_dict()))
    return path


def added(schema, study, protocol, *more, users=5000, epsilon=1.0):
    options = ("--schema", schema, "--users", users, "--epsilon", epsilon, "--until", "2999-12-31")
    found = run("studies", "add", study, protocol, *options, *more)
    assert found.exit_code == 0, found.output
    return found.stdout


def people(number=5000):
    rng = np.random.default_rng(9)
    table = {
        "age": rng.uniform(20, 60, number),
        "city": rng.choice(["A", "B", "C"], number),
        "wage": rng.uniform(20, 160, number),
    }
    return SCHEMA.users(table)


@pytest.mark.slow
def test_what_add_prints_is_a_study_that_runs_and_no_other(schema, tmp_path):
    cases = {
        "wages": (
            Means,
            {"columns": "wage", "by": "city"},
            ("-c", "columns=wage", "-c", "by=city"),
        ),
        "cities": (Counts, {"column": "city"}, ("-c", "column=city")),
        "middle": (
            Quantiles,
            {"column": "age", "levels": [0.5]},
            ("-c", "column=age", "-c", "levels=[0.5]"),
        ),
        "model": (PrivateRegression, {}, ()),
    }
    tables = {name: added(schema, name, kind.__name__, *c) for name, (kind, _, c) in cases.items()}
    file = tmp_path / "studies.toml"
    file.write_text("format = 1\n" + "\n".join(tables.values()))
    file.chmod(0o644)
    approved = Studies.read(file).approved
    assert set(approved) == set(cases)
    assert set(approved["wages"].columns) == {"city", "wage"}
    assert approved["cities"].columns == ("city",) and approved["middle"].columns == ("age",)
    assert {"age", "city", "wage", "intercept"} == set(approved["model"].columns)
    assert all(each.until == date(2999, 12, 31) for each in approved.values())
    policy = PrivacyPolicy(4.0, studies=str(file))
    for name, (kind, arguments, _) in cases.items():
        strategy = kind(schema=SCHEMA, epsilon=1.0, study=name, **arguments)
        result = simulate(strategy, people(), seed=8, policy=policy)
        assert len(result.steps) - 1 <= approved[name].steps
        assert not any(step.errors for step in result.steps)


def test_a_study_of_shared_noise_has_its_epsilon_alone(schema, tmp_path):
    more = ("--noise", "shared", "--nodes", 6, "-c", "columns=wage", "--signed-by", "0f" * 32)
    text = "format = 1\n" + added(schema, "sums", "Means", *more, users=120)
    file = tmp_path / "studies.toml"
    file.write_text(text)
    file.chmod(0o644)
    (found,) = Studies.read(file).approved.values()
    assert found.noise == ("shared",) and found.epsilon_alone > found.epsilon == 1.0
    assert found.delta == 1e-6 and found.signed_by == ("0f" * 32,) and found.census


def test_the_key_that_create_prints_is_one_that_add_takes(schema, tmp_path):
    key = tmp_path / "analyst.key"
    created, again = run("keys", "create", key), run("keys", "show", key)
    assert created.exit_code == 0 and "peers" not in created.stdout
    assert again.stdout == created.stdout
    (digits,) = re.findall(r"--signed-by ([0-9a-f]{64})$", created.stdout, re.MULTILINE)
    assert f'signed-by = ["{digits}"]' in created.stdout
    text = added(schema, "sums", "Means", "-c", "columns=wage", "--signed-by", digits)
    assert f'signed-by = ["{digits}"]' in text
    options = ("--schema", schema, "--users", 5000, "--epsilon", 1.0, "--until", "2999-12-31")
    wrong = run("studies", "add", "s", "Means", *options, "-c", "columns=wage", "--signed-by", "3f")
    assert wrong.exit_code == 2 and "64 hexadecimal digits" in wrong.stderr


def test_what_add_cannot_compile_is_refused(schema, tmp_path):
    options = ("--schema", schema, "--users", 400, "--epsilon", 1.0, "--until", "2999-12-31")
    for words, code in (
        (("s", "Mean", *options), 2),
        (("s", "UserLevelMean", *options), 2),
        (("s", "Means", *options, "-c", "columns=height"), 2),
        (("s", "Means", *options), 2),
        (("s", "Means", *options, "-c", "columns=wage", "-c", "colour=red"), 2),
        (("S", "Means", *options, "-c", "columns=wage"), 2),
        (("s", "Means", *options[:3], 3, *options[4:], "-c", "columns=wage"), 1),
        (("s", "Means", "--schema", tmp_path / "none.json", *options[2:]), 2),
    ):
        assert run("studies", "add", *words).exit_code == code, words
    missing = run("studies", "add", "s", "Means", *options)
    assert "Expected -c columns=..., which Means needs." in missing.stderr
    for other in ("colour", "epsilon"):
        wrong = run("studies", "add", "s", "Counts", *options, "-c", f"{other}=2")
        assert "Expected arguments of Counts among min_reports," in wrong.stderr
        assert f"got '{other}'." in wrong.stderr


FILE = """format = 1
[[study]]
id = "wages"
questions = ["moments"]
columns = ["wage", "a \\"quoted\\" one"]
noise = ["node"]
epsilon = 1.0
delta = 1e-6
steps = 12
until = 2999-03-31
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "studies.toml"
    file.write_text(FILE)
    file.chmod(0o644)
    return file


@pytest.fixture
def book(tmp_path, file):
    ledger = SqliteLedger.create(tmp_path / "ledger.db")
    study = Studies.read(file).approved["wages"]
    policy = PrivacyPolicy(4.0, 1e-5, noise="shared", max_dishonest=1)
    users = np.array(["p1", "p2"])
    ledger.reserve(Entry("q1"), users, Cost(0.5), policy)
    ledger.reserve(Entry("q2"), users, Cost(0.25, 1e-7), policy, study=study)
    ledger.reserve(Entry("q3"), users[:1], Cost(0.5, 1e-7, alone=0.75), policy, study=study)
    return tmp_path / "ledger.db"


def cells(output):
    return [re.findall(r"[\w.-]+(?: [\w.-]+)*", line) for line in output.splitlines()]


def test_a_table_that_is_written_is_read_again(file, tmp_path):
    (study,) = Studies.read(file).approved.values()
    again = tmp_path / "again.toml"
    again.write_text(f"format = 1\n{as_toml(study)}")
    again.chmod(0o644)
    assert Studies.read(again).approved == {"wages": study}


def test_show_says_what_is_left_of_each_study(file, book):
    plain = run("studies", "show", file)
    assert plain.exit_code == 0 and ["wages", "2999-03-31", "1", "1e-06", "1", "12"] in cells(
        plain.stdout
    )
    left = run("studies", "show", file, "--node-config", config(book))
    assert left.exit_code == 0, left.output
    row = next(line for line in left.stdout.splitlines() if "2999" in line)
    for text in ("0.25 of 1 ", "8e-07 of 1e-06", " 0 of 1 ", "10 of 12"):
        assert text in row
    told = "wages: limited by the study's epsilon, the study's delta. Other users have up to 0.75"
    assert told in left.stdout
    file.chmod(0o666)
    assert run("studies", "show", file).exit_code == 1


def config(book, epsilon=4.0, delta=1e-5):
    return f'max-epsilon={epsilon} max-delta={delta} noise="node" ledger-path="{book}"'


def test_show_says_what_the_policy_leaves_of_a_study(file, book):
    left = run("studies", "show", file, "--node-config", config(book, 1.375, 1e-6)).stdout
    assert "0.125 of 1 " in left and "8e-07 of 1e-06" in left  # 1.25 of the ledger are spent
    assert "wages: limited by max-epsilon, the study's delta" in left
    assert "Other users have up to 0.625 epsilon left." in left
    assert run("ledger", "renew", book, "--user", "p1").exit_code == 0
    left = run("studies", "show", file, "--node-config", config(book, 1.375, 1e-6)).stdout
    assert "0.25 of 1 " in left and "limited by the study's epsilon" in left
    small = run("studies", "show", file, "--node-config", config(book, 0.5))
    assert small.exit_code == 1 and "max-epsilon 0.5" in small.stderr
    none = run("studies", "show", file, "--node-config", "max-epsilon=1.0")
    assert none.exit_code == 1 and "ledger-path" in none.stderr


def test_show_of_an_empty_ledger_has_the_shares(file, tmp_path):
    SqliteLedger.create(tmp_path / "ledger.db")
    left = run("studies", "show", file, "--node-config", config(tmp_path / "ledger.db", 1.0))
    assert "1 of 1 " in left.stdout and "12 of 12" in left.stdout
    assert "limited by the study's epsilon, max-epsilon, the study's delta.\n" in left.stdout


def test_a_ledger_shows_epsilon_alone_and_studies(book):
    output = run("ledger", "show", book).stdout
    found = cells(output)
    assert ["user", "epsilon", "delta", "epsilon alone"] in found
    assert ["p1", "1.25", "2e-07", "1.5"] in found and ["p2", "0.75", "1e-07", "0.75"] in found
    assert "(no study)" in output and ["no study", "2", "0.5", "0", "0.5"] in found
    assert ["wages", "2", "2", "0.75", "2e-07", "1"] in found


def test_a_user_with_a_new_budget_stays_on_the_ledger(book):
    assert run("ledger", "renew", book, "--user", "p1").exit_code == 0
    output = run("ledger", "show", book).stdout
    assert ["p1", "0", "0", "0"] in cells(output) and "2 users" in output
    assert ["wages", "2", "2", "0.75", "2e-07", "1"] in cells(output)


def test_an_export_and_a_report_say_for_which_study_was_paid(book):
    assert run("ledger", "renew", book, "--user", "p2").exit_code == 0
    header, *rows = list(csv.reader(run("ledger", "export", book).stdout.splitlines()))
    assert header[-1] == "study"
    assert sorted((row[1], row[5], row[7]) for row in rows) == [
        ("p1", "0.25", "wages"),
        ("p1", "0.5", ""),
        ("p1", "0.5", "wages"),
        ("p2", "-0.75", ""),  # the renewal
        ("p2", "0.25", "wages"),
        ("p2", "0.5", ""),
    ]
    found = json.loads(run("ledger", "report", book, "--format", "json").stdout)["studies"]
    sums = {each["study"]: (each["questions"], each["users"], each["epsilon"]) for each in found}
    assert sums == {"(no study)": (1, 2, 1.0), "wages": (2, 2, 1.0)}
    metrics = run("ledger", "report", book, "--format", "prometheus").stdout.splitlines()
    assert 'ldp_flower_study_epsilon{study="wages"} 1' in metrics
    assert 'ldp_flower_study_largest_epsilon{study="wages"} 0.75' in metrics
    assert 'ldp_flower_study_largest_epsilon{study="(no study)"} 0.5' in metrics
    assert "<td>wages</td>" in run("ledger", "report", book).stdout


def test_sign_prints_what_a_node_verifies(file, tmp_path):
    key = create_key(tmp_path / "analyst.key").public_key()
    digest = "ab" * 32
    printed = run("studies", "sign", tmp_path / "analyst.key", "wages", digest)
    prefix = b"".join(
        len(part).to_bytes(8, "big") + part
        for part in (b"ldp-flower shared sum 1 study", bytes.fromhex(digest), b"wages")
    )
    key.verify(bytes.fromhex(printed.stdout.strip()), prefix)
    assert run("studies", "sign", tmp_path / "analyst.key", "wages", "xy").exit_code == 2
    assert run("studies", "sign", tmp_path / "none.key", "wages", digest).exit_code == 1


def test_check_reads_the_file():
    with TemporaryDirectory(dir="/tmp") as name:  # unlike pytest's own, others can enter it

        def found(text, config="noise=node max-delta=1e-5", mode=0o644):
            path = f"{name}/studies.toml"
            with open(path, "w", encoding="utf-8") as opened:
                opened.write(text)
            (file := Path(path)).chmod(mode)
            given = config.replace("node", '"node"').replace("user", '"user"')
            whole = f'max-epsilon=1.0 ledger-path="{name}/l.db" {given} studies="{file}"'
            document = json.loads(run("check", whole, "--json").stdout)
            return document["problems"], document["doubts"], document["facts"]

        SqliteLedger.create(f"{name}/l.db")
        problems, doubts, facts = found(FILE)
        assert problems == [] and "census" in " ".join(doubts)
        assert any("Study wages" in fact and "12 steps" in fact for fact in facts)
        problems, doubts, _ = found(FILE + "census = true\n")
        assert problems == doubts == []
        assert found(FILE.replace("moments", "momentums"))[1][0].startswith("Study wages lists")
        assert "ended" in " ".join(found(FILE.replace("2999", "1999"))[2])
        assert "policy has" in found(FILE, "max-delta=1e-5")[0][0]
        assert "max-epsilon" in found(FILE.replace("1.0", "1.5"))[0][0]
        assert "chmod go-w" in found(FILE, mode=0o664)[0][0]
        assert any("write it" in problem for problem in found(FILE, mode=0o666)[0])
