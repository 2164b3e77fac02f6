"""The table, in the form of Table 2 of Ma, Jia & Yang (ICML 2024), and the figure."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import wilcoxon

from ...harness import figures
from ...harness.tables import Table
from .methods import GATED, METHODS, PRIVATE, REFUSED, WARNED

_STYLES = {  # colour, marker
    "SparseRegression": (figures.GREEN, "o"),
    "LdpIht": (figures.RED, "s"),
    "two-round": (figures.BLUE, "P"),
    "multi-round": (figures.PINK, "X"),
    "LDPPROX": (figures.YELLOW, "D"),
    "local Lasso": (figures.PURPLE, "^"),
}
_MEAN, _REFUSED = "predict the mean", "refused or gated in most runs: the mean predictor"
_MOST = 10.0  # ratio, from which on marks are cut off
_LEVEL = 0.05  # of the tests


@dataclass(frozen=True)
class Cell:
    """What is shown of a method at a setting.

    Attributes
    ----------
    ratio : float
        Median over splits of the test error over that of the Lasso on all rows.
    runs, refused, gated, warned : int
        Number of runs, and of those with such an outcome.
    best, significant : bool
        Whether no private method has a lower ratio, nor the mean predictor, and whether it
        is significantly lower than that of every other one.
    """

    ratio: float
    runs: int
    refused: int
    gated: int
    warned: int
    best: bool = False
    significant: bool = False

    def __str__(self) -> str:
        ratio = f"{self.ratio:.2f}" if self.ratio < 100 else f"{self.ratio:.1g}"
        text = f"**{ratio}**" if self.best else ratio
        counts = {"r": self.refused, "m": self.gated, "w": self.warned}
        marks = " ".join(f"{count}{letter}" for letter, count in counts.items() if count)
        return text + ("*" if self.significant else "") + (f" ({marks})" if marks else "")


def cells(runs: pd.DataFrame) -> dict[tuple[str, float], dict[str, Cell]]:
    """Return the cells of every data set and epsilon, by method."""
    runs = runs.assign(ratio=runs["mse"] / runs["lasso_mse"], outcome=runs["outcome"].fillna(""))
    found = {}
    for (data, epsilon), some in runs.groupby(["data", "epsilon"], sort=False):
        ratios = some.pivot(index="seed", columns="method", values="ratio")
        outcomes = some.groupby("method")["outcome"].value_counts().unstack(fill_value=0)
        private = [name for name in PRIVATE if name in ratios]
        useful = [name for name in private if ratios[name].median() < _mean_ratio(some)]
        best = min(useful, key=lambda name: ratios[name].median(), default=None)
        found[data, epsilon] = {
            name: Cell(
                float(ratios[name].median()),
                int(ratios[name].count()),
                *(int(outcomes.loc[name].get(kind, 0)) for kind in (REFUSED, GATED, WARNED)),
                best=name == best,
                significant=name == best and _beats_all(ratios[private], name),
            )
            for name in METHODS
            if name in ratios
        }
    return found


def _beats_all(ratios: pd.DataFrame, best: str) -> bool:
    """Whether the best method has lower ratios than every other, by Wilcoxon's signed ranks."""
    others = [name for name in ratios if name != best]
    return bool(others) and all(_p_value(ratios[best], ratios[name]) < _LEVEL for name in others)


def _p_value(ratios: pd.Series, others: pd.Series) -> float:
    differences = (ratios - others).dropna()
    if not differences.any():
        return 1.0
    return float(wilcoxon(differences, alternative="less").pvalue)


