"""What a release says about itself, it says the same everywhere."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import ldp_flower

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def test_the_version_is_said_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert CITATION["version"] == ldp_flower.__version__
    newest = re.search(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest[1] == ldp_flower.__version__
    guide = (ROOT / "docs" / "deployment.md").read_text("utf-8")
    assert set(re.findall(r"ldp_flower-(.*?)-py3", guide)) == {ldp_flower.__version__}


def test_authors_licence_and_addresses_agree():
    assert [author["name"] for author in CITATION["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]
    assert CITATION["license"] == PROJECT["license"]
    home = PROJECT["urls"]["Repository"]
    assert CITATION["repository-code"] == home
    assert all(url.startswith(home) for url in PROJECT["urls"].values())
    assert f"{home}/security/advisories/new" in (ROOT / "SECURITY.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["tests", "release"])
def test_a_workflow_may_do_no_more_than_it_says(name):
    workflow = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    may_sign = [
        job for job, what in workflow["jobs"].items() if "id-token" in what.get("permissions", {})
    ]
    assert may_sign == (["publish"] if name == "release" else [])
    # Whoever may sign runs nothing of the repository, which was built before.
    for job in may_sign:
        assert all("uses" in step for step in workflow["jobs"][job]["steps"])


@pytest.mark.parametrize("name", ["tests", "release"])
def test_actions_are_pinned_by_their_commits(name):
    """A tag can be moved; beside the hash it tells readers and dependabot the version."""
    text = (ROOT / f".github/workflows/{name}.yml").read_text("utf-8")
    used = re.findall(r"uses: (.*)$", text, re.MULTILINE)
    assert used
    for each in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


def test_every_python_that_is_named_is_tested():
    named = {
        match[1] for each in PROJECT["classifiers"] if (match := re.search(r":: (3\.\d+)$", each))
    }
    workflow = (ROOT / ".github/workflows/tests.yml").read_text("utf-8")
    assert named == set(re.findall(r'"(3\.\d+)"', workflow)) == {"3.11", "3.12", "3.13"}


def test_the_changelog_says_nothing_twice():
    """As a merge of lines that were moved does."""
    entries = re.findall(r"^- .*$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert len(entries) > 100
    assert len(entries) == len(set(entries))


def test_an_entry_of_the_changelog_is_one_line():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    unreleased = text.partition("## [Unreleased]")[2].partition("\n## [")[0]
    lines = [line for line in unreleased.splitlines() if line and not line.startswith("### ")]
    assert all(line.startswith(("- ", "The next version is ")) for line in lines)
    assert max(map(len, lines)) <= 175
