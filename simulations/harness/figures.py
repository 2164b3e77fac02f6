"""Figures of several panels with one legend."""

from collections.abc import Iterable
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

_COLUMN = 2.5  # inches that a column of the legend takes, more or less


def save_with_legend(figure: Figure, order: Iterable[str], path: Path) -> None:
    """Put one legend of all panels below them, save the figure and close it.

    The picture is as large as its panels and the legend need.

    Parameters
    ----------
    figure : Figure
        With its panels.
    order : iterable of str
        Labels in the legend's order; those without a curve are left out.
    path : Path
        Where the picture goes.
    """
    found = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    entries = {label: found[label] for label in order if label in found}
    figure.tight_layout()
    columns = min(max(int(figure.get_figwidth() / _COLUMN), 2), 4)
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        ncols=columns,
        frameon=False,
    )
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
