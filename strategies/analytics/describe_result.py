"""DescribeResult: statistics of a table's columns of numbers and shares of its categories."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.presentation import charts
from ldp_flower.presentation.words import number, with_error
from ldp_flower.validation import Floats

from ..runtime import Result
from .column import NumericColumn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

#: Names of the statistics of a column of numbers, as in pandas.
STATISTICS = ("count", "mean", "std", "25%", "50%", "75%")
_OF_CATEGORIES = ("unique", "top", "share of top")
_GAP = "\N{NO-BREAK SPACE}"
# The top category is not shown if the standard error of its share is at least this, which is that
# of a random guess between 0 and 1.
_GUESSED = 0.29
# Smallest share of a bar that has room for a name, and characters of a name in a whole bar.
_NAMED, _CHARACTERS = 0.08, 50
_SHADES = (charts.BLUE, charts.GREEN, charts.YELLOW, charts.RED, charts.PURPLE, charts.PINK)


@dataclass(repr=False, kw_only=True)
class DescribeResult(Result):
    """Statistics of a table's columns of numbers, and shares of its columns of categories.

    Attributes
    ----------
    numbers : list of str
        Names of the columns of numbers.
    values, std_error : ndarray of float64, shape (6, columns of numbers)
        Number of users with an entry, mean, standard deviation and quartiles, in the columns'
        units; and their standard errors, for the population that the users are drawn from. A
        standard deviation is NaN if the noise is too large to estimate it.
    categorical : list of str
        Names of the columns of categories.
    categories : list of list of str
        The categories of each of these columns.
    shares, share_errors : list of ndarray of float64, shape (categories,)
        Unbiased shares among the users with an entry, and their standard errors.
    counts : ndarray of float64, shape (columns of categories,)
        Estimated number of users with an entry.
    """

    numbers: list[str]
    values: Floats
    std_error: Floats
    categorical: list[str]
    categories: list[list[str]]
    shares: list[Floats]
    share_errors: list[Floats]
    counts: Floats

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.values, *self.shares])

    def table(self) -> "DataFrame":
        """Return the table that pandas' ``describe`` would return, for all columns.

        Returns
        -------
        DataFrame
            ``statistic``, then one column for each described column. Statistics of all columns:
            ``count``, the number of users with an entry. Of numbers, in their units: ``mean``,
            ``std``, ``25%``, ``50%`` and ``75%``. Of categories: ``unique``, ``top`` and ``share
            of top`` among the users with an entry.
        """
        from pandas import DataFrame, Series

        found = {name: Series(self.values[:, i], STATISTICS) for i, name in enumerate(self.numbers)}
        for i, name in enumerate(self.categorical):
            top = int(np.argmax(self.shares[i]))
            shown: list[object] = [self.counts[i], len(self.shares[i]), np.nan, np.nan]
            if self.share_errors[i][top] < _GUESSED:
                shown[2:] = [self.categories[i][top], self.shares[i][top]]
            found[name] = Series(shown, ["count", *_OF_CATEGORIES], dtype=object)
        rows = [*STATISTICS, *(_OF_CATEGORIES if self.categorical else ())]
        table = DataFrame(found).reindex(rows)
        table.insert(0, "statistic", rows, allow_duplicates=True)
        return table.reset_index(drop=True)

    def errors(self) -> "DataFrame":
        """Return the standard errors for columns of numbers, in the layout of :meth:`table`."""
        from pandas import DataFrame

        errors = DataFrame(self.std_error, columns=self.numbers)
        errors.insert(0, "statistic", STATISTICS, allow_duplicates=True)
        return errors

    @property
    def _height(self) -> float:
        return charts.height_of(len(self.numbers) + len(self.categorical)) + 0.4

    def _draw(self, axes: "Axes") -> None:
        """Draw a line for each column: of the quartiles within the bounds, or of the shares."""
        assert self.schema is not None
        names = [*self.numbers, *self.categorical]
        for place, name in enumerate(self.numbers):
            kind = NumericColumn.of(self.schema, name).kind
            inside = (self.values[1:, place] - kind.low) / (kind.high - kind.low)
            axes.plot([0, 1], [place, place], color=charts.GREY, lw=0.8, zorder=1)
            axes.barh(place, inside[4] - inside[2], left=inside[2], height=0.5, color=charts.BLUE)
            axes.plot([inside[3]] * 2, [place - 0.25, place + 0.25], color="white", lw=2)
            axes.plot(inside[0], place, "o", ms=4, color=charts.RED)
            for at, end, side in ((0, kind.low, "left"), (1, kind.high, "right")):
                axes.text(at, place + 0.42, number(end), ha=side, va="center", fontsize="x-small")
        for place, shares in enumerate(self.shares, len(self.numbers)):
            left = 0.0
            named = self.categories[place - len(self.numbers)]
            for i, share in enumerate(np.maximum(shares, 0) / np.maximum(shares, 0).sum()):
                colour = _SHADES[i % len(_SHADES)]
                axes.barh(place, share, left=left, height=0.5, color=colour, alpha=0.8)
                if share >= _NAMED:
                    text = charts.label(named[i], int(_CHARACTERS * share))
                    where = (left + share / 2, place)
                    axes.text(*where, text, ha="center", va="center", fontsize="x-small")
                left += share
        axes.set_yticks(range(len(names)), list(map(charts.label, names)))
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.set_xlabel("numbers: quartiles (bar), mean (dot), bounds\ncategories: shares")

    def _tables(self) -> "list[DataFrame]":
        """Return a table of numbers and one of categories, with a row for each column."""
        from pandas import DataFrame

        texts = self._shown(self.table()).to_numpy(dtype=object)  # any name may occur twice
        cells, found = dict(zip(texts[:, 0], texts[:, 1:], strict=True)), []
        first = slice(None, len(self.numbers))
        rest = slice(len(self.numbers), None)
        for own, names, of in (
            (first, self.numbers, STATISTICS),
            (rest, self.categorical, ("count", *_OF_CATEGORIES)),
        ):
            if names:
                found.append(
                    DataFrame({"column": names, **{name: cells[name][own] for name in of}})
                )
        return found

    def _shown(self, table: "DataFrame") -> "DataFrame":
        """Return the table with its numbers as text, with standard errors."""
        errors = np.full(table.shape, np.nan)  # indexed by position, since any name may occur
        errors[: len(STATISTICS), 1 : 1 + len(self.numbers)] = self.std_error
        for i, shares in enumerate(self.shares, 1 + len(self.numbers)):
            errors[-1, i] = self.share_errors[i - 1 - len(self.numbers)][np.argmax(shares)]
        for i in range(1, table.shape[1]):
            table.isetitem(i, list(map(_cell, table.iloc[:, i], errors[:, i])))
        return table

    def _headline(self) -> list[str]:
        return []

    def _findings(self) -> list[str]:
        text: str = self._shown(self.table()).to_string(index=False)
        return text.splitlines()


def _cell(shown: object, error: float) -> str:
    """Return the text of a table's cell: a statistic and, unless it is NaN, its standard error."""
    return with_error(shown, error, gap=_GAP) if isinstance(shown, float) else str(shown)
