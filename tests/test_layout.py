"""The layout states the trust boundary; these tests keep it true."""

import ast
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from ldp_flower.guarantee.questions import FORMS, View

ROOT = Path(__file__).parents[1]
HALVES = {"clients": "ldp_flower.clients", "strategies": "ldp_flower.strategies"}
# Where the two halves may meet: whoever runs both, and the audit, which attacks the
# whole client with the queries that a strategy sends.
MEETING_PLACES = ("simulation", "audit", "cli")


def modules(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def imported(path):
    """Return the absolute names of everything a module imports."""
    package = list(path.relative_to(ROOT).with_suffix("").parts)[:-1]
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            stem = ".".join([*base, node.module or ""]).rstrip(".")
            names |= {stem} | {f"{stem}.{alias.name}" for alias in node.names}
    return names


def test_every_package_folder_is_listed_in_pyproject():
    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    found = set()
    for folder in ("ldp_flower", "clients", "strategies"):
        for init in (ROOT / folder).rglob("__init__.py"):
            dotted = ".".join(init.parent.relative_to(ROOT).parts)
            found.add(dotted if folder == "ldp_flower" else f"ldp_flower.{dotted}")
    assert listed == found


@pytest.mark.parametrize(("half", "other"), [("clients", "strategies"), ("strategies", "clients")])
def test_the_halves_never_import_each_other(half, other):
    assert modules(half)
    for path in modules(half):
        names = imported(path)
        assert not any(name.startswith((HALVES[other], other)) for name in names), path


def test_what_both_agree_on_imports_neither_half():
    for path in modules("ldp_flower"):
        if path.relative_to(ROOT / "ldp_flower").parts[0] in MEETING_PLACES:
            continue
        assert not any(name.startswith(tuple(HALVES.values())) for name in imported(path)), path


def test_private_names_of_flower_live_in_one_module():
    public = {"flwr.app", "flwr.clientapp", "flwr.serverapp"}
    for folder in ("ldp_flower", "clients", "strategies"):
        for path in modules(folder):
            if path.name == "grid.py":
                continue
            foreign = {n for n in imported(path) if n.split(".")[0] == "flwr"}
            assert all(any(n == p or n.startswith(p + ".") for p in public) for n in foreign), path


def test_numpys_global_random_state_is_never_used():
    for folder in ("ldp_flower", "clients", "strategies"):
        for path in modules(folder):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "np.random":
                    assert node.attr == "Generator", path


def test_a_client_process_does_not_start_with_what_few_messages_need():
    """A SuperNode starts one for every message, and these take as long as all the rest."""
    heavy = {"sklearn", "scipy.stats", "pandas", "ray", "torch", "matplotlib"}
    code = f"import sys, ldp_flower.clients; print(*{heavy} & set(sys.modules))"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert shown.split() == []


# What is called as a statistic is and means something else: the unit of privacy, an argument.
HOMONYMS = {"record", "target_scale"}


def names_in(path, names):
    """Return which of these a module has as a string, or as a piece of one."""
    constants = (
        n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)
    )
    return {n.value for n in constants if isinstance(n.value, str)} & names


def test_statistics_have_names_on_the_wire_only():
    kinds = {kind for form in FORMS.values() for kind in form.kinds}
    stems = {kind.stem for kind in kinds} | {
        kind.suffix for kind in kinds if issubclass(kind, View)
    }
    names = {*FORMS, *stems, *(f"_{stem}" for stem in stems)} - {"", "_"}
    for folder in ("clients", "strategies"):
        for path in modules(folder):
            assert names_in(path, names) <= HOMONYMS, path
    assert names_in(ROOT / "ldp_flower/guarantee/questions/regression.py", names) >= {
        "gradient",
        "teacher",
    }


# -------------------------------------------------------------------------- simulations

APPS = ("simulations/flights/flights", "simulations/user_level/user_level")


def simulations():
    """Return the modules of the simulations by name, with those that each imports anywhere."""
    names = {}
    for path in modules("simulations"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: (imported(path) & set(names)) - {name} for name, path in names.items()}


def room(name):
    return name.rpartition(".")[0]


def test_no_folder_of_the_simulations_is_a_corridor():
    for folder in {path.parent for path in modules("simulations")}:
        assert len(list(folder.glob("*.py"))) <= 16, folder


def test_the_simulations_import_in_no_circle():
    graph = simulations()
    assert len(graph) > 50
    TopologicalSorter(graph).prepare()
    rooms = {}
    for name, others in graph.items():
        rooms.setdefault(room(name), set()).update(room(other) for other in others)
    TopologicalSorter({key: value - {key} for key, value in rooms.items()}).prepare()


def test_the_harness_serves_all_studies_and_knows_none():
    harness = "simulations.harness"
    graph = simulations()
    assert all(room(o) == harness for n in graph if room(n) == harness for o in graph[n])
    for name in graph:
        if name.endswith(".__main__"):
            assert f"{harness}.command" in graph[name], name
    foreign = {"argparse", "typer", "matplotlib.pyplot", "rich", "rich.table", "rich.console"}
    for path in modules("simulations"):
        where = path.relative_to(ROOT).as_posix()
        # Apps are built alone, and this module runs where only NumPy is sure to be.
        if where.startswith((*APPS, "simulations/harness")) or path.name == "frequency.py":
            continue
        assert not imported(path) & foreign, path


@pytest.mark.parametrize("app", APPS)
def test_an_app_imports_nothing_of_the_repository_but_itself(app):
    """Flower builds an app from its folder: what lies beside it stays behind."""
    assert modules(app)
    own = app.replace("/", ".")
    for path in modules(app):
        names = {name for name in imported(path) if name.startswith("simulations")}
        assert all(name.startswith(own) for name in names), path
