"""What a series of collections has found: levels with bands, and who answered."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from ldp_flower.presentation import charts
from ldp_flower.validation import Floats

from ..runtime.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_NORMAL = 1.96  # standard errors that 95 % are within
_DRAWN = 6  # values that a chart has, those that moved most
_SHOWN = 12  # values in a result's text
_PANEL = 1.5  # inches that one value is high


@dataclass(repr=False, kw_only=True)
class SeriesResult(Result):
    """Levels of the same estimates at every collection so far.

    A level is about all users of a population like those in the census of its collection: each
    panel is a random part of them. ``num_users`` is the last census, ``num_reports`` and
    ``no_budget`` are of all collections, ``steps`` of the last one.

    Attributes
    ----------
    collections : int
        How many collections are planned.
    names : list of str
        What is estimated.
    raw, raw_std_error : ndarray of float64, shape (collections so far, names)
        Each collection's own estimates; NaN and infinite of one that was left out.
    filtered, filtered_std_error : ndarray of float64, shape (collections so far, names)
        The levels from the collections up to each, as they were known then.
    level, std_error : ndarray of float64, shape (collections so far, names)
        The levels from all collections so far. 95 % intervals are 1.96 standard errors to each
        side; drift and sudden steps are in them.
    users, asked, reports : ndarray of int64, shape (collections so far,)
        Users in the census, in the panel, and those of the panel who reported.
    """

    collections: int
    names: list[str]
    raw: Floats
    raw_std_error: Floats
    filtered: Floats
    filtered_std_error: Floats
    level: Floats
    std_error: Floats
    users: NDArray[np.int64]
    asked: NDArray[np.int64]
    reports: NDArray[np.int64]

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.level, self.std_error])

    def table(self) -> "DataFrame":
        """Return the levels, collection by collection.

        Returns
        -------
        DataFrame
            ``name``, ``collection``, the ``raw`` estimate with its error, the level as it was
            ``known then`` with its error, the ``level`` from all collections with its
            ``standard error`` and an interval of 95 %; ``users`` in the census whom all this is
            about, and ``reports`` of the panel.
        """
        from pandas import DataFrame

        so_far, width = self.level.shape
        level, error = self.level.ravel(), self.std_error.ravel()
        return DataFrame(
            {
                "name": self.names * so_far,
                "collection": np.repeat(np.arange(1, so_far + 1), width),
                "raw": self.raw.ravel(),
                "raw error": self.raw_std_error.ravel(),
                "known then": self.filtered.ravel(),
                "error then": self.filtered_std_error.ravel(),
                "level": level,
                "standard error": error,
                "95 % from": level - _NORMAL * error,
                "95 % to": level + _NORMAL * error,
                "users": np.repeat(self.users, width),
                "reports": np.repeat(self.reports, width),
            }
        )

    def _shown(self, table: "DataFrame") -> "DataFrame":
        """Return the last collection first."""
        return table.sort_values("collection", ascending=False, kind="stable")

    @property
    def _moved(self) -> NDArray[np.int64]:
        """Indices of the values that a chart has, in their order: those that moved most."""
        moved = np.nanmax(self.level, axis=0) - np.nanmin(self.level, axis=0)
        most = np.argsort(-np.nan_to_num(moved), kind="stable")[:_DRAWN]
        return np.sort(most)

    @property
    def _height(self) -> float:
        return _PANEL * (min(len(self.names), _DRAWN) + 1)

    def _draw(self, axes: "Axes") -> None:
        """Draw a panel for each value, and one of who answered, below each other."""
        axes.set_axis_off()
        drawn = self._moved
        rows = len(drawn) + 1
        places = np.arange(1, len(self.level) + 1)
        for row, value in enumerate(drawn):
            panel = axes.inset_axes((0.0, 1 - (row + 0.8) / rows, 1.0, 0.72 / rows))
            level, error = self.level[:, value], self.std_error[:, value]
            ends = level - _NORMAL * error, level + _NORMAL * error
            panel.fill_between(places, *ends, color=charts.GREEN, alpha=0.25, lw=0)
            panel.plot(places, level, color=charts.GREEN)
            panel.plot(places, self.raw[:, value], "o", ms=3, color=charts.GREY)
            panel.set_xlim(0.5, self.collections + 0.5)
            charts.finish(panel, charts.label(self.names[value]))
        panel = axes.inset_axes((0.0, 1 - (rows - 0.2) / rows, 1.0, 0.72 / rows))
        panel.bar(places, self.reports, color=charts.BLUE)
        panel.set_xlim(0.5, self.collections + 0.5)
        panel.set_xlabel("collection; points are raw estimates, bands hold a level at 95 %")
        charts.finish(panel, "reports")

    def _findings(self) -> list[str]:
        pairs = list(zip(self.names, self.level[-1], self.std_error[-1], strict=True))[:_SHOWN]
        more = len(self.names) - len(pairs)
        return [
            f"collection {len(self.level)} of {self.collections}, over {self.users[-1]:,} users:",
            *(
                f"  {name}: {level:.4g} ± {error:.2g}" if np.isfinite(error) else f"  {name}: none"
                for name, level, error in pairs
            ),
            *([f"  and {more} more"] if more > 0 else []),
        ]
