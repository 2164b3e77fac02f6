"""Report of a comparison: its table, figure and page."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from ..presentation import charts
from ..presentation.page import Section, fragment, listed, page, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEAD = ("method", "epsilon", "true epsilon", "trusted", "protects")
_NAMED = 2  # number of first columns that identify a row
_STYLES = {  # colour, marker
    "LdpFedAvg": (charts.GREEN, "o"),
    "LocalDpMod, calibrated": (charts.RED, "s"),
    "LocalDpMod, nominal": ("#e08e5b", "x"),
    "DP-SGD": (charts.PURPLE, "^"),
    "DP-FedAvg": (charts.BLUE, "D"),
    "FedAvg": (charts.INK, "--"),
    "untrained": (charts.GREY, ":"),
}
_HEIGHT = 4.2  # inches of the figure


@dataclass(frozen=True)
class Line:
    """Line of a comparison's table: results of a method at an epsilon, over all seeds."""

    method: str
    epsilon: float  # the requested epsilon; infinite for methods without an epsilon
    true_epsilon: float  # the actual cost, at the delta below
    delta: float
    trusted: str  # the party that must be honest
    unit: str  # the protected unit
    rounds: int  # maximum over seeds, as for bytes_per_node and failures
    bytes_per_node: int
    failures: int
    seconds: float  # median over seeds
    scores: tuple[float, ...]  # the metric at each seed; NaN if the method refused
    notes: str  # notes of the first seed that has notes

    @property
    def mean(self) -> float:
        """Mean of the metric over seeds."""
        return float(np.mean(self.scores))

    @property
    def std_error(self) -> float:
        """Standard error of the mean over seeds; NaN with one seed."""
        if len(self.scores) < 2:
            return math.nan
        return float(np.std(self.scores, ddof=1) / math.sqrt(len(self.scores)))

    @property
    def row(self) -> tuple[str, ...]:
        """Texts of the line's cells in the table."""
        asked = f"{self.epsilon:g}" if math.isfinite(self.epsilon) else ""
        true, protects = "none", "nothing"
        if self.unit != "nothing":
            true = f"{self.true_epsilon:.3g}" + (f", delta {self.delta:g}" if self.delta else "")
            protects = "node" if self.unit == "user" else self.unit
            protects += ", (eps, delta)" if self.delta else ", pure"
        trusted = "" if self.method == "untrained" else self.trusted
        error = "" if math.isnan(self.std_error) else f" ({self.std_error:.3f})"
        score = "refused" if math.isnan(self.mean) else f"{self.mean:.3f}{error}"
        return (
            *(self.method, asked, true, trusted, protects, score),
            *(str(self.rounds), f"{self.bytes_per_node:,}", f"{self.seconds:.1f}"),
        )


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison, with its table, figure and page.

    Attributes
    ----------
    name : str
        Name of the app.
    num_nodes : int
        Number of nodes.
    cells : list of dict of str to str
        One row for each method, epsilon and seed, as in the comparison's file.
    """

    name: str
    num_nodes: int
    cells: list[dict[str, str]]

    @property
    def _title(self) -> str:
        return f"{self.name}, {self.num_nodes:,} nodes"

    @property
    def metric(self) -> str:
        """Name of the metric that the comparison shows."""
        return next((cell["metric"] for cell in self.cells if cell["metric"]), "score")

    @property
    def lines(self) -> list[Line]:
        """Results over all seeds for each method at each epsilon, in the order of the cells."""
        groups: dict[tuple[str, str], list[dict[str, str]]] = {}
        for cell in self.cells:
            groups.setdefault((cell["method"], cell["epsilon"]), []).append(cell)
        return [
            Line(
                method,
                float(epsilon),
                max(float(cell["true_epsilon"]) for cell in cells),
                float(cells[0]["delta"]),
                cells[0]["trusted"],
                cells[0]["unit"],
                max(int(cell["rounds"]) for cell in cells),
                max(int(cell["bytes_per_node"]) for cell in cells),
                max(int(cell["failures"]) for cell in cells),
                float(np.median([float(cell["seconds"]) for cell in cells])),
                tuple(float(cell["score"]) for cell in cells),
                next((cell["notes"] for cell in cells if cell["notes"]), ""),
            )
            for (method, epsilon), cells in groups.items()
        ]

    @property
    def head(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        return (*_HEAD, self.metric, "rounds", "bytes a node", "seconds")

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the table's rows."""
        for line in self.lines:
            yield line.row
            if line.method == "DP-FedAvg":
                # Sum, noise and model are the same. Only the updates that the server sees differ.
                yield ("DP-FedAvg, clients clip", *line.row[1:])

    @property
    def notes(self) -> list[str]:
        """Notes for readers, such as on failed trainings; each names its method."""
        found = []
        for line in self.lines:
            what = line.method + (f" at {line.epsilon:g}" if math.isfinite(line.epsilon) else "")
            if line.failures:
                what += f": {line.failures} trainings of a run failed and counted as 0"
            if line.failures or line.notes:
                found.append(f"{what}: {line.notes}")
        return found

    @property
    def explanation(self) -> str:
        """Text that explains the numbers of the table."""
        seeds = max(len(line.scores) for line in self.lines)
        return (
            f"{self._title}; {self.metric}: mean (standard error) over "
            f"{seeds} seed{'s' * (seeds > 1)}. The true epsilon is for the whole run, by one "
            "definition for all: neighbours differ in one unit's data, replaced; no "
            "amplification by sampling. Clipping by server or clients gives the same model: "
            "they differ in whether the server sees updates before they are clipped."
        )

    def markdown(self) -> str:
        """Return the table as Markdown, with its explanation and notes."""
        rule = ["---"] * len(_HEAD) + ["--:"] * (len(self.head) - len(_HEAD))
        rows = [self.head, rule, *self.rows()]
        table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        return "\n".join([table, self.explanation, *(f"\n* {note}" for note in self.notes)]) + "\n"

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the table for a terminal, in several parts if it is too wide."""
        columns = list(zip(self.head, *self.rows(), strict=True))
        # A column is as wide as its longest word: lines break between words, and no word is cut.
        widths = [max(map(len, " ".join(column).split())) for column in columns]
        parts = [[0]]
        for number in range(1, len(columns)):
            if sum(widths[i] + 1 for i in [*parts[-1], number]) > options.max_width + 1:
                parts.append([*range(_NAMED)])  # repeat the columns that identify a row
            parts[-1].append(number)
        for part in parts:
            table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
            for i in part:
                justify: JustifyMethod = "left" if i < len(_HEAD) else "right"
                table.add_column(columns[i][0], justify=justify, width=widths[i])
            for cells in zip(*(columns[i][1:] for i in part), strict=True):
                table.add_row(*cells)
            yield table
            yield ""
        said = "\n".join([self.explanation, *self.notes])
        yield Text(said, "table.caption", no_wrap=False, overflow="fold")

    def figure(self) -> "Figure":
        """Draw the metric against the true epsilon, with standard errors."""
        return charts.figure_of(charts.drawn(self._draw, _HEIGHT))

    def _draw(self, axes: "Axes") -> None:
        for method, (colour, style) in _STYLES.items():
            lines = [line for line in self.lines if line.method == method]
            lines = [line for line in lines if not math.isnan(line.mean)]
            if not lines:
                continue
            if not math.isfinite(lines[0].epsilon):
                axes.axhline(lines[0].mean, color=colour, ls=style, lw=1, label=method)
                continue
            axes.errorbar(
                [line.true_epsilon for line in lines],
                [line.mean for line in lines],
                [0 if math.isnan(line.std_error) else line.std_error for line in lines],
                color=colour,
                marker=style,
                lw=1.2,
                capsize=2,
                label=method,
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("true epsilon")
        axes.set_ylabel(self.metric)
        axes.set_title(self._title)
        if axes.get_legend_handles_labels()[1]:  # empty if all methods refused
            axes.legend()

    @property
    def _sections(self) -> list[Section]:
        from pandas import DataFrame

        figure = charts.picture(self._draw, _HEIGHT, f"{self.metric} by true epsilon")
        table = table_of(DataFrame(self.rows(), columns=self.head), most_rows=len(self.cells) + 2)
        return [
            Section("", [figure, table, self.explanation]),
            Section("Notes", [listed(self.notes)]),
        ]

    def to_html(self, path: str | Path | None = None) -> str:
        """Return an HTML page with table, figure and notes, and write it if a path is given.

        The page needs no other file.
        """
        return page(self._title, self._sections, path)

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        return fragment(self._title, self._sections)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``table.md``, ``compare.png`` and ``compare.html``, and return their paths."""
        names = ("table.md", "compare.png", "compare.html")
        table, picture, shown = (Path(folder) / name for name in names)
        table.write_text(self.markdown(), "utf-8")
        self.figure().savefig(picture, dpi=110)
        self.to_html(shown)
        return [table, picture, shown]
