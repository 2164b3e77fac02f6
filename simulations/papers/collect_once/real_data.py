"""The protocols that collect once on real data: flights from New York, and a census.

Run it from the repository's root as ``python -m simulations.papers.collect_once.real_data``, for the
census with ``--adult a9a``: UCI's Adult in LIBSVM's form, 32,561 rows of 123 indicators. Without it
the logistic model is tried on scikit-learn's breast cancer set, whose 569 rows are too few.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_svmlight_file
from sklearn.linear_model import LinearRegression, LogisticRegression

from ldp_flower import Users, simulate
from ldp_flower.strategies import ConstrainedRegression, KernelRidgeRegression, SmoothGlm

from ...flights.flights import data, design

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Floats = NDArray[np.float64]

EPSILONS = (1.0, 2.0, 4.0, 8.0)
_COLUMNS = 1 + len(design.NUMERIC)  # intercept and numbers, no categories
_HOURS = np.arange(5.5, 24)
_DELAY = 60.0  # minutes, beyond which a departure delay counts as such
_INK = "#22313f"
_COLOURS = ("#0b7a75", "#4c78a8", "#b0532c")


@dataclass(frozen=True)
class Study:
    """One question to real data.

    Attributes
    ----------
    title, measure : str
        What it is, and what the numbers are.
    users : str
        Who is protected.
    baseline, best : float
        The measure of a constant prediction and of a fit without privacy.
    run : callable
        Function from epsilon, seed and method to the measure.
    """

    title: str
    measure: str
    users: str
    baseline: float
    best: float
    run: Callable[[float, int, str], float]


# ------------------------------------------------------------------------- regression


def regression(aircraft: bool) -> Study:
    """Return the arrival delay by 12 numbers, judged on the flights of other aircraft."""
    rows, _ = data.split(0)
    x, y = design.features(rows)[:, :_COLUMNS], design.targets(rows)
    judged, minutes = data.judged(0)
    judged = judged[:, :_COLUMNS]

    def explained(predicted: Floats) -> float:
        errors = minutes - design.minutes(predicted)
        return 1 - float(np.mean(errors**2) / np.var(minutes))

    users = Users.from_rows(x, y, rows["tailnum"] if aircraft else None)

    def run(epsilon: float, seed: int, method: str) -> float:
        strategy = ConstrainedRegression(
            _COLUMNS,
            epsilon=epsilon,
            feature_bound=4.0,
            target_bound=2.0,
            l1_bound=2.0,
            method=method,
            exact=False,
        )
        return explained(simulate(strategy, users, seed=seed).predict(judged))

    best = explained(LinearRegression(fit_intercept=False).fit(x, y).predict(judged))
    who = f"{len(users):,} {'aircraft' if aircraft else 'flights'}"
    return Study(f"Arrival delay, {_user(aircraft)}", "R2", who, 0.0, best, run)


def _user(aircraft: bool) -> str:
    return "a user an aircraft" if aircraft else "a user a flight"


# ----------------------------------------------------------------------------- kernel


@lru_cache(maxsize=1)
def departures() -> pd.DataFrame:
    """Return the hours and clipped departure delays of all flights."""
    every = data.flights()
    clock = every["sched_dep_time"]
    delay = np.clip(every["dep_delay"], -_DELAY, _DELAY)
    return pd.DataFrame(
        {"hour": clock // 100 + clock % 100 / 60, "delay": delay, "tailnum": every["tailnum"]}
    )


def kernel_fit(epsilon: float, seed: int, method: str, aircraft: bool) -> Any:
    """Return the delay by the time of day."""
    flights = departures()
    groups = flights["tailnum"] if aircraft else None
    users = Users.from_rows(flights[["hour"]].to_numpy(), flights["delay"].to_numpy(), groups)
    strategy = KernelRidgeRegression(
        1, epsilon=epsilon, length_scale=5.0, target_bound=_DELAY, method=method, exact=False
    )
    return simulate(strategy, users, seed=seed)


def hourly() -> pd.DataFrame:
    """Return the mean delay of every hour and its number of flights."""
    flights = departures()
    grouped = flights.groupby(np.floor(flights["hour"]) + 0.5)["delay"]
    found = pd.DataFrame({"delay": grouped.mean(), "flights": grouped.size()})
    return found.reindex(_HOURS).dropna()


def kernel(aircraft: bool) -> Study:
    """Return how much of the hourly means' variance the private curve explains."""
    means = hourly()
    weights = means["flights"] / means["flights"].sum()
    centre = float(weights @ means["delay"])
    variance = float(weights @ (means["delay"] - centre) ** 2)

    def run(epsilon: float, seed: int, method: str) -> float:
        fit = kernel_fit(epsilon, seed, method, aircraft)
        errors = means["delay"] - fit.predict(means.index.to_numpy()[:, None])
        return 1 - float(weights @ errors**2) / variance

    who = f"{departures()['tailnum'].nunique():,} aircraft"
    if not aircraft:
        who = f"{len(departures()):,} flights"
    title = f"Delay by time of day, {_user(aircraft)}"
    return Study(title, "R2 of hourly means", who, 0.0, 1.0, run)


