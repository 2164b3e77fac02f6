"""What a privacy reviewer reads: all that runs beside the data, listed in the docs as it is.

``python tests/layout/test_reviewers.py`` writes the lists anew.
"""

import ast
import re
from collections import defaultdict

import pytest
from known_modules import ROOT, imports, library

#: What runs beside the data: the client, the node's answering, the child process that trains.
ROOTS = ("ldp_flower.clients", "ldp_flower.supernode.answering")
PAGES = ("docs/architecture.md", "README.md")
LIST = re.compile(r"(<!-- reviewers: .*? -->\n).*?(\n<!-- end -->)", re.DOTALL)


def closure():
    """Return the paths of the modules that the roots import, in functions too; not for types."""
    known = library()
    found, todo = set(), [name for name in known if name.startswith(ROOTS)]
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            todo += imports(known, name, at_run_time=True)
    return {known[name].relative_to(ROOT) for name in found}


def listed():
    """Return the list: each folder, whole or by its modules."""
    folders = defaultdict(list)
    for path in sorted(closure()):
        if has_code(ROOT / path):
            folders[path.parent].append(path.name)
    lines = []
    for folder, names in folders.items():
        own = {each.name for each in (ROOT / folder).glob("*.py") if has_code(each)}
        whole = own <= set(names)
        shown = "all" if whole else ", ".join(f"`{name}`" for name in names)
        lines.append(f"- `{folder.as_posix()}/`: {shown}")
    return "\n".join(lines)


def with_list(text):
    """Return a page's text with its list made anew."""
    return LIST.sub(lambda match: f"{match[1]}\n{listed()}\n{match[2]}", text)


def has_code(path):
    """Whether a module is more than its docstring."""
    return len(ast.parse(path.read_text("utf-8")).body) > 1


@pytest.mark.parametrize("page", PAGES)
def test_the_list_for_reviewers_is_what_runs_beside_the_data(page):
    text = (ROOT / page).read_text("utf-8")
    assert LIST.search(text)
    assert with_list(text) == text


def test_the_list_has_what_clips_and_adds_noise():
    found = {path.as_posix() for path in closure()}
    assert found >= {
        *("clients/respond.py", "clients/private_training/gradients.py"),
        *("ldp_flower/randomizers/base.py", "ldp_flower/guarantee/ledger_file.py"),
        *("ldp_flower/models/interpreter.py", "ldp_flower/supernode/answering.py"),
    }
    assert not any(path.startswith("strategies/") for path in found)


if __name__ == "__main__":
    for name in PAGES:
        page = ROOT / name
        text = LIST.sub(
            lambda match: f"{match[1]}\n{listed()}\n{match[2]}", page.read_text("utf-8")
        )
        page.write_text(text, "utf-8")
