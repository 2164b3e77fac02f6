"""The layout states the trust boundary; these tests keep it true."""

import ast
import importlib
import inspect
import subprocess
import sys
import textwrap
import tomllib
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from known_modules import ROOT, imports, library, modules

from ldp_flower.questions import WIRE_TYPES, TransformedQuestion
from ldp_flower.strategies import LdpStrategy

HALVES = {"clients": "ldp_flower.clients", "strategies": "ldp_flower.strategies"}
# Where the two halves may meet: whoever runs both, alone or beside other methods, and
# the audit, which attacks the
# whole client with the queries that a strategy sends.
MEETING_PLACES = ("simulation", "planning", "audit", "compare", "cli")
# scikit-learn's face of strategies, which reaches clients by way of the simulation only.
FACES = ("estimators",)


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


def test_no_two_classes_have_one_name():
    """A reader who meets it anywhere knows which class it is."""
    found = defaultdict(list)
    for name, path in library().items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    assert len(found) > 300
    assert {kind: places for kind, places in found.items() if len(places) > 1} == {}


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


def test_no_folder_of_the_path_hides_the_package():
    """As `tests` would, whose folder `ldp_flower` comes before an installation that is edited."""
    found = [Path(entry) / "ldp_flower" for entry in sys.path]
    assert [path for path in found if path.is_dir() and not (path / "__init__.py").exists()] == []


def test_a_checkout_imports_as_the_wheel_does(tmp_path):
    """From its root, and whole, although another one is installed."""
    for folder in HALVES.keys() | {"ldp_flower"}:
        (tmp_path / folder).symlink_to(ROOT / folder)
    code = """
        import pickle, ldp_flower.clients.statistics, ldp_flower.strategies.iht
        from ldp_flower.strategies import LdpIht
        print(ldp_flower.__file__, ldp_flower.clients.statistics.__file__)
        print(ldp_flower.strategies.iht.__file__, pickle.loads(pickle.dumps(LdpIht)) is LdpIht)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    *files, same = subprocess.check_output(command, cwd=tmp_path, text=True).split()
    assert len(files) == 3 and same == "True"
    assert all(Path(file).is_relative_to(tmp_path) for file in files)


@pytest.mark.parametrize(("half", "other"), [("clients", "strategies"), ("strategies", "clients")])
def test_the_halves_never_import_each_other(half, other):
    assert modules(half)
    for path in modules(half):
        names = imported(path)
        assert not any(name.startswith((HALVES[other], other)) for name in names), path


def test_what_both_agree_on_imports_neither_half():
    for path in modules("ldp_flower"):
        room = path.relative_to(ROOT / "ldp_flower").parts[0]
        if room in MEETING_PLACES + FACES:
            continue
        # A node is the clients' half; what the server does is none of its business.
        other = HALVES["strategies"] if room == "supernode" else tuple(HALVES.values())
        assert not any(name.startswith(other) for name in imported(path)), path


# They know the contents of Flower's files, and refuse others.
OF_FLOWERS_NODE = {
    ("supernode", name)
    for name in ("answering.py", "journal.py", "data_checks.py", "node_arguments.py")
}


def test_private_names_of_flower_live_in_few_modules():
    public = {"flwr.app", "flwr.clientapp", "flwr.serverapp"}
    for folder in ("ldp_flower", "clients", "strategies"):
        for path in modules(folder):
            if path.name == "grid.py" or path.parts[-2:] in OF_FLOWERS_NODE:
                continue
            foreign = {n for n in imported(path) if n.split(".")[0] == "flwr"}
            assert all(any(n == p or n.startswith(p + ".") for p in public) for n in foreign), path


def test_numpys_global_random_state_is_never_used():
    """But seeded, for an app's own code."""
    for folder in ("ldp_flower", "clients", "strategies"):
        for path in modules(folder):
            if path.name == "user_update_mod.py":
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "np.random":
                    assert node.attr == "Generator", path


