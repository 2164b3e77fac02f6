"""Tables: on the screen, as Markdown and as CSV, of the same cells."""

import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import table as rich
from rich.console import Console

_WIDTH = 200  # characters at least, for wrapped cells cannot be read


@dataclass(frozen=True)
class Table:
    """Cells and what they mean.

    Attributes
    ----------
    title : str
        What it shows.
    head : sequence of str
        Names of the columns.
    lines : sequence of sequence of str
        The cells, a line at a time.
    names : collection of str (default: ())
        The columns that hold words, set to the left; others hold numbers.
    explanation : str (default: "")
        What the numbers are.
    apart : bool (default: False)
        Print a table for each value of the first column. Files hold one.
    """

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    names: Collection[str] = ()
    explanation: str = ""
    apart: bool = False

    def show(self) -> None:
        """Print it."""
        console = Console()
        console.width = max(console.width, _WIDTH)
        first = int(self.apart)
        for value in dict.fromkeys(line[0] for line in self.lines) if self.apart else [None]:
            printed = rich.Table(title=self.title if value is None else value)
            for name in self.head[first:]:
                printed.add_column(name, justify="left" if name in self.names else "right")
            for line in self.lines:
                if value in (None, line[0]):
                    printed.add_row(*(cell.replace("[", r"\[") for cell in line[first:]))
            console.print(printed)
        if self.explanation:
            console.print(self.explanation, markup=False, highlight=False)

    def markdown(self) -> str:
        """Return it as Markdown."""
        rule = ["---" if name in self.names else "--:" for name in self.head]
        text = "".join(f"| {' | '.join(row)} |\n" for row in (self.head, rule, *self.lines))
        return f"{text}\n{self.explanation}\n" if self.explanation else text

    def write(self, folder: Path) -> None:
        """Write ``table.md``, and its cells as ``table.csv``."""
        (folder / "table.md").write_text(self.markdown(), "utf-8")
        with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([self.head, *self.lines])
