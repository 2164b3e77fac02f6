"""The comparison: how methods run, and how they are shown."""

import bz2
import csv
import math
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from ldp_flower.randomizers import ball_codebook

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a small stand-in for a9a: 14 of 123 attributes in every row."""
    rng = np.random.default_rng(0)
    x = np.zeros((2000, 123))
    for row in x:
        row[rng.choice(123, 14, replace=False)] = 1
    weights = rng.normal(0, 1.5, 123)
    labels = np.where(rng.uniform(size=2000) < 1 / (1 + np.exp(-(x @ weights))), 1, -1)
    path = tmp_path_factory.mktemp("data")
    with bz2.open(path / "adult_a9a_tick.trn.svm.bz2", "wb") as packed:
        dump_svmlight_file(x, labels, packed, zero_based=False)
    return path


def test_the_local_model_is_trained_on_ones_own_rows(folder):
    from simulations.studies.compare import problems
    from simulations.studies.compare.methods import METHODS

    problem = problems.a9a(10, 0, folder)
    assert problem.num_users == 160 and problem.x.shape == (1600, 124)
    np.testing.assert_allclose(np.linalg.norm(problem.x, axis=1), 1)
    outcome = METHODS["local model"].run(problem, math.inf, 0)
    assert outcome.bytes_per_user == 0 and 0.5 < outcome.score < 0.8


@pytest.mark.slow
def test_the_command_compares_and_goes_on_where_it_stopped(folder, tmp_path, capsys):
    """The whole pipeline on 160 users, with every method."""
    from simulations.studies.compare.__main__ import main
    from simulations.studies.compare.methods import METHODS

    arguments = ["--problems", "a9a, 10 rows a user", "--epsilons", "4", "--data", str(folder)]
    arguments += ["--output", str(tmp_path), "--methods"]
    main([*arguments, "FedAvg"])
    main([*arguments, *METHODS])
    rows = list(csv.DictReader((tmp_path / "runs.csv").open()))
    scores = {row["method"]: float(row["score"]) for row in rows}
    assert len(rows) == len(scores) == 8
    assert scores["FedAvg"] > 0.8 and scores["FedAvg"] > scores["local model"]
    assert scores["LdpFedAvg"] > scores["LocalDpMod, calibrated"]
    true = {row["method"]: float(row["true_epsilon"]) for row in rows}
    assert true["LdpFedAvg"] == 4.0 and true["LocalDpMod, nominal"] == pytest.approx(7.91, rel=0.01)
    ours = next(row for row in rows if row["method"] == "LdpFedAvg")
    assert (ours["unit"], ours["trusted"], ours["delta"]) == ("user", "nobody", "0.0")
    assert ours["bytes_per_user"] == "1" and ours["rounds"] == "5"
    shown = capsys.readouterr().out
    assert "AUC" in shown and "user, pure" in shown and "nothing leaves" in shown
    assert "| LdpFedAvg | nobody | user, pure |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "compare.png").stat().st_size > 10_000


def test_a_hopeless_epsilon_is_refused_and_shown_so(folder):
    from simulations.studies.compare import problems, report
    from simulations.studies.compare.methods import METHODS

    outcome = METHODS["LdpFedAvg"].run(problems.a9a(10, 0, folder), 0.1, 0)
    assert math.isnan(outcome.score)
    assert report._cell(report.pd.DataFrame({"score": [outcome.score]})) == "refused"


def test_table_and_figure_show_the_same_numbers():
    """Of made-up runs of everything, some refused: what is drawn is what stands in the cells."""
    from simulations.studies.compare import __main__ as command
    from simulations.studies.compare import report
    from simulations.studies.compare.methods import METHODS

    rng = np.random.default_rng(0)
    guarantee = {"unit": "user", "trusted": "nobody", "delta": 0.0}
    size = {"users": 2604, "rounds": 20, "bytes_per_user": 20, "seconds": 1.0}
    runs = pd.DataFrame(
        {
            **asdict(task.setting),
            "method": task.method,
            "seed": task.seed,
            "score": rng.uniform(0.2, 1) if rng.random() < 0.9 else math.nan,
            "true_epsilon": 1.5 * task.setting.epsilon,
            **guarantee,
            **size,
        }
        for seed in range(3)
        for problem in report.PROBLEMS
        for task in command.tasks_of(problem, list(METHODS), [1.0, 2.0, 4.0, 8.0], seed)
    )

    made, figure = report.table(runs), report.draw(runs)["compare.png"]
    shown = 0
    for axes in figure.axes:
        problem, users = axes.get_title(loc="left").rsplit(", ", 1)
        curves = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        lowest = report._measure(problem)[1]
        for line in made.lines:
            if not line[0].startswith(f"{problem} ({users}"):
                continue
            cells = dict(zip(made.head, line, strict=True))
            scores = [cells[name] for name in made.head if name.startswith("eps ")]
            scores = [float(cell.split()[0]) for cell in scores if cell not in ("", "refused")]
            if not METHODS[line[1]].private:
                scores = [float(cells["without"].split()[0])]
                drawn = curves[line[1]].get_ydata(orig=False)[:1]
            elif scores:
                drawn = curves[line[1]].lines[0].get_ydata(orig=False)
            else:
                drawn = []
                assert line[1] not in curves
            np.testing.assert_allclose(drawn, np.maximum(scores, lowest), atol=5.1e-4)
            shown += len(scores)
    assert shown > 150
    report.figures.plt.close(figure)


# ------------------------------------------------------------------- what is published of it

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "simulations" / "studies" / "compare" / "published" / "runs.csv"
PAGE = (ROOT / "docs" / "which-method.md").read_text("utf-8")
RESULTS = (ROOT / "simulations" / "studies" / "compare" / "README.md").read_text("utf-8")
# Users and parameters, as the table says them.
SIZES = {
    "a9a, 10 rows a user": (2604, 124),
    "flights": (3230, 156),
    "sparse regression": (400, 256),
    "digits, softmax": (3000, 650),
    "digits, net": (2000, 2442),
    "a9a, 1 row a user": (26049, 124),
}


def page_lines(runs):
    """Return the table of the results: mean scores by epsilon, and q from the mechanism."""
    from simulations.studies.compare.methods import METHODS
    from simulations.studies.compare.runs import PROBLEMS

    def epsilons(problem):
        every = runs[runs["problem"] == problem]["epsilon"]
        return sorted(set(every[np.isfinite(every)]))

    def written(scores):
        if scores.empty:
            return "-"
        mean = scores.mean()
        return "refused" if math.isnan(mean) else f"{mean:.3f}" if mean > -1 else f"{mean:.1f}"

    def cell(method, problem):
        found = runs[(runs["method"] == method) & (runs["problem"] == problem)]
        if found.empty:
            return ""
        columns = epsilons(problem) if METHODS[method].private else [math.inf]
        return " / ".join(written(found[found["epsilon"] == each]["score"]) for each in columns)

    def q(problem):
        users, dim = SIZES[problem]
        noises = [ball_codebook(each, dim).variance for each in epsilons(problem)]
        return " / ".join(f"{math.sqrt(dim * noise / users):.2g}" for noise in noises)

    return [
        f"| q of LdpFedAvg | {' | '.join(q(problem) for problem in PROBLEMS)} |",
        *(
            f"| {method} | {' | '.join(cell(method, problem) for problem in PROBLEMS)} |"
            for method in METHODS
            if method in set(runs["method"])
        ),
    ]


def test_the_results_and_the_page_say_what_the_runs_say():
    """The page's figure is of the same file: tests/simulations/test_pages.py."""
    runs = pd.read_csv(PUBLISHED)
    for line in page_lines(runs):
        assert f"\n{line}\n" in RESULTS, line
    # The page has four of the six columns, of some methods.
    table = re.search(r"^\| method \| Adult.*?\n\n", PAGE, re.DOTALL | re.MULTILINE)[0]
    lines = [line.split(" | ") for line in page_lines(runs)]
    chosen = {" | ".join(line[place] for place in (0, 1, 2, 3, 5)) + " |" for line in lines}
    said = table.strip().split("\n")[2:]
    assert len(said) == 7 and set(said) <= chosen
    epsilons = sorted(set(runs["epsilon"][np.isfinite(runs["epsilon"])]))
    assert f"Mean scores at epsilon {' / '.join(f'{each:g}' for each in epsilons)} (" in RESULTS
    for problem, (users, dim) in SIZES.items():
        assert set(runs[runs["problem"] == problem]["users"]) == {users}
        assert f"{users:,} users, d = {dim:,}" in RESULTS


