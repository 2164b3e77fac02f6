"""SynthesizeResult: a distribution of rows, from which tables are drawn."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.random import default_rng
from numpy.typing import NDArray

from ldp_flower.data.schema import Categories, Numeric
from ldp_flower.presentation import charts
from ldp_flower.presentation.words import to_error
from ldp_flower.validation import Floats, check_integer, plain_arguments

from ..numerics.normal_scale import quantiles
from ..numerics.product_mixture import Codes, ProductMixture
from ..numerics.within_cells import positions
from ..runtime import Result
from ..runtime.result import first_of, frame
from .cells import names_of_ranges

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_MOST_NAMED = 12  # columns of which a text shows the numbers
_LEVELS = 1000  # number of levels at which the quantiles of a column are averaged


@dataclass(repr=False, kw_only=True)
class SynthesizeResult(Result):
    """A distribution of rows, and the distance of its tables from the users' tables.

    Rows that are drawn from it belong to no user. They are as private as the reports that the
    distribution was fitted to, at ``privacy.epsilon``, however many are drawn. They are not
    anonymous data: the rows may reveal what the reports reveal about a user.

    Attributes
    ----------
    columns : list of str
        Names of the columns.
    mixture : ProductMixture
        The distribution of the columns' cells: categories, and ranges of numbers.
    scales : list of ndarray of float64, shape (2, knots)
        For each column of numbers increasing values, and estimated shares of the entries below
        them; its cells have about equal shares. Empty for a column of categories.
    measured, std_error : list of ndarray of float64, shape (cells,)
        For each column the share of each cell as measured, unbiased, and its standard error by
        noise.
    one_way, two_way : float
        Estimated total variation between the tables of the distribution and the users' tables:
        mean over columns, and mean over pairs of columns. The total variation of two tables is the
        largest difference in the share of any set of cells.
    one_way_interval, two_way_interval : ndarray of float64, shape (2,)
        95 % intervals of ``one_way`` and ``two_way``.
    pairs : ndarray of float64, shape (columns, columns)
        Estimated total variation for each pair, and on the diagonal for each column.
    """

    columns: list[str]
    mixture: ProductMixture
    scales: list[Floats]
    measured: list[Floats]
    std_error: list[Floats]
    one_way: float
    one_way_interval: Floats
    two_way: float
    two_way_interval: Floats
    pairs: Floats

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.mixture.weights, *self.mixture.cells])

    @plain_arguments
    def rows(self, number: int, seed: int = 0) -> "DataFrame":
        """Draw a table.

        Drawing costs no privacy. Rows have no missing entries.

        Parameters
        ----------
        number : int
            Number of rows.
        seed : int (default: 0)
            Seed of the draw, which is not secret.

        Returns
        -------
        DataFrame
            Rows with the columns, in their units. Numbers are not rounded.
        """
        check_integer("number", number, 1)
        check_integer("seed", seed, 0)
        rng = default_rng(seed)
        codes = self.mixture.draw(number, rng)
        numbers = [i for i, scale in enumerate(self.scales) if scale.size]
        inside = np.zeros(codes.shape)
        if numbers:
            inside[:, numbers] = positions(codes[:, numbers], rng)
        return frame({name: self._entries(i, codes, inside) for i, name in enumerate(self.columns)})

    def _entries(self, place: int, codes: Codes, inside: Floats) -> NDArray[Any]:
        """Return the entries of the column ``place``, from its cells and positions within them.

        The positions ``inside`` are numbers from 0 to 1.
        """
        kind = self._kind(place)
        if isinstance(kind, Categories):
            declared: NDArray[Any] = np.array(kind.declared, dtype=object)
            return declared[codes[:, place]]
        levels = (codes[:, place] + inside[:, place]) / len(self.measured[place])
        return quantiles(self.scales[place], levels)

    def _kind(self, place: int) -> Numeric | Categories:
        assert self.schema is not None
        return self.schema.kind(self.columns[place])

    def _cells(self, place: int) -> list[str]:
        """Return the names of a column's cells."""
        kind = self._kind(place)
        if isinstance(kind, Categories):
            return list(map(str, kind.values))
        ends = quantiles(self.scales[place], np.linspace(0, 1, len(self.measured[place]) + 1))
        return names_of_ranges(ends)

    def table(self) -> "DataFrame":
        """Return the shares of the cells of all columns.

        Returns
        -------
        DataFrame
            The ``column``; the ``entries`` of a cell, a category or a range; the ``share`` as
            measured, and its ``standard error`` by noise; the ``synthetic`` share, which rows that
            are drawn have.
        """
        sizes = list(map(len, self.measured))
        places = range(len(sizes))
        return frame(
            {
                "column": np.repeat(np.array(self.columns, dtype=object), sizes),
                "entries": [name for place in places for name in self._cells(place)],
                "share": np.concatenate(self.measured),
                "standard error": np.concatenate(self.std_error),
                "synthetic": np.concatenate([self.mixture.one_way(place) for place in places]),
            }
        )

    @property
    def _height(self) -> float:
        return charts.height_of(len(self.columns)) + 2.0

    def _draw(self, axes: "Axes") -> None:
        """Draw the total variation of each pair of columns as a heat map."""
        image = charts.heat_map(axes, self.columns, self.pairs, 3, cmap="Oranges", vmin=0.0)
        axes.set_xlabel("pairs of columns; on the diagonal single columns")
        axes.figure.colorbar(image, ax=axes, label="total variation of rows and users")

    def _headline(self) -> list[str]:
        """Return all that limits the use of the rows."""
        return self._findings()

    def _findings(self) -> list[str]:
        def text(mean: float, ends: Floats) -> str:
            return f"{mean:.3f} ({ends[0]:.3f} to {ends[1]:.3f})"

        lines = [
            "Rows are drawn from a distribution whose tables differ from those of these users by "
            f"{text(self.two_way, self.two_way_interval)} for pairs of columns and by "
            f"{text(self.one_way, self.one_way_interval)} for single columns, in total variation.",
            "No row that is drawn misses an entry. Rows of users with a missing entry count in the "
            "pairs of their other columns only.",
        ]
        reaches = [f"{name} {to_error(reach, reach)}" for name, reach in self.mean_reach.items()]
        if not reaches:
            return lines
        return [
            *lines,
            "Numbers follow a noisy histogram. Their positions within its cells are guessed, and "
            "tails that noise hides are those of a normal distribution, up to the bounds. These "
            "guesses, without the noise, may change the mean of a column by up to: "
            f"{', '.join(first_of(reaches, _MOST_NAMED))}.",
        ]

    @property
    def mean_reach(self) -> dict[str, float]:
        """Largest error of the mean of rows, for each column of numbers, without the noise.

        The error is by the positions of users' numbers between two values of :attr:`scales`, which
        are not known. The result's text states it.
        """
        found = {}
        for name, scale in zip(self.columns, self.scales, strict=True):
            if scale.size:
                values, below = scale
                levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
                drawn = quantiles(scale, levels)
                place = np.searchsorted(below, levels, side="right") - 1
                up, down = values[place + 1] - drawn, drawn - values[place]
                found[name] = float(max(up.mean(), down.mean()))
        return found

    def _statement(self) -> list[str]:
        return [
            "Rows that are drawn belong to no user. They are as private as this guarantee says, "
            "however many are drawn, and not more: they are not anonymous data."
        ]
