"""What a release says about itself, it says the same everywhere."""

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ldp_flower

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def test_the_version_is_said_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert CITATION["version"] == ldp_flower.__version__
    newest = re.search(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest[1] == ldp_flower.__version__
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text("utf-8"))
    npm = json.loads((ROOT / "packaging" / "npm" / "package.json").read_text("utf-8"))
    assert recipe["context"]["version"] == npm["version"] == ldp_flower.__version__
    node = (ROOT / "docs" / "node" / "kubernetes.yaml").read_text("utf-8")
    assert f"ldp-flower-node:{ldp_flower.__version__}\n" in node
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


def pinned(*path):
    """Return the names of the packages that a file pins."""
    text = ROOT.joinpath(*path).read_text("utf-8")
    return {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}


def needed(asked):
    """Return the names of all packages that requirements install here, as far as they are here."""
    found, todo = {}, list(map(Requirement, asked))
    while todo:
        each = todo.pop()
        name = canonicalize_name(each.name)
        new = {"", *each.extras} - found.setdefault(name, set())
        found[name] |= new
        try:
            further = list(map(Requirement, requires(name) or ()))
        except PackageNotFoundError:
            continue
        for extra in new:
            todo += [
                one for one in further if not one.marker or one.marker.evaluate({"extra": extra})
            ]
    return set(found) - {PROJECT["name"]}


def test_all_that_is_installed_is_pinned():
    extras = PROJECT["optional-dependencies"].values()
    every = needed([*PROJECT["dependencies"], *(each for extra in extras for each in extra)])
    # PyTorch's CUDA packages are those of its wheel for Linux on the index, and are not pinned.
    cuda = {name for name in every if name.startswith(("nvidia-", "cuda-")) or name == "triton"}
    assert every - cuda <= pinned("constraints.txt")


def test_the_release_is_made_with_locked_packages():
    wheel = pinned("packaging", "locked", "wheel.txt")
    assert needed(PROJECT["dependencies"]) <= wheel <= pinned("constraints.txt")
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    assert needed(tools["release"]) <= pinned("packaging", "locked", "tools.txt")
    for name in ("wheel", "tools"):
        text = (ROOT / "packaging" / "locked" / f"{name}.txt").read_text("utf-8")
        entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
        assert all("--hash=sha256:" in entry for entry in entries)
        assert "://" not in text


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