def test_every_cell_has_five_seeds():
    runs = pd.read_csv(PUBLISHED)
    seeds = runs.groupby(["problem", "method", "epsilon"])["seed"].nunique()
    assert seeds.min() >= 5, seeds[seeds < 5]
    assert not [line for line in page_lines(runs) if " - " in line]


def test_the_costs_on_the_page_are_those_of_the_runs():
    runs = pd.read_csv(PUBLISHED)
    runs = runs[runs["problem"] == "a9a, 10 rows a user"]
    nominal = runs[runs["method"] == "LocalDpMod, nominal"].groupby("epsilon")["true_epsilon"]
    (said,) = re.findall(r"nominal 1, 2, 4 and 8, namely (.*?), for one answer", PAGE)
    costs = dict(zip([1.0, 2.0, 4.0, 8.0], said.replace(" and", ",").split(", "), strict=True))
    for epsilon, true in nominal.mean().items():
        assert costs[epsilon] == f"{true:.1f}"
    for name, methods in {
        "LocalDpMod": ["LocalDpMod, nominal", "LocalDpMod, calibrated"],
        "DP-SGD in clients": ["DP-SGD in clients"],
        "DP-FedAvg, either clip": ["DP-FedAvg"],
        "FedAvg": ["FedAvg"],
        "local model": ["local model"],
    }.items():
        (size,) = set(runs[runs["method"].isin(methods)]["bytes_per_user"])
        assert re.search(rf"^\| {name} \|.*\| {size:,} \|$", PAGE, re.MULTILINE), name
