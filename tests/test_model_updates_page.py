"""The page on model updates: its figure, and the study's table, are of the cases that are kept."""

import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from PIL import Image

from ldp_flower.randomizers import Codebook, HadamardCodebook, ball_codebook

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "model-updates.md").read_text("utf-8")
STUDY = (DOCS.parent / "simulations" / "studies" / "compare" / "README.md").read_text("utf-8")
SCRIPT = DOCS / "figures" / "fitted_steps.py"
CASES = pd.read_csv(DOCS / "figures" / "fitted-steps.csv")
SETS = [("tuned", 0.6), ("tuned", np.inf), ("judged", 0.6), ("judged", np.inf)]


def shares(which, largest_q, steps):
    cases = CASES[(CASES["set"] == which) & (CASES["q"] <= largest_q)]
    return (cases[steps] / cases["best hand-set path"]).to_numpy()


def row(name, cells):
    return f"| {name} | {' | '.join(cells)} |\n"


@pytest.mark.parametrize("steps", ["fitted steps", "equal steps"])
def test_the_table_is_of_the_kept_cases(steps):
    found = [shares(*each, steps) for each in SETS]
    reach = [f"{np.sum(some >= 0.97)} of {len(some)}" for some in found]
    assert row(f"{steps}: reach .97 of the best", reach) in STUDY
    means = [f"{some.mean():.2f} ({some.min():.2f})".replace("0.", ".") for some in found]
    assert row(f"{steps}: mean share (worst)", means) in STUDY


def test_the_figure_is_of_the_kept_cases(tmp_path):
    """What is drawn is what the table counts; the picture may differ a little in its letters."""
    script = runpy.run_path(str(SCRIPT))
    figure = script["draw"]()
    for axes, which in zip(figure.axes, ("tuned", "judged"), strict=True):
        drawn = {points.get_label(): points.get_offsets() for points in axes.collections}
        assert set(drawn) == {"fitted steps", "equal steps"}
        for steps, points in drawn.items():
            expected = np.maximum(shares(which, np.inf, steps), script["LOWEST"])
            np.testing.assert_allclose(points[:, 1], expected)
            np.testing.assert_allclose(points[:, 0], CASES[CASES["set"] == which]["q"])
    figure.savefig(tmp_path / "new.png", dpi=110)
    pyplot.close(figure)
    with Image.open(tmp_path / "new.png") as new, Image.open(DOCS / "fitted-steps.png") as old:
        assert new.size == old.size
        pairs = zip(new.convert("L").tobytes(), old.convert("L").tobytes(), strict=True)
        assert sum(abs(a - b) > 64 for a, b in pairs) < 0.01 * new.size[0] * new.size[1]


def test_the_noise_is_that_of_the_mechanism():
    """Of some hundred parameters; a codebook's variance hardly depends on their number."""
    numbers = {
        name: [float(cell) for cell in line.strip("| ").split("|")]
        for name, line in re.findall(r"^\| (epsilon|c|users a parameter.*?) (\|.*)$", PAGE, re.M)
        if "sqrt" not in line and "." in line
    }
    (wanted,) = (cells for name, cells in numbers.items() if name.startswith("users"))
    for epsilon, c, users in zip(numbers["epsilon"], numbers["c"], wanted, strict=True):
        small, large = (ball_codebook(epsilon, d) for d in (4095, 4096))
        assert isinstance(small, Codebook) and isinstance(large, HadamardCodebook)
        assert small.variance == pytest.approx(large.variance, rel=1e-3)
        assert c == pytest.approx(ball_codebook(epsilon, 100).variance, rel=0.05)
        assert users == pytest.approx(c / 0.6**2, rel=0.05)
