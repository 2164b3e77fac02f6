"""Charts: one look for all figures, of results, comparisons and studies.

Matplotlib is imported when something is drawn: a client process never needs it.
"""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .page import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

INK, GREY = "#22313f", "#8a8f98"
# Each has a contrast of 3 at least to white and to black; pages lighten them when they are dark.
# The names are those that pages know them by.
COLOURS = {
    "green": "#0b7a75",
    "red": "#b0532c",
    "blue": "#4c78a8",
    "purple": "#7b5ea7",
    "yellow": "#c9a227",
    "pink": "#d1779b",
}
GREEN, RED, BLUE, PURPLE, YELLOW, PINK = COLOURS.values()
#: Settings of matplotlib that make the look.
STYLE: dict[str, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",  # the reader's fonts, which know more scripts than one file does
    "svg.hashsalt": "ldp-flower",  # the same figure is the same text
}
_WIDTH = 6.4  # inches
_LONGEST_LABEL = 40  # characters


@contextmanager
def style() -> Iterator[None]:
    """Draw in the one look inside this context; what is drawn elsewhere stays as it is."""
    from matplotlib import rc_context

    with rc_context(STYLE):  # type: ignore[arg-type]
        yield


def standing_alone(height: float) -> "Axes":
    """Return empty axes, inches high, of a figure that no window and no notebook knows of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height), layout="constrained").subplots()


def new_axes(height: float) -> "Axes":
    """Return empty axes; no window opens, and a notebook shows them below the cell."""
    import matplotlib

    if "inline" not in matplotlib.get_backend():
        return standing_alone(height)
    from matplotlib import pyplot

    return pyplot.figure(figsize=(_WIDTH, height), layout="constrained").subplots()


def height_of(rows: int) -> float:
    """Return the inches that a chart with so many named rows takes."""
    return 0.9 + 0.28 * max(rows, 2)


def label(text: object) -> str:
    """Return text for a chart: as it is, whatever is in it, and not too long."""
    label = " ".join(str(text).split())
    label = label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"
    return label.replace("$", r"\$")


def finish(axes: "Axes", title: str) -> None:
    """Give a panel its title, and no frame above and to the right."""
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)


def intervals(
    axes: "Axes",
    names: Sequence[object],
    values: "ArrayLike",
    errors: "ArrayLike",
) -> None:
    """Draw a point with a 95 % interval for each name, the first one on top."""
    import numpy as np

    places = np.arange(len(names))
    spans = 1.96 * np.nan_to_num(np.asarray(errors, np.float64))
    axes.axvline(0, color=GREY, lw=0.8)
    axes.errorbar(values, places, xerr=spans, fmt="o", ms=4, lw=1.5, color=GREEN)
    axes.set_yticks(places, [label(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)


def figure_of(axes: "Axes") -> "Figure":
    """Return the figure that axes are on."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("Expected axes that are on a figure, got others.")
    return figure


def svg(axes: "Axes", description: str) -> Markup:
    """Return the figure of axes as an SVG element, in the colour of the text around it."""
    from html import escape

    drawn = io.StringIO()
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # the reader's fonts have it
        figure_of(axes).savefig(
            drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = drawn.getvalue()
    text = text[text.index("<svg") :].strip().replace(INK, "currentColor")
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name}, {colour})")
    opened = f'<svg role="img" aria-label="{escape(description)}" '
    return Markup(re.sub("^<svg ", lambda _: opened, text))
