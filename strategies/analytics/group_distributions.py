"""Result of Distribution with groups: a distribution for each group."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord

from ldp_flower.presentation import charts

from ..runtime.result import Result, first_of
from .distribution_result import DistributionResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_SHOWN = 12  # largest number of groups in a result's text


@dataclass(repr=False, kw_only=True)
class GroupDistributionsResult(Result):
    """The distributions of a column in several groups.

    Attributes
    ----------
    column : str
        Name of the column.
    groups : list of str
        Names of the groups.
    keys : dict of str to list of str
        The category that each group has in a column, by the name of the column.
    results : list of DistributionResult
        The distribution of each group. Its ``without_entry`` is the share of all users who are in
        another group or have no entry.
    """

    column: str
    groups: list[str]
    keys: dict[str, list[str]]
    results: list[DistributionResult]

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([each.below for each in self.results])

    def of(self, group: str) -> DistributionResult:
        """Return the distribution of a group, by its name.

        Raises
        ------
        ValueError
            If there is no such group.
        """
        if group not in self.groups:
            raise ValueError(f"Expected group in {self.groups}, got {group!r}.")
        return replace(self.results[self.groups.index(group)], schema=self.schema)

    def table(self) -> "DataFrame":
        """Return nine quantiles from 1 % to 99 % of each group.

        Returns
        -------
        DataFrame
            The categories of the group, and the columns of :meth:`DistributionResult.table`.
        """
        from pandas import concat

        tables = [self.of(group).table() for group in self.groups]
        whole = concat(tables, ignore_index=True)
        rows = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        for place, (name, categories) in enumerate(self.keys.items()):
            whole.insert(place, name, np.array(categories, dtype=object)[rows])
        return whole

    def _draw(self, axes: "Axes") -> None:
        for number, group in enumerate(self.groups):
            each, colour = self.of(group), [*charts.COLOURS.values()][number % len(charts.COLOURS)]
            axes.plot(each.edges, each.below, color=colour, label=charts.label(group))
        axes.legend()
        axes.set_ylim(0, 1)
        axes.set_xlabel(charts.label(self.column))
        axes.set_ylabel("share below")

    def _findings(self) -> list[str]:
        lines = [f"{group}: {self.of(group)._findings()[0]}" for group in self.groups]
        return [
            *first_of(lines, _SHOWN),
            f"result.of({self.groups[0]!r}) is the distribution of a group: its quantiles, shares "
            "below numbers, histogram and band",
        ]