def test_a_client_process_does_not_start_with_what_few_messages_need():
    """A SuperNode starts one for every message, and these take as long as all the rest."""
    heavy = {"sklearn", "scipy.stats", "scipy.optimize", "pandas", "ray", "torch", "matplotlib"}
    code = f"import sys, ldp_flower.clients; print(*{heavy} & set(sys.modules))"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert shown.split() == []


# What is called as a statistic is and means something else: a unit, an argument, a heading.
HOMONYMS = {"record", "target_scale", "mean", "labels"}


def names_in(path, names):
    """Return which of these a module has as a string, or as a piece of one."""
    constants = (
        n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)
    )
    return {n.value for n in constants if isinstance(n.value, str)} & names


def test_statistics_have_names_on_the_wire_only():
    kinds = {kind for form in WIRE_TYPES.values() for kind in form.kinds}
    stems = {kind.stem for kind in kinds} | {
        kind.suffix for kind in kinds if issubclass(kind, TransformedQuestion)
    }
    names = {*WIRE_TYPES, *stems, *(f"_{stem}" for stem in stems)} - {"", "_"}
    for folder in ("clients", "strategies"):
        for path in modules(folder):
            assert names_in(path, names) <= HOMONYMS, path
    assert names_in(ROOT / "ldp_flower/questions/regression.py", names) >= {
        "gradient",
        "teacher",
    }


# -------------------------------------------------------------------------------- rooms

BOTH_SIDES = {"validation", "randomness", "randomizers", "questions", "data", "guarantee"}
SERVER = BOTH_SIDES | {"presentation", "expectation", "refusals", "models", "monitoring"}
SHARED = ("runtime", "numerics", "forecasts", "subprotocols", "sums")
FAMILIES = (
    *("iht", "sparse", "user_level", "collect_once", "silos", "analytics", "models"),
    *("table_models", "recurring"),
)


def of_strategies(*rooms):
    return {f"strategies/{room}" for room in rooms}


# Which rooms the modules of each room may import, beside their own.
MAY_IMPORT = {
    "validation": set(),
    "randomness": {"validation"},
    "randomizers": {"validation", "randomness"},
    "questions": {"validation", "randomness", "randomizers", "models"},
    "data": {"validation", "guarantee"},
    "guarantee": {"validation", "randomness", "randomizers", "questions", "renamed"},
    "accounting": {"validation", "randomizers", "renamed"},
    "models": {"validation"},
    "presentation": {"validation"},
    "monitoring": {"validation"},
    "refusals": set(),
    "expectation": {"validation", "randomizers", "refusals"},
    "planning": {
        *("validation", "presentation", "randomness", "randomizers"),
        *("expectation", "simulation", "data", "questions", "clients", "strategies"),
        *of_strategies("forecasts", "runtime"),
    },
    "renamed": set(),
    **{old: {"renamed"} for old in ("iht", "schema", "sweep")},
    "clients": BOTH_SIDES | {"models"},
    "strategies/numerics": {"validation"},
    "strategies/runtime": SERVER,
    "strategies/forecasts": SERVER | of_strategies("runtime", "numerics"),
    "strategies/subprotocols": SERVER | of_strategies("runtime", "numerics"),
    "strategies/sums": SERVER | of_strategies("runtime", "numerics"),
    **{room: SERVER | of_strategies(*SHARED) for room in of_strategies(*FAMILIES)},
    # The audit of a series records two evaluations.
    "strategies/recurring": SERVER | of_strategies(*SHARED, "table_models"),
    "strategies": of_strategies(*SHARED, *FAMILIES),
    "simulation": BOTH_SIDES | {"clients", "strategies"} | of_strategies("runtime"),
    "estimators": SERVER | {"strategies", "simulation"},
    "audit": SERVER
    | {"accounting", "clients", "strategies", "simulation"}
    | of_strategies("runtime"),
    "compare": SERVER | {"accounting", "clients", "strategies", "simulation"},
    "supernode": BOTH_SIDES | {"models", "clients", "presentation", "monitoring"},
    "cli": SERVER
    | {
        "ldp_flower",
        "planning",
        "clients",
        "strategies",
        "simulation",
        "audit",
        "compare",
        "supernode",
    },
    "ldp_flower": {"public"},
    "public": {"data", "guarantee", "planning", "simulation"},
}


