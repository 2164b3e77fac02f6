"""The notebooks run from their first cell to their last, and keep what the code gives today.

``python tests/test_notebooks.py`` runs them all anew and keeps their outputs. It needs the extra
docs, and a name or two after it runs only those.
"""

import ast
import json
import math
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def code_cells(path):
    notebook = json.loads(path.read_text("utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def cells(path):
    return ["".join(cell["source"]) for cell in code_cells(path)]


def executed(source, names):
    """Run a cell and return the value that a notebook shows: that of a last line without ``;``."""
    tree = ast.parse(source)
    ends_in_value = isinstance(tree.body[-1], ast.Expr) and not source.endswith(";")
    last = tree.body.pop() if ends_in_value else None
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
def test_a_notebook_keeps_what_it_gives(path, tmp_path, monkeypatch, capsys):
    if path.stem == "existing_app":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    with pd.option_context("display.max_columns", 20):  # a notebook has no width of a terminal
        for cell in code_cells(path):
            value = executed("".join(cell["source"]), names)
            given, said = (capsys.readouterr().out, *shown(value)), kept(cell)
            if "unseeded" in cell["metadata"].get("tags", ()):
                assert_within_errors(given[1], said[1])
                given, said = map(without_numbers, given), map(without_numbers, said)
            assert tuple(given) == tuple(said), cell["id"]


def shown(value):
    """Return what a notebook shows of a value: its text, and its page without the looks."""
    if value is None:
        return "", ""
    page = value._repr_html_() if hasattr(value, "_repr_html_") else ""
    return repr(value), without_looks(page or "")


def kept(cell):
    """Return what a cell has kept: what it printed, then as of :func:`shown`."""
    printed, text, page = "", "", ""
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            assert output["name"] == "stdout"
            printed += "".join(output["text"])
        elif output["output_type"] == "execute_result":
            text = "".join(output["data"]["text/plain"])
            page = without_looks("".join(output["data"].get("text/html", "")))
        else:  # a figure, whose pixels depend on the fonts of the machine
            assert output["output_type"] == "display_data" and "image/png" in output["data"]
    return printed, text, page


def assert_within_errors(given, said):
    """Compare each value with that of another seed, by four standard errors of their difference."""
    pairs = [re.findall(r"(\S+) ± (\S+)", text) for text in (given, said)]
    assert pairs[0] and len(pairs[0]) == len(pairs[1])
    for mine, other in zip(*pairs, strict=True):
        (value, error), (old, old_error) = map(float, mine), map(float, other)
        assert abs(value - old) < 4 * math.hypot(error, old_error)


def without_numbers(text):
    return re.sub(r"\d+(\.\d+)?", "0", text)


def without_looks(page):
    return re.sub(r"<(svg|style)\b.*?</\1>", "", page, flags=re.DOTALL)


def keep(path):
    """Run a notebook in a kernel, and keep the outputs in the file."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, record_timing=False, resources=resources).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        if notebook.stem in (sys.argv[1:] or [path.stem for path in NOTEBOOKS]):
            keep(notebook)
