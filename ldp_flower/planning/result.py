"""Plan: the expected error of a protocol as sentences, table, figure and page."""

import math
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..expectation import Expectation, LowerBound, Setting
from ..presentation import charts, page
from ..presentation.page import Section, listed, table_of
from ..presentation.words import TRUSTS, counted, guarantee, number
from .variants import MOST_EPSILON, MOST_USERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_HEIGHT = 3.6  # inches of the figure
_LABEL = 34  # characters of an axis label that fit in one line of a figure
_SPAN = 30  # ratio of largest and smallest error up to which a linear scale is used
_COLOURS = (charts.PURPLE, charts.GREEN, charts.BLUE)
_UNKNOWN = (
    "How many of the people answer: the plan is about those who do.",
    "Whether declared bounds fit the data: what lies outside counts as the bound.",
    "Whether people answer honestly: many false answers move any estimate.",
)
_NO_DATA = "This plan was made from public numbers. No data were read, and nobody was asked."


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Expected error of a protocol, before any query.

    Attributes
    ----------
    protocol, question : str
        Name of the strategy, and the quantity that it estimates.
    setting : Setting
        The public numbers of the plan.
    epsilon, delta : float
        Largest privacy cost of each user.
    protects : str
        Unit that the guarantee protects.
    noise : str
        Place where noise is added: "user", "node" or "shared".
    expected : Expectation or None
        The expected error; None if such a run would be refused.
    refusal : str
        The strategy's reason for a refusal; empty if the run would not be refused.
    target : float
        The error that ``changes`` reach: the given target, by default half of the expected
        error. NaN if the run would be refused and no target was given.
    changes : dict
        ``users``, ``epsilon`` and, if it is known, ``features``: for each, the value that
        reaches the target if the other numbers stay the same, or None if no value reaches it.
    curve : tuple of dict
        Expected errors at other numbers of users and epsilon, with their ranges.
    lower_bounds : tuple of LowerBound
        Proven lower bounds from papers. They are rates, since no paper states its constant.
    """

    protocol: str
    question: str
    setting: Setting
    epsilon: float
    delta: float
    protects: str
    noise: str
    expected: Expectation | None
    refusal: str
    target: float
    changes: dict[str, float | None]
    curve: tuple[dict[str, float], ...]
    lower_bounds: tuple[LowerBound, ...] = ()

    @property
    def holder(self) -> str:
        """Word for the unit that answers: "user", or "silo" if single records are protected."""
        return "silo" if self.protects == "record" else "user"

    def table(self) -> "DataFrame":
        """Return the curve: users, epsilon, expected error, and the range of 8 runs out of 10."""
        from pandas import DataFrame

        return DataFrame(list(self.curve))

    def sentences(self) -> list[str]:
        """Return the plan in sentences: the expected error, and changes that reach the target."""
        return [self._answer(), *self._ways()]

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the expected error over epsilon, with one line for each number of users."""
        return charts.drawn(self._draw, _HEIGHT, axes)

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain values, for JSON.

        The size of the largest report takes the place of the mechanisms.
        """
        plain = asdict(self)
        if self.expected is not None:
            del plain["expected"]["randomizers"]
            plain["expected"]["report_bytes"] = self.expected.report_bytes
        return plain

    def to_html(self, path: str | Path | None = None) -> str:
        """Return an HTML page for a reviewer or an ethics board, and write it if a path is given.

        The page states in plain words the query, the guarantee, the expected error, the
        assumptions behind it, and the unknowns. It needs no other file.
        """
        return page.page(self._title, self._sections(), path)

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        return page.fragment(self._title, self._sections())

    def __repr__(self) -> str:
        expected = self.expected
        notes = [*expected.assumes, *expected.notes] if expected else []
        return "\n".join([*self.sentences(), *notes, *map(str, self.lower_bounds)])

    def _answer(self) -> str:
        if self.expected is None:
            return f"Refused: {self.refusal}"
        low, value, high = map(number, (self.expected.low, self.expected.value, self.expected.high))
        return f"Expected: {self.expected.error} {value}; in 8 runs of 10 {low} to {high}."

    def _ways(self) -> list[str]:
        """Return a sentence on the changes that reach the target, in a list."""
        features = "feature" if self.holder == "user" else "parameter"
        nouns = {"users": self.holder, "features": features}
        ways = [
            f"epsilon {value:g}" if name == "epsilon" else counted(int(value), nouns[name])
            for name, value in self.changes.items()
            if value is not None
        ]
        which = "" if math.isnan(self.target) else f" of {number(self.target)}"
        if not ways:
            return [
                f"Nothing that was tried reaches an error{which}: not {MOST_USERS:,} "
                f"{self.holder}s, nor epsilon {MOST_EPSILON:g}."
            ]
        either = f"{', or '.join(ways)}, with the other numbers as they are"
        if math.isnan(self.target):
            return [f"What would not be refused: {either}."]
        if self.expected is not None and self.expected.value <= self.target:
            return [f"That reaches an error{which}; so would {either}."]
        return [f"What would reach an error{which}: {either}."]

    @property
    def _title(self) -> str:
        return f"Plan: {self.question}"

    def _draw(self, axes: "Axes") -> None:
        table = self.table()
        for (users, every), colour in zip(table.groupby("users"), _COLOURS, strict=False):
            if (points := every.dropna()).empty:
                continue
            at, label = points["epsilon"], f"{users:,} {self.holder}s"
            axes.plot(at, points["error"], "o-", ms=4, color=colour, label=label)
            if users == self.setting.num_users:
                low, high = points["low"], points["high"]
                axes.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
        if self.expected is not None:
            axes.plot(self.epsilon, self.expected.value, "o", ms=9, mfc="none", color=charts.INK)
        if not math.isnan(self.target):
            axes.axhline(
                self.target, color=charts.GREY, lw=1, ls="--", label=f"target {self.target:.3g}"
            )
        axes.set_xscale("log", base=2)
        ticks = sorted(set(table["epsilon"]))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        if 0 < _SPAN * table["error"].min() < table["error"].max():
            axes.set_yscale("log")  # shows small errors as well
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(f"epsilon of each {self.protects}")
        axes.set_ylabel(textwrap.fill(self.expected.error if self.expected else "error", _LABEL))
        if axes.get_legend_handles_labels()[0]:
            axes.legend()

    def _sections(self) -> list[Section]:
        """Return the sections of the page, in reading order."""
        whom = "person" if self.holder == "user" else self.protects
        protection = f"{guarantee(self.epsilon, self.delta, self.protects)} {TRUSTS[self.noise]}"
        drawn = "Expected error over epsilon, by number of users"
        figure = charts.picture(self._draw, _HEIGHT, drawn)
        expected = self.expected
        return [
            Section("", [self._asked(), _NO_DATA]),
            Section("What to expect", [*self.sentences(), figure]),
            Section("What this rests on", [listed(expected.assumes)] if expected else []),
            Section(
                "What no protocol can beat", [listed([str(each) for each in self.lower_bounds])]
            ),
            Section(f"What it costs each {whom}", [self._costs()]),
            Section("What is protected", [protection]),
            Section("What to know", [listed(expected.notes)] if expected else []),
            Section("What it does not know", [listed(_UNKNOWN)]),
            Section("Other numbers", [table_of(self._numbers())]),
        ]

    def _numbers(self) -> "DataFrame":
        """Return the curve as a table of texts, with "refused" for runs that would be refused."""
        table = self.table()
        known = table["error"].notna()
        for name in ("error", "low", "high"):
            table[name] = table[name].map(number).where(known, "refused")
        return table

    def _asked(self) -> str:
        setting, asks = self.setting, f"{self.protocol} of ldp-flower would ask"
        if self.holder == "silo":
            return (
                f"{asks} {counted(setting.num_users, 'silo')} of {setting.rows_per_user:g} records "
                f"each, with epsilon {self.epsilon:g} for each of these."
            )
        people = "1 person" if setting.num_users == 1 else f"{number(setting.num_users)} people"
        rows = f", {setting.rows_per_user:g} rows each" if setting.rows_per_user != 1 else ""
        features = f", {counted(setting.num_features, 'feature')}" if setting.num_features else ""
        nodes = f" on {counted(setting.num_nodes, 'node')}" if setting.num_nodes else ""
        return f"{asks} {people}{rows}{features}{nodes}, with epsilon {self.epsilon:g} each."

    def _costs(self) -> str:
        if (error := self.expected) is None:
            return ""
        spent = f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")
        size, rounds = counted(error.report_bytes, "byte"), error.rounds
        if self.holder == "silo":
            return (
                f"At most {spent} of the budget of every record, for {counted(rounds, 'answer')} "
                f"of its silo, of {size} at most. The silo's ledger is charged with all of it "
                "before the first answer leaves."
            )
        if self.noise != "user":
            return (
                f"At most {spent} of the person's budget, for all of its node's "
                f"{counted(rounds, 'answer')}, of {size} at most. An answer is about the sum over "
                "all people of the node."
            )
        # True if a person's whole budget pays for one report.
        once = all(each.epsilon > self.epsilon / 2 for each in error.randomizers)
        if not once:
            asked = f"The server asks {counted(rounds, 'time')} in all, and a person more than once"
        elif rounds == 1:
            asked = "Each person answers once, and the server asks once"
        else:
            asked = f"Each person answers once: the server asks {rounds} groups of people, one "
            asked += "after the other"
        return (
            f"At most {spent} of the person's budget, for {'one report' if once else 'reports'} of "
            f"{size} at most. {asked}."
        )
