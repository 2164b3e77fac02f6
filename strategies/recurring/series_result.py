"""Result of a series: the levels over all collections so far."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from ldp_flower.presentation import charts
from ldp_flower.presentation.words import with_error
from ldp_flower.validation import Floats

from ..runtime import Result
from ..runtime.result import HALF_WIDTH_95, first_of, frame, interval
from .collected import Collected
from .local_level import local_level
from .season import seasonal_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

# Number of collections over which noise variances are averaged. With 192 reports each, levels of
# shares of .02 to .15 missed their bands by 9 % without averaging, and by 1 % with 8 collections. A
# much longer average reacts too slowly to a share that grows.
_AVERAGED = 8


_LEVELS = ("raw", "raw_std_error", "filtered", "filtered_std_error", "level", "std_error")


def levels_of(collected: Sequence[Collected], season: int | None) -> dict[str, Any]:
    """Return the levels from the first to the last collection.

    The keys are attributes of :class:`SeriesResult`; the arrays have the shape (collections,
    names). Skipped collections are missing values. Permanent answers have the same noise in all
    collections, so their levels are the raw estimates. With noise at the node the users are the
    same in all collections: only the noise is smoothed, and levels keep the error of sampling.
    """
    raw = _rows(collected, "values", np.nan)
    errors = _rows(collected, "std_errors", np.inf)
    errors[~np.isfinite(raw)] = np.inf
    if collected[-1].change is not None:
        return dict(zip(_LEVELS, (raw, errors) * 3, strict=True))
    of_users = _rows(collected, "users_std_errors", np.inf)
    reports = _rows(collected, "reports", 0)[:, :1]
    at_node = collected[-1].users_std_errors is not None
    # The noise of nodes falls with the number of users, not with its root.
    noise = _averaged_errors(of_users, reports**2) if at_node else _averaged_errors(errors, reports)
    level = local_level if season is None else partial(seasonal_level, period=season)
    columns = [level(*pair) for pair in zip(raw.T, noise.T, strict=True)]
    found = {
        name: np.stack([getattr(column, name) for column in columns], axis=1)
        for name in _LEVELS[2:]
    }
    if at_node:
        sampling = _sampling_errors(errors, of_users, reports)
        for name in ("filtered_std_error", "std_error"):
            found[name] = np.hypot(found[name], sampling)
    return {"raw": raw, "raw_std_error": errors, **found}


def _rows(collected: Sequence[Collected], name: str, missing: float) -> NDArray[Any]:
    """Return an attribute of all collections, one row for each, shape (collections, names).

    A number for the whole collection fills its row. Rows without the attribute, and those of
    skipped collections, are ``missing``.
    """
    rows = np.full((collected[-1].number, len(collected[0].names)), missing)
    for each in collected:
        if (value := getattr(each, name)) is not None:
            rows[each.number - 1] = value
    return rows


def _sampling_errors(errors: Floats, of_users: Floats, reports: Floats) -> Floats:
    """Return the part of each collection's standard errors that is due to the choice of users.

    The other part is due to noise, which the levels smooth.
    A skipped collection gets the errors of the last collection before it.
    """
    known = np.isfinite(errors)
    variances = np.where(known, errors, 0.0) ** 2 - np.where(known, of_users, 0.0) ** 2
    sampling = np.where(known, np.sqrt(np.maximum(variances, 0.0)), np.inf)
    last = np.maximum.accumulate(np.where(known, np.arange(len(known))[:, None], 0), axis=0)
    return np.asarray(np.take_along_axis(_averaged_errors(sampling, reports), last, axis=0))


def _averaged_errors(errors: Floats, reports: Floats) -> Floats:
    """Return standard errors from a variance per report that is averaged over collections.

    Variances are inversely proportional to ``reports``, shape (collections, 1). The average is over
    ``_AVERAGED`` collections: the current one and those before it. In a single collection with few
    reports, the standard error is correlated with the estimate. If a share is underestimated, then
    so is its standard error, and the estimate would get too much weight.
    """
    known = np.isfinite(errors)
    of_one = np.where(known, errors, 0.0) ** 2 * reports
    total, number = np.cumsum(of_one, axis=0), np.cumsum(known, axis=0)
    total[_AVERAGED:] -= total[:-_AVERAGED].copy()
    number[_AVERAGED:] -= number[:-_AVERAGED].copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        steadied = np.sqrt(total / number / reports)
    return np.where(known, steadied, np.inf)


# Share of the users who may leave without a note: as many reports are lost for other reasons.
_FEW_GONE = 0.1
_PUBLIC_CHANGES = (
    "The times at which a user's answer changes are public. Given these, everything else about a "
    "user's whole history is protected."
)
_DRAWN = 6  # number of values in a chart: those that changed most
_SHOWN = 12  # number of values in a result's text
_PANEL = 1.5  # height of one value's panel in inches


@dataclass(repr=False, kw_only=True)
class SeriesResult(Result):
    """Levels of the same estimates at every collection so far.

    A level is the true value behind an estimate, in a population of users like those in the census
    of its collection. It is estimated from a panel, which is a random part of the census, or with
    noise at the node from all users.
    ``num_users`` is the size of the last census. ``num_reports`` and ``no_budget`` are totals over
    all collections. ``steps`` are those of the last collection.

    Attributes
    ----------
    collections : int
        Number of planned collections.
    names : list of str
        Names of the estimates. They are the columns of the arrays, which have one row for each
        collection so far.
    raw, raw_std_error : ndarray of float64
        Estimates of each collection alone; NaN, with an infinite standard error, for a skipped one.
    filtered, filtered_std_error : ndarray of float64
        Levels at each collection, from the collections up to that one.
    level, std_error : ndarray of float64
        Levels at each collection, from all collections so far. A 95 % interval is 1.96 standard
        errors to each side. It covers drift, sudden steps and the variation of single days.
    users, asked, reports : ndarray of int64, shape (collections so far,)
        Numbers of users in the census, in the panel, and in the panel with a report.
    change, change_std_error : ndarray of float64, optional
        For permanent answers: the change of each value since the previous collection, among the
        users who answered in both. Users whose answer did not change add no noise to it.
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
    change: Floats | None = None
    change_std_error: Floats | None = None

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.level, self.std_error])

    @classmethod
    def of(cls, collected: Sequence[Collected], season: int | None, **about: Any) -> Self:
        """Return the result of these collections; ``about`` has the result's other attributes."""
        last = collected[-1]
        counts = ("num_users", "asked", "reports")
        users, asked, reports = (_rows(collected, count, 0)[:, 0] for count in counts)
        permanent = last.change is not None
        levels = levels_of(collected, season)
        return cls(
            privacy=last.privacy,
            num_users=last.num_users,
            num_reports=int(reports.sum()),
            no_budget=sum(each.no_budget for each in collected),
            steps=last.steps,
            notes=[
                *last.notes,
                *_note_on_leavers(users),
                *_note_on_missing(levels["raw"], last.names),
                *([_PUBLIC_CHANGES] * permanent),
            ],
            names=last.names,
            **levels,
            users=users,
            asked=asked,
            reports=reports,
            change=_rows(collected, "change", np.nan) if permanent else None,
            change_std_error=_rows(collected, "change_std_error", np.inf) if permanent else None,
            **about,
        )

    def table(self) -> "DataFrame":
        """Return the levels, collection by collection.

        Returns
        -------
        DataFrame
            ``name``; ``collection``; the ``raw`` estimate with its error; the level ``known then``,
            from the collections up to this one, with its error; the ``level`` from all collections
            with its ``standard error`` and a 95 % interval; the numbers of ``users`` in the census
            and of ``reports`` from the panel. With permanent answers also the ``change`` since the
            previous collection and the ``change error``.
        """
        so_far, width = self.level.shape
        level, error = self.level.ravel(), self.std_error.ravel()
        table = frame(
            {
                "name": self.names * so_far,
                "collection": np.repeat(np.arange(1, so_far + 1), width),
                "raw": self.raw.ravel(),
                "raw error": self.raw_std_error.ravel(),
                "known then": self.filtered.ravel(),
                "error then": self.filtered_std_error.ravel(),
                "level": level,
                "standard error": error,
                **interval(level, error),
                "users": np.repeat(self.users, width),
                "reports": np.repeat(self.reports, width),
            }
        )
        if self.change is not None and self.change_std_error is not None:
            table["change"] = self.change.ravel()
            table["change error"] = self.change_std_error.ravel()
        return table

    def _shown(self, table: "DataFrame") -> "DataFrame":
        """Return the table with the last collection first."""
        return table.sort_values("collection", ascending=False, kind="stable")

    @property
    def _moved(self) -> NDArray[np.int64]:
        """Indices, increasing, of the values that a chart shows: those that have changed most."""
        moved = np.nanmax(self.level, axis=0) - np.nanmin(self.level, axis=0)
        most = np.argsort(-np.nan_to_num(moved), kind="stable")[:_DRAWN]
        return np.sort(most)

    @property
    def _height(self) -> float:
        return _PANEL * (min(len(self.names), _DRAWN) + 1)

    def _draw(self, axes: "Axes") -> None:
        """Draw one panel for each value, and one for the number of reports, in a column."""
        axes.set_axis_off()
        drawn = self._moved
        rows = len(drawn) + 1
        places = np.arange(1, len(self.level) + 1)
        for row, value in enumerate(drawn):
            panel = axes.inset_axes((0.0, 1 - (row + 0.8) / rows, 1.0, 0.72 / rows))
            level, error = self.level[:, value], self.std_error[:, value]
            ends = level - HALF_WIDTH_95 * error, level + HALF_WIDTH_95 * error
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
        header = (
            f"collection {len(self.level)} of {self.collections}, over {self.users[-1]:,} users:"
        )
        lines = [
            f"  {name}: {with_error(level, error)}" if np.isfinite(error) else f"  {name}: none"
            for name, level, error in zip(
                self.names, self.level[-1], self.std_error[-1], strict=True
            )
        ]
        return [header, *first_of(lines, _SHOWN)]


def _note_on_missing(raw: Floats, names: Sequence[str]) -> list[str]:
    """Return a list with a note if the last collection lacks an estimate that earlier ones have."""
    missing = ~np.isfinite(raw[-1]) & np.isfinite(raw).any(axis=0)
    if not missing.any():
        return []
    which = ", ".join(name for name, each in zip(names, missing, strict=True) if each)
    return [
        f"The latest collection has found no estimate of {which}. The level shown for it is "
        "extrapolated from the most recent collection that has one, and its interval is wider by "
        "the drift estimated so far."
    ]


def _note_on_leavers(users: NDArray[np.int64]) -> list[str]:
    """Return a list with a note if the last census is much smaller than the largest one."""
    most = int(np.argmax(users))
    lost = 1 - users[-1] / users[most]
    if lost < _FEW_GONE:
        return []
    return [
        f"The census fell by {lost:.0%} since collection {most + 1}. Levels are about the users "
        f"who stayed: the levels of all users differ by {lost:.0%} of the difference between users "
        "who left and users who stayed."
    ]
