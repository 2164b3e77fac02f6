"""The pages of the simulations: links, commands, and pictures that are as old as their tables."""

import importlib
import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.usefixtures("repository_on_the_path")

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "simulations").rglob("README.md"))
COMMAND = re.compile(r"python -m (simulations[\w.]*)([^`\n#]*)")
STUDIES = [page for page in PAGES if page.parent.parent.name == "studies"]
# The line below a table of results, or about a folder of runs.
MADE = re.compile(
    r"\*(?:\[published\]\(published\): m|M)ade (?:by|of) .+; (?:no seeds|seeds? .+); "
    r"commit [0-9a-f]{8}\.\*"
)
PUBLISHED = sorted((ROOT / "simulations").rglob("published/runs.csv"))
COLOURS_BEFORE = {(11, 122, 117), (176, 83, 44)}  # green and red until e4326584
# Drawn before runs were kept here, and not to be added to.
WITHOUT_RUNS = {
    "architecture.png",  # of names
    "audit-apps.png",  # of docs/figures/audit-apps.csv
    "benchmarks.png",
    "budget.png",  # of words
    "collect-once-real.png",
    "collect-once.png",
    "compare-app.png",  # of docs/figures/compare-app.csv
    "one-user.png",  # of words
    "planning.png",  # of the files of simulations/studies/planning
    "telemetry.png",  # of the flights, in a run of seconds
    "epsilon.png",  # of formulas
    "fitted-steps.png",  # of docs/figures/fitted-steps.csv
    "flights.png",
    "knowledge-transfer.png",
    "units.png",  # of words
    "user-level-error.png",
    "user-level-selection.png",
    "variance.png",  # of formulas
    "noise.png",  # of formulas
}


def documented():
    """Return the commands on all pages, as (module, arguments)."""
    found = {
        (module.rstrip("."), rest.strip())
        for page in [*PAGES, *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
        for module, rest in COMMAND.findall(page.read_text("utf-8"))
    }
    return sorted(found)


class ParsedError(Exception):
    pass


@pytest.mark.parametrize(("module", "arguments"), documented())
def test_a_command_is_as_the_pages_write_it(module, arguments, monkeypatch):
    from simulations.harness.command import Command

    parse = Command.parse_args

    def parse_and_stop(self, given=None):
        assert self.prog == f"python -m {module}"
        parse(self, given)
        raise ParsedError

    monkeypatch.setattr(Command, "parse_args", parse_and_stop)
    folder = (ROOT / module.replace(".", "/")).is_dir()
    command = importlib.import_module(f"{module}.__main__" if folder else module)
    with pytest.raises(ParsedError):
        command.main(shlex.split(arguments))


def test_every_command_and_room_is_in_the_index():
    index = (ROOT / "simulations" / "README.md").read_text("utf-8")
    for path in (ROOT / "simulations").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        if "Command(" in path.read_text("utf-8") and "harness" not in name:
            assert f"python -m {name}" in index, name
    for page in PAGES:
        folder = page.parent.relative_to(ROOT / "simulations").as_posix()
        assert folder == "." or f"]({folder})" in index, folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def end_of_results(lines):
    """Yield the place after each table of which most cells are numbers."""
    at = 0
    while at < len(lines):
        rows = list(takewhile(lambda line: line.startswith("|"), lines[at:]))
        at += len(rows) or 1
        cells = [cell.strip() for row in rows[2:] for cell in row.strip("|").split("|")[1:]]
        if sum(bool(re.match(r"[-~<>*]*[\d.]", cell)) for cell in cells) > len(cells) / 2:
            yield at


@pytest.mark.parametrize("page", STUDIES, ids=lambda page: page.parent.name)
def test_results_say_by_which_command_with_which_seeds_and_when(page):
    lines = page.read_text("utf-8").splitlines()
    for at in end_of_results(lines):
        assert lines[at] == "" and MADE.fullmatch(lines[at + 1]), lines[at - 1]


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parents[1].name)
def test_published_runs_say_by_which_command_with_which_seeds_and_when(path):
    lines = (path.parents[1] / "README.md").read_text("utf-8").splitlines()
    (made,) = [line for line in lines if line.startswith("*[published](published): made by")]
    assert MADE.fullmatch(made)


def test_pictures_are_of_the_runs_that_are_kept_here():
    from simulations.harness.figures import digest, source_of

    kept = {digest(path) for path in PUBLISHED}
    pictures = sorted((ROOT / "docs").glob("*.png"))
    assert pictures
    for picture in pictures:
        if picture.name not in WITHOUT_RUNS:
            assert source_of(picture) in kept, picture.name


def test_every_picture_says_by_which_command_with_which_seeds_and_when():
    table = (ROOT / "docs" / "gallery.md").read_text("utf-8").partition("## Where pictures")[2]
    rows = re.findall(
        r"^\| \[([\w-]+)\]\(\1\.png\) \| .+ \| .+ \| [0-9a-f]{8}(\*?) \|$", table, re.M
    )
    assert [name for name, _ in rows] == sorted(p.stem for p in (ROOT / "docs").glob("*.png"))
    for name, star in rows:
        with Image.open(ROOT / "docs" / f"{name}.png") as image:
            pixels = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
        assert bool(star) == bool(pixels & COLOURS_BEFORE), name


def test_pictures_have_a_ground_of_their_own_on_a_dark_page():
    for picture in sorted((ROOT / "docs").glob("*.png")):
        with Image.open(picture) as image:
            assert image.convert("RGBA").getchannel("A").getextrema() == (255, 255), picture.name


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parents[1].name)
def test_tables_are_of_the_runs_that_are_kept_here(path):
    import pandas as pd

    study = ".".join(path.parents[1].relative_to(ROOT).parts)
    table = importlib.import_module(f"{study}.report").table(pd.read_csv(path))
    assert (path.parent / "table.md").read_text("utf-8") == table.markdown()
