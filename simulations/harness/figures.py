"""Figures: one look, panels with one legend, and pictures that say what they were drawn from."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from ldp_flower.presentation.charts import (
    BLUE,
    GREEN,
    GREY,
    INK,
    PINK,
    PURPLE,
    RED,
    STYLE,
    YELLOW,
    finish,
)

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "INK",
    "PINK",
    "PURPLE",
    "RED",
    "YELLOW",
    "digest",
    "finish",
    "legend_below",
    "panels",
    "save",
    "source_of",
]
_COLUMN = 2.5  # inches that a column of the legend takes, more or less
_SOURCE = "Source"

plt.rcParams.update(STYLE)


def panels(
    count: int, columns: int, size: tuple[float, float], **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, ``size`` inches each, at most so many beside each other."""
    columns = min(columns, count)
    rows = -(-count // columns)
    shape = size[0] * columns, size[1] * rows
    figure, axes = plt.subplots(rows, columns, figsize=shape, squeeze=False, **options)
    for unused in axes.flat[count:]:
        unused.set_visible(False)
    return figure, list(axes.flat[:count])


def legend_below(figure: Figure, order: Iterable[str]) -> Figure:
    """Put one legend of all panels below them, and return the figure.

    Parameters
    ----------
    figure : Figure
        With its panels.
    order : iterable of str
        Labels in the legend's order; those without a curve are left out.
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
    return figure


def save(figure: Figure, path: Path, source: Path | None = None) -> None:
    """Save a figure, as large as its panels and its legend need, and close it.

    The picture carries the digest of the file that it was drawn from, if there is one: a
    test finds pictures that are older than their tables.
    """
    metadata = {} if source is None else {_SOURCE: digest(source)}
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata=metadata)
    plt.close(figure)
    print(f"Wrote {path}")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def source_of(picture: Path) -> str | None:
    """Return the digest of the file that a picture was drawn from, None if it has none."""
    from PIL import Image

    with Image.open(picture) as image:
        return image.info.get(_SOURCE)