def table(runs: pd.DataFrame) -> Table:
    """Return the ratios of all methods, a line for each data set and epsilon."""
    methods = [name for name in METHODS if (runs["method"] == name).any()]
    found = []
    for (data, epsilon), by_method in sorted(cells(runs).items(), key=lambda item: item[0][1]):
        some = runs[(runs["data"] == data) & (runs["epsilon"] == epsilon)]
        shown = [str(by_method[name]) if name in by_method else "" for name in methods]
        users = f"{some['users'].iloc[0]:,}"
        found.append([f"{epsilon:g}", data, users, f"{_mean_ratio(some):.2f}", *shown])
    return Table(
        "Test error over that of a Lasso on all rows",
        ["epsilon", "data", "users", "mean", *methods],
        found,
        names=["data"],
        explanation=explanation(runs),
    )


def _mean_ratio(some: pd.DataFrame) -> float:
    """Return the median ratio of the mean predictor, from R2 as it is on held-out rows."""
    variance = some["mse"] / (1 - some["r2"])
    return float((variance / some["lasso_mse"]).median())


def explanation(runs: pd.DataFrame) -> str:
    """Return what the table's numbers are."""
    splits = cells(runs)
    counts = sorted({cell.runs for row in splits.values() for cell in row.values()})
    return (
        f"Test error over that of a Lasso on all rows, median over {_range(counts)} splits by "
        "user; 'mean' is that of predicting the held-out rows' mean. Bold: lowest of the private "
        "methods, if below that; * significantly lower than all other private ones (Wilcoxon's "
        "signed ranks, 5 %). In brackets the runs that refused to start (r: they count as the mean "
        "predictor), returned the mean predictor by their gate (m), or a model with a warning (w). "
        "local Lasso: every user trains alone."
    )


def _range(counts: list[int]) -> str:
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def draw(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw a panel for each epsilon: every method's ratio on every data set."""
    found = cells(runs)
    epsilons = sorted({epsilon for _, epsilon in found})
    names = list(dict.fromkeys(runs["data"]))
    width = max(4.4, 8 / len(epsilons))
    figure, every = figures.panels(len(epsilons), len(epsilons), (width, 3.75), sharey=True)
    for axes, epsilon in zip(every, epsilons, strict=True):
        _panel(axes, epsilon, {name: found.get((name, epsilon), {}) for name in names}, runs)
    every[0].set_ylabel("test error / that of a Lasso on all rows")
    return {"grouped-data.png": figures.legend_below(figure, [*_STYLES, _MEAN, _REFUSED])}


def _panel(
    axes: Axes, epsilon: float, by_data: dict[str, dict[str, Cell]], runs: pd.DataFrame
) -> None:
    for place, (data, by_method) in enumerate(by_data.items()):
        some = runs[(runs["data"] == data) & (runs["epsilon"] == epsilon)]
        if some.empty:
            continue
        mean = _mean_ratio(some)
        axes.plot(
            [place - 0.42, place + 0.42], [mean, mean], color=figures.INK, lw=1, ls=":", label=_MEAN
        )
        for shift, name in zip(np.linspace(-0.35, 0.35, len(_STYLES)), _STYLES, strict=True):
            if name in by_method:
                _mark(axes, place + shift, name, by_method[name])
    axes.axhline(1, color=figures.GREY, lw=1)
    axes.set_yscale("log")
    axes.set_ylim(0.8, _MOST * 1.15)
    ticks = [1, 1.5, 2, 3, 5, _MOST]
    axes.set_yticks(ticks, [*(f"{tick:g}" for tick in ticks[:-1]), f"≥ {_MOST:g}"])
    axes.minorticks_off()
    axes.set_xticks(range(len(by_data)), list(by_data), rotation=30, ha="right")
    figures.finish(axes, f"epsilon = {epsilon:g}")


def _mark(axes: Axes, x: float, name: str, cell: Cell) -> None:
    colour, marker = _STYLES[name]
    y = min(cell.ratio, _MOST)
    axes.plot([x], [y], marker, color=colour, ms=6, ls="", label=name)
    if cell.refused + cell.gated > cell.runs / 2:
        axes.plot([x], [y], marker, color="white", mec=colour, ms=6, ls="", label=_REFUSED)
