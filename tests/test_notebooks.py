"""The notebooks run from their first cell to their last, and say what they did."""

import ast
import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def cells(path):
    notebook = json.loads(path.read_text("utf-8"))
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


def executed(source, names):
    """Run a cell and return what its last line is worth, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is not None:
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return None


def test_there_are_five():
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("missing", [True, False])
def test_the_first_notebook_installs_the_library_where_it_is_missing(missing, monkeypatch):
    """So that it runs as it stands on a hosted notebook service."""
    (path,) = (path for path in NOTEBOOKS if path.stem == "table")
    ran = []
    monkeypatch.setattr("subprocess.run", lambda command, check: ran.append(command[1:]))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if missing else name)
    executed(cells(path)[0], {})
    assert ran == [["-m", "pip", "install", "-q", "ldp-flower"]] * missing
    links = re.findall(r"\]\((.*?)\)", path.read_text("utf-8"))
    assert links and all(link.startswith("https://") for link in links)


QUICK = ("analytics", "existing_app")
LONG = ("million",)  # a minute


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            marks=[pytest.mark.slow] * (path.stem not in QUICK)
            + [pytest.mark.long] * (path.stem in LONG),
            id=path.stem,
        )
        for path in NOTEBOOKS
    ],
)
def test_a_notebook_runs_and_was_kept_with_what_it_showed(path, tmp_path, monkeypatch, capsys):
    if path.stem == "existing_app":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    shown = [executed(source, names) for source in cells(path)]
    assert any(each is not None for each in shown)
    notebook = json.loads(path.read_text("utf-8"))
    kept = [c["outputs"] for c in notebook["cells"] if c["cell_type"] == "code"]
    assert any(kept)
    assert "Warning" not in json.dumps(kept)
    assert not any(output["output_type"] == "error" for outputs in kept for output in outputs)