# --------------------------------------------------------------------------- logistic


def census(path: Path) -> tuple[Floats, Floats]:
    """Return eight public codings of the census records, and whether income is high (+-1)."""
    rows, labels = load_svmlight_file(str(path), n_features=123)
    table = rows.toarray()

    def rank(first: int) -> Floats:  # a number in fifths
        return np.asarray((table[:, first - 1 : first + 4] @ np.arange(5) - 2) / np.sqrt(2))

    def sign(column: int) -> Floats:
        return np.asarray(2 * table[:, column - 1] - 1)

    # age, education, hours; married, male, capital gain, capital loss
    columns = [rank(1), rank(35), rank(78), sign(40), sign(73), sign(75), sign(77)]
    return np.stack([np.ones(len(table)), *columns], axis=1), labels


def breast_cancer() -> tuple[Floats, Floats]:
    """Return the first five measurements, roughly standardised by round numbers."""
    rows, labels = load_breast_cancer(return_X_y=True)
    typical, spread = np.array([14, 19, 92, 655, 0.1]), np.array([3.5, 4.3, 24, 350, 0.014])
    return np.column_stack([np.ones(len(rows)), (rows[:, :5] - typical) / spread]), 2.0 * labels - 1


def logistic(adult: Path | None) -> Study:
    """Return the accuracy of a logistic model on a fifth of the rows."""
    x, y = breast_cancer() if adult is None else census(adult)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[len(y) // 5 :], order[: len(y) // 5]
    users = Users.from_rows(x[train], y[train])

    def accuracy(decisions: Floats) -> float:
        return float(np.mean(np.sign(decisions) == y[test]))

    def run(epsilon: float, seed: int, method: str) -> float:
        strategy = SmoothGlm(
            x.shape[1], epsilon=epsilon, feature_bound=3.0, radius=2.5, method=method, exact=False
        )
        return accuracy(simulate(strategy, users, seed=seed).decision_function(x[test]))

    model = LogisticRegression(C=1e4, fit_intercept=False, max_iter=1000).fit(x[train], y[train])
    majority = max(np.mean(y[test] > 0), np.mean(y[test] < 0))
    title = "High income (Adult)" if adult else "Breast cancer"
    best = accuracy(model.decision_function(x[test]))
    return Study(title, "accuracy", f"{len(users):,} people", float(majority), best, run)


# ----------------------------------------------------------------------- table, figure


def table(studies: list[Study], runs: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return head and lines: medians by study, method and epsilon."""
    head = ["study", "users", "measure", "constant", "method"]
    lines = []
    for study in studies:
        for method in ("auto", "paper"):
            chosen = runs[(runs["study"] == study.title) & (runs["method"] == method)]
            values = [chosen[chosen["epsilon"] == e]["value"].median() for e in EPSILONS]
            cells = [f"{value:.3f}" for value in values]
            line = [study.title, study.users, study.measure, f"{study.baseline:.3f}", method]
            lines.append([*line, *cells, f"{study.best:.3f}"])
    return [*head, *(f"epsilon {e:g}" for e in EPSILONS), "not private"], lines


def draw(studies: list[Study], runs: pd.DataFrame, path: Path) -> None:
    """Draw what epsilon gives, and the curve of delays by the time of day."""
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _INK, "text.color": _INK})
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.2))
    for axes, shown in ((left, studies[:2]), (right, studies[-1:])):
        for study, colour in zip(shown, _COLOURS, strict=False):
            for method, line in (("auto", "-"), ("paper", "--")):
                chosen = runs[(runs["study"] == study.title) & (runs["method"] == method)]
                values = chosen.groupby("epsilon")["value"].median()
                label = f"{study.users}, {method}"
                axes.plot(values.index, values, line, marker="o", ms=4, color=colour, label=label)
        axes.axhline(shown[0].best, color=_INK, lw=1, ls="-.", label="not private")
        axes.axhline(shown[0].baseline, color=_INK, lw=1, ls=":", label="a constant")
        axes.set_xscale("log", base=2)
        axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axes.set_xlabel("epsilon")
        axes.set_ylabel(shown[0].measure)
    left.set_title("Arrival delay, 12 numbers (R2)", loc="left", fontsize=10, fontweight="bold")
    right.set_title(studies[-1].title, loc="left", fontsize=10, fontweight="bold")
    means = hourly()
    middle.plot(
        means.index, means["delay"], "o", color=_INK, ms=5, label="hourly means, not private"
    )
    hours = np.linspace(5, 24, 200)[:, None]
    for colour, (epsilon, aircraft) in zip(
        _COLOURS, ((1.0, False), (4.0, True), (1.0, True)), strict=True
    ):
        fit = kernel_fit(epsilon, 0, "auto", aircraft)
        who = "aircraft" if aircraft else "flights"
        middle.plot(hours, fit.predict(hours), color=colour, label=f"{who}, epsilon {epsilon:g}")
    middle.set_xlabel("scheduled hour of departure")
    middle.set_ylabel("departure delay, minutes (within 60)")
    middle.set_title("Delay by time of day", loc="left", fontsize=10, fontweight="bold")
    for axes in (left, middle, right):
        axes.legend(
            frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2
        )
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.papers.collect_once.real_data",
        description=(__doc__ or "").split("\n")[0],
    )
    add = parser.add_argument
    add("--adult", type=Path, default=None, help="UCI Adult as LIBSVM's a9a")
    add("--seeds", type=int, default=5)
    add("--output", type=Path, default=Path("results/collect_once"))
    options = parser.parse_args(arguments)
    studies = [regression(True), regression(False), kernel(True), kernel(False)]
    studies.append(logistic(options.adult))
    rows = []
    tasks = [
        (study, method, epsilon, seed)
        for study in studies
        for method in ("auto", "paper")
        for epsilon in EPSILONS
        for seed in range(options.seeds)
    ]
    with Progress() as progress:
        bar = progress.add_task("runs", total=len(tasks))
        for study, method, epsilon, seed in tasks:
            progress.update(bar, description=f"{study.title}, {method}, epsilon {epsilon:g}")
            value = study.run(epsilon, seed, method)
            rows.append((study.title, method, epsilon, seed, value))
            progress.update(bar, advance=1)
    runs = pd.DataFrame(rows, columns=["study", "method", "epsilon", "seed", "value"])
    options.output.mkdir(parents=True, exist_ok=True)
    runs.to_csv(options.output / "real-data.csv", index=False)
    head, lines = table(studies, runs)
    printed = Table(*head, title="Real data, collected once: medians")
    for line in lines:
        printed.add_row(*line)
    console = Console()
    console.width = max(console.width, 150)
    console.print(printed)
    rule = ["---"] * 5 + ["--:"] * (len(head) - 5)
    text = "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *lines])
    (options.output / "real-data.md").write_text(text + "\n", "utf-8")
    draw(studies, runs, options.output / "collect-once-real.png")
    print(f"Wrote {options.output / 'collect-once-real.png'}")


if __name__ == "__main__":
    main()
