"""Charts with a common style, for results, comparisons and studies.

Matplotlib is imported only when something is drawn, so a client process never needs it.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .page import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import ArrayLike

INK, GREY = "#22313f", "#8a8f98"
# Each colour has a contrast of at least 3 to white and to black, and people who do not see red,
# green or blue tell any two of them apart. Pages use other ones in dark mode, by these names.
COLOURS = {
    "green": "#2b665c",
    "red": "#934223",
    "blue": "#438eff",
    "purple": "#72459e",
    "yellow": "#b08900",
    "pink": "#ee61a3",
}
GREEN, RED, BLUE, PURPLE, YELLOW, PINK = COLOURS.values()
#: Settings of matplotlib for the common style.
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
    "svg.fonttype": "none",  # use the reader's fonts, which cover more scripts than one font file
    "svg.hashsalt": "ldp-flower",  # makes the text of equal figures equal
}
_WIDTH = 6.4  # inches
_LONGEST_LABEL = 40  # characters
_MOST_NUMBERED = 12  # rows of a heat map that shows its numbers


@contextmanager
def style() -> Iterator[None]:
    """Use the common style inside this context only."""
    import matplotlib

    # rc_context would also restore what a notebook's backend sets when it is first used, and the
    # notebook would show no later figure.
    settings: Any = matplotlib.rcParams
    before = {name: settings[name] for name in STYLE}
    settings.update(STYLE)
    try:
        yield
    finally:
        settings.update(before)


def detached_axes(height: float) -> "Axes":
    """Return empty axes, ``height`` inches high, of a figure that windows and notebooks ignore."""
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height), layout="constrained").subplots()


def new_axes(height: float) -> "Axes":
    """Return empty axes. No window opens, and a notebook shows the figure below the cell."""
    import matplotlib

    if "inline" not in matplotlib.get_backend():
        return detached_axes(height)
    from matplotlib import pyplot

    return pyplot.figure(figsize=(_WIDTH, height), layout="constrained").subplots()


def drawn(draw: Callable[["Axes"], None], height: float, axes: "Axes | None" = None) -> "Axes":
    """Return axes on which ``draw`` has drawn: ``axes``, or new ones, ``height`` inches high."""
    with style():
        axes = new_axes(height) if axes is None else axes
        draw(axes)
    return axes


def picture(draw: Callable[["Axes"], None], height: float, title: str) -> Markup:
    """Return what ``draw`` draws as an element of a page, ``height`` inches high."""
    with style():
        axes = detached_axes(height)
        draw(axes)
    return svg(axes, title)


def height_of(rows: int) -> float:
    """Return the height in inches of a chart with a named row for each of ``rows`` estimates."""
    return 0.9 + 0.28 * max(rows, 2)


def label(text: object, longest: int = _LONGEST_LABEL) -> str:
    """Return a text as a label for a chart: shortened if it is too long, and with $ escaped."""
    label = " ".join(str(text).split())
    label = label if len(label) <= longest else f"{label[: longest - 1]}…"
    return label.replace("$", r"\$")


def finish(axes: "Axes", title: str) -> None:
    """Set the title of a panel, and remove its frame above and on the right."""
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)


def intervals(
    axes: "Axes",
    names: Sequence[object],
    values: "ArrayLike",
    errors: "ArrayLike",
) -> None:
    """Draw a point with a 95 % interval for each name, with the first name on top."""
    import numpy as np

    places = np.arange(len(names))
    spans = 1.96 * np.nan_to_num(np.asarray(errors, np.float64))
    axes.axvline(0, color=GREY, lw=0.8)
    axes.errorbar(values, places, xerr=spans, fmt="o", ms=4, lw=1.5, color=GREEN)
    axes.set_yticks(places, [label(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)


def heat_map(
    axes: "Axes", names: Sequence[object], table: "ArrayLike", decimals: int, **colours: Any
) -> "AxesImage":
    """Draw a table with a row and a column for each name in colours, and return the image.

    The numbers of a small table are shown, too; NaN is shown as a dash.
    """
    import numpy as np

    image = axes.imshow(table, aspect="auto", **colours)
    labels = [label(name) for name in names]
    axes.set_xticks(range(len(labels)), labels, rotation=45, ha="right")
    axes.set_yticks(range(len(labels)), labels)
    if len(labels) <= _MOST_NUMBERED:
        most = np.nanmax(np.abs(table))
        for (row, column), value in np.ndenumerate(np.asarray(table)):
            text = "–" if np.isnan(value) else f"{value:z.{decimals}f}"
            # Not INK, which pages in dark mode make light.
            colour = "white" if abs(value) > 0.6 * most else "black"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    return image


def figure_of(axes: "Axes") -> "Figure":
    """Return the figure that contains the axes; raise ValueError if they are on none."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("Expected axes that are on a figure, got others.")
    return figure


def svg(axes: "Axes", description: str) -> Markup:
    """Return the figure of axes as an SVG element, with ink in the colour of the page's text."""
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
