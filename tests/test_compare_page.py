"""The page on comparing one's own app: its table and figure are of the cells that are kept."""

import csv
import re
from pathlib import Path

import pytest
from PIL import Image

from ldp_flower import compare as package
from ldp_flower.compare import Comparison

DOCS = Path(__file__).parents[1] / "docs"
CELLS = DOCS / "figures" / "compare-app.csv"
ROOM = DOCS.parent / "simulations" / "studies" / "compare"
RESULTS = (ROOM / "README.md").read_text("utf-8").partition("### An app of one's own")[2]
PAGE = (DOCS / "which-method.md").read_text("utf-8").partition("## Your own app under")[2]
(BLOCK,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def kept():
    with CELLS.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_is_of_the_kept_cells():
    found = Comparison("app", 1_000, kept())
    for row in (found.head, *found.rows()):
        assert f"| {' | '.join(row)} |\n" in RESULTS, row
    assert found.explanation in RESULTS
    cells = {(row[0], row[1]): row[5].split()[0] for row in found.rows()}
    said = re.search(r"At epsilon 1 the AUC is .*?\n\(", PAGE, re.DOTALL)[0]
    methods = [
        ("LdpFedAvg", "1"),
        ("LocalDpMod, calibrated", "1"),
        ("DP-FedAvg", "1"),
        ("FedAvg", ""),
    ]
    assert re.findall(r"0\.\d{3}", said) == [cells[method] for method in methods]


def test_the_figure_is_of_the_kept_cells(tmp_path):
    """Drawn again, it is the same picture: letters may differ a little between machines."""
    _, picture, _ = Comparison("app", 1_000, kept()).write(tmp_path)
    with Image.open(picture) as new, Image.open(DOCS / "compare-app.png") as old:
        assert new.size == old.size
        pairs = zip(new.convert("L").tobytes(), old.convert("L").tobytes(), strict=True)
        assert sum(abs(a - b) > 64 for a, b in pairs) < 0.01 * new.size[0] * new.size[1]


def test_the_example_fills_a_cell_as_it_was_filled(tmp_path, monkeypatch):
    """Two cells whose methods are simple arithmetic, at one of five seeds."""
    monkeypatch.chdir(tmp_path)
    whole = package.compare

    def quick(*arguments, **options):
        methods = ["untrained", "LocalDpMod, calibrated"]
        return whole(*arguments, **options | {"seeds": 1, "epsilons": [4.0], "methods": methods})

    monkeypatch.setattr(package, "compare", quick)
    names = {}
    exec(BLOCK, names)
    scores = {(row["method"], row["epsilon"], row["seed"]): row["score"] for row in kept()}
    cells = names["found"].cells
    assert len(cells) == 2
    for cell in cells:
        key = cell["method"], cell["epsilon"], cell["seed"]
        assert float(cell["score"]) == pytest.approx(float(scores[key]), abs=1e-6)
