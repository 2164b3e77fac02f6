"""The pages of the simulations: links, commands, and pictures that are as old as their tables."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "simulations").rglob("README.md"))
COMMAND = re.compile(r"python -m (simulations[\w.]*)([^`\n#]*)")
STORED = {"studies.compare": "simulations/studies/compare/published"}


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
    if importlib.util.find_spec(module).submodule_search_locations is not None:
        module += ".__main__"
    with pytest.raises(ParsedError):
        importlib.import_module(module).main(shlex.split(arguments))


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
