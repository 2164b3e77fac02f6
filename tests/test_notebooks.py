"""The notebooks run from their first cell to their last, and say what they did."""

import ast
import json
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
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
