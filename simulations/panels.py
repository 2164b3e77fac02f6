"""Figures of several panels with one legend."""

from collections.abc import Iterable
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure


def save_with_legend(figure: Figure, order: Iterable[str], inches: float, path: Path) -> None:
    """Put one legend of all panels below them, save the figure and close it.

    Parameters
    ----------
    figure : Figure
        With its panels.
    order : iterable of str
        Labels in the legend's order; those without a curve are left out.
    inches : float
        Height that the legend takes.
    path : Path
        Where the picture goes.
    """
    found = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    entries = {label: found[label] for label in order if label in found}
    figure.tight_layout(rect=(0, inches / figure.get_figheight(), 1, 1))
    figure.legend(entries.values(), entries.keys(), loc="lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