def room_of(name):
    """Return the room that a module of the library is in."""
    _, *parts = name.split(".")
    if not parts:
        return "ldp_flower"
    if parts[0] == "strategies" and (ROOT / "strategies" / "/".join(parts[1:2])).is_dir():
        return "/".join(parts[:2]).rstrip("/")
    return parts[0]


def test_every_room_imports_those_below_it_only():
    known = library()
    assert len(known) > 150
    for name in known:
        here = room_of(name)
        assert here in MAY_IMPORT, f"{name} is in no room of the plan"
        allowed = MAY_IMPORT[here] | {here}
        for other in imports(known, name):
            assert room_of(other) in allowed, f"{name} imports {other}"


def test_the_plan_has_no_circle_and_lets_the_halves_meet_in_five_rooms():
    TopologicalSorter(MAY_IMPORT).prepare()
    meeting = {room for room, others in MAY_IMPORT.items() if {"clients", "strategies"} <= others}
    assert meeting == set(MEETING_PLACES)


def test_numerics_ask_nobody_and_import_no_sibling():
    known = library()
    numerics = [name for name in known if name.startswith("ldp_flower.strategies.numerics.")]
    assert len(numerics) > 5
    for name in numerics:
        assert {room_of(other) for other in imports(known, name)} <= {"validation"}, name
        assert not asks(known[name]), name


def asks(path):
    """Whether a module yields a question anywhere."""
    return any(
        isinstance(node, ast.Yield | ast.YieldFrom)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )


def test_subprotocols_ask_and_are_no_protocols():
    known = library()
    names = [name for name in known if name.startswith("ldp_flower.strategies.subprotocols.")]
    assert len(names) > 3
    for name in names:
        assert asks(known[name]), name
        own = inspect.getmembers(importlib.import_module(name), inspect.isclass)
        own = [kind for _, kind in own if kind.__module__ == name]
        assert not any(issubclass(kind, LdpStrategy) for kind in own), name


def test_the_library_imports_in_no_circle():
    """For types neither."""
    known = library()
    TopologicalSorter({name: imports(known, name) for name in known}).prepare()


# -------------------------------------------------------------------------- simulations

APPS = (
    "simulations/flights/flights",
    "simulations/heavy-hitters/heavy_hitters",
    "simulations/hospitals/hospitals",
    "simulations/model-updates/model_updates",
    "simulations/own-table/own_table",
    "simulations/silo-networks/silo_networks",
    "simulations/telemetry/telemetry",
    "simulations/user_level/user_level",
)


def simulations():
    """Return the modules of the simulations by name, with those that each imports anywhere."""
    names = {}
    for path in modules("simulations"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: (imported(path) & set(names)) - {name} for name, path in names.items()}


def room(name):
    return name.rpartition(".")[0]


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


# What an app's author may rely on.
DOCUMENTED = {"ldp_flower"} | {
    f"ldp_flower.{name}"
    for name in (
        *("accounting", "clients", "compare", "compare.sweep", "models", "questions.sparse"),
        *("randomizers", "randomness", "simulation", "strategies", "validation"),
    )
}


@pytest.mark.parametrize("app", APPS)
def test_an_app_imports_documented_modules_of_the_library_only(app):
    known = library()
    found = set()
    for path in modules(app):
        found |= imports(known | {"app": path}, "app")
    assert found and found <= DOCUMENTED, found - DOCUMENTED


def test_nothing_lies_in_the_root_but_what_belongs_there():
    """What a run leaves in the folder that it is started from would."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout of the repository")
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()
    files = {name for name in listed if "/" not in name}
    assert files == {
        *(".editorconfig", ".gitignore", ".pre-commit-config.yaml", "justfile"),
        *("CHANGELOG.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE"),
        *("MANIFEST.in", "README.md", "SECURITY.md", "constraints.txt", "pyproject.toml"),
    }
