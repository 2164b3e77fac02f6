"""Result of Means: means of columns, also by group, with their errors."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.presentation import charts
from ldp_flower.presentation.words import with_error
from ldp_flower.validation import Floats

from ..runtime import Estimates, Result
from ..runtime.result import frame, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class MeansResult(Result):
    """Means of columns, by group if ``by`` was given.

    Attributes
    ----------
    columns : list of str
        Names of the columns.
    groups : list of str
        Names of the groups; a single empty name if there are no groups.
    by : str or None
        The column that defines the groups, or several in one text.
    keys : dict of str to list of str
        The category that each group has in a column, by the name of the column.
    means : ndarray of float64, shape (columns, groups)
        Means in the columns' units; NaN if a group may be empty.
    std_error : ndarray of float64, shape (columns, groups)
        Standard errors of the means in the population that the users are drawn from.
    users_std_error : ndarray of float64, shape (columns, groups)
        Standard errors of the means among these users. They are smaller than ``std_error``.
    shares : ndarray of float64, shape (columns, groups)
        Shares of the users who have a row in the group with an entry in the column.
    share_errors : ndarray of float64, shape (columns, groups)
        Standard errors of these shares.
    totals, totals_std_error, users_totals_std_error : ndarray of float64, shape (columns,)
        Means of all groups together, from the same reports, with both standard errors. With one
        row drawn of each user, all users have the same weight. Empty without groups.
    """

    columns: list[str]
    groups: list[str]
    by: str | None
    means: Floats
    std_error: Floats
    users_std_error: Floats
    shares: Floats
    share_errors: Floats
    keys: dict[str, list[str]] = field(default_factory=dict)
    totals: Floats = field(default_factory=lambda: np.zeros(0))
    totals_std_error: Floats = field(default_factory=lambda: np.zeros(0))
    users_totals_std_error: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if self.by is not None and not self.keys:  # of a version with one column only
            self.keys = {self.by: self.groups}
        self.arrays = ArrayRecord([self.means])

    def table(self) -> "DataFrame":
        """Return the means, column by column and group by group.

        Returns
        -------
        DataFrame
            ``column``; the group's categories, if there are groups; ``mean`` in the column's units;
            its ``standard error`` for the population; the smaller standard error ``of these
            users``; a 95 % interval for the population; the ``share`` of the users to whom the mean
            refers.
        """
        mean, error = self.means.ravel(), self.std_error.ravel()
        names: dict[str, object] = {"column": np.repeat(self.columns, len(self.groups))}
        for name, categories in self.keys.items():
            names[name] = np.tile(categories, len(self.columns))
        return frame(
            {
                **names,
                "mean": mean,
                "standard error": error,
                "of these users": self.users_std_error.ravel(),
                **interval(mean, error),
                "share": self.shares.ravel(),
            }
        )

    def estimates(self) -> Estimates:
        """Return the means and their standard errors, which a series of collections follows."""
        errors = self.std_error.ravel(), self.users_std_error.ravel()
        return Estimates(self._labels(), self.means.ravel(), *errors)

    def _labels(self) -> list[str]:
        return [f"{c} {g}".strip() for c in self.columns for g in self.groups]

    @property
    def _height(self) -> float:
        return charts.height_of(self.means.size)

    def _draw(self, axes: "Axes") -> None:
        shown = np.isfinite(self.means.ravel())
        names = [name for name, shown in zip(self._labels(), shown, strict=True) if shown]
        means, errors = self.means.ravel()[shown], self.std_error.ravel()[shown]
        charts.intervals(axes, names, means.tolist(), errors.tolist())
        axes.set_xlabel("mean in the column's units, with 95 % intervals")

    def _headline(self) -> list[str]:
        lines = self._findings()
        return lines if self.means.size == 1 else lines[self.means.size :]  # of all groups

    def _findings(self) -> list[str]:
        names, means, errors = self._labels(), [*self.means.ravel()], [*self.std_error.ravel()]
        if len(self.totals):
            names += [f"{column}, all groups" for column in self.columns]
            means, errors = [*means, *self.totals], [*errors, *self.totals_std_error]
        rows = zip(names, means, errors, strict=True)
        return [
            f"{name}: {with_error(mean, error)}" if np.isfinite(mean) else f"{name}: not estimated"
            for name, mean, error in rows
        ]
