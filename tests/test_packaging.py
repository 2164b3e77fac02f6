"""What is handed to others: a conda recipe, a node in a cluster, drafts for Flower."""

import contextlib
import io
import math
import re
import shlex
import socket
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from typer.testing import CliRunner

import ldp_flower
from ldp_flower.accounting import noise_multiplier_epsilon
from ldp_flower.cli import app as cli

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NODE = ROOT / "docs" / "node"
UPSTREAM = ROOT / "docs" / "upstream"


# ------------------------------------------------------------------------------- conda

RECIPE = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text("utf-8"))
#: Names that conda has for what pyproject names otherwise.
RENAMED = {"matplotlib-base": "matplotlib"}


def bounds(texts):
    return {
        RENAMED.get(name, name): Requirement(name + bound.strip()).specifier
        for name, _, bound in (text.partition(" ") for text in texts)
    }


def test_the_recipe_has_the_version_and_the_dependencies_of_the_project():
    assert RECIPE["context"]["version"] == ldp_flower.__version__
    assert RECIPE["package"]["name"] == PROJECT["name"]
    run = dict(text.partition(" ")[::2] for text in RECIPE["requirements"]["run"])
    assert run.pop("__unix") == "" and run.pop("python") == PROJECT["requires-python"]
    needed = {each.name: each.specifier for each in map(Requirement, PROJECT["dependencies"])}
    assert bounds(f"{name} {bound}" for name, bound in run.items()) == needed


def test_the_recipe_builds_and_starts_what_the_project_does():
    built = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]
    (setuptools,) = bounds(RECIPE["requirements"]["host"][2:]).items()
    needed = Requirement(built["requires"][0])
    assert setuptools == (needed.name, needed.specifier)
    (script,) = RECIPE["build"]["python"]["entry_points"]
    assert dict([script.split(" = ")]) == PROJECT["scripts"]
    folder = ROOT / "packaging" / "conda" / RECIPE["source"]["path"]
    assert (folder / RECIPE["about"]["license_file"]).exists()
    assert (folder / "pyproject.toml").exists()
    assert RECIPE["about"]["license"] == PROJECT["license"]
    assert RECIPE["about"]["summary"] == PROJECT["description"]
    urls = PROJECT["urls"]
    for name in ("homepage", "repository", "documentation"):
        assert RECIPE["about"][name] == urls[name.capitalize()]


def test_what_the_recipe_tests_passes_here():
    python, command = RECIPE["tests"]
    for name in python["python"]["imports"]:
        __import__(name)
    for line in command["script"]:
        found = CliRunner().invoke(cli.app, shlex.split(line)[1:])
        assert found.exit_code == 0 and found.stdout, found.stderr


# -------------------------------------------------------------------- a node in a cluster


@pytest.fixture(scope="module")
def cluster():
    parts = yaml.safe_load_all((NODE / "kubernetes.yaml").read_text("utf-8"))
    return {part["kind"]: part for part in parts}


@pytest.fixture(scope="module")
def pod(cluster):
    return cluster["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod):
    (found,) = pod["containers"]
    return found


def test_the_pod_runs_the_command_of_the_unit(container):
    unit = (NODE / "ldp-flower-node.service").read_text("utf-8")
    command = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1])
    assert container["args"] == command[1:]


def test_nothing_in_the_pod_is_writable_but_the_ledger_and_scratch(cluster, pod, container):
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    user = re.search(r"--uid (\d+)", (NODE / "Dockerfile").read_text("utf-8"))[1]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == int(user)
    assert pod["automountServiceAccountToken"] is False
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert mounts.keys() == volumes.keys()
    writable = {name for name, mount in mounts.items() if not mount.get("readOnly")}
    assert writable == {"ledger", "scratch"}
    # The ledger outlives the pod, and only one pod has it.
    claim = volumes["ledger"]["persistentVolumeClaim"]["claimName"]
    made = cluster["PersistentVolumeClaim"]
    assert made["metadata"]["name"] == claim
    assert made["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert cluster["Deployment"]["spec"]["replicas"] == 1
    assert cluster["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert "initContainers" not in pod
    policy = tomllib.loads((NODE / "node.toml").read_text("utf-8"))
    assert policy["ledger-path"].startswith(mounts["ledger"]["mountPath"] + "/")
    assert volumes["scratch"]["emptyDir"] and mounts["scratch"]["mountPath"] == "/tmp"


@pytest.mark.parametrize("kind", ["livenessProbe", "startupProbe"])
def test_a_probe_tells_whether_the_node_listens(container, kind):
    """On the port of its arguments, which the test replaces by a free one."""
    python, *command = container[kind]["exec"]["command"]
    assert python == "python"
    port = container["args"][container["args"].index("--port") + 1]
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = str(server.getsockname()[1])
        asked = [text.replace(port, free) for text in command]
        assert asked != command
        assert subprocess.run([sys.executable, *asked], check=False).returncode == 0
    quiet = {"stderr": subprocess.DEVNULL, "check": False}
    assert subprocess.run([sys.executable, *asked], **quiet).returncode != 0


# ------------------------------------------------------------------------ drafts for Flower


def test_the_section_for_flower_prints_what_it_says():
    """And by the library's own accounting the same."""
    text = (UPSTREAM / "flower-how-to-differential-privacy.rst").read_text("utf-8")
    blocks = re.findall(r"code-block:: python\n\n((?: {4}.*\n|\n)+)", text)
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(textwrap.dedent(block), names)
    said = re.findall(r"# (\d+\.\d+)", text)
    assert printed.getvalue().split() == said and len(said) == 4
    cases = [(1.0, 1.0, 1), (2.0, 1.0, 1), (1.0, 8.0, 1), (2.0, 1.0, 20)]
    for (sensitivity, epsilon, replies), number in zip(cases, said, strict=True):
        noise = sensitivity * math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
        exact = noise_multiplier_epsilon([noise] * replies, 1e-5)
        assert f"{exact:.2f}" == number


def test_the_proposal_has_the_numbers_of_the_study():
    text = (UPSTREAM / "baseline-proposal.md").read_text("utf-8")
    error, std_error = re.search(r"error of (\S+) \(standard error (\S+)\)", text).groups()
    table = (ROOT / "simulations" / "user_level" / "README.md").read_text("utf-8")
    head = next(line for line in table.splitlines() if line.startswith("| setting |"))
    row = next(line for line in table.splitlines() if line.startswith("| n=400, m=100, d=256"))
    place = head.split(" | ").index("two-round")
    assert row.split(" | ")[place] == f"{error} ({std_error}) [5]"
    assert row.rstrip(" |").endswith(re.search(r"shows some (\S+)\.\n", text)[1])
