"""What a plan shows: its figure, and the page for a reviewer or an ethics board."""

import math
import textwrap
from typing import TYPE_CHECKING

from ..presentation import charts
from ..presentation.page import Markup, Section, element, listed, table_of
from ..presentation.words import counted, guarantee, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from .plan import Plan

_LABEL = 34  # characters of an axis's label that a figure has room for in a line
_SPAN = 30  # of errors that one scale of equal steps can show
_COLOURS = (charts.PURPLE, charts.GREEN, charts.BLUE)
_UNKNOWN = (
    "How many of the people answer: the plan is about those who do.",
    "Whether declared bounds fit the data: what lies outside counts as the bound.",
    "Whether people answer honestly: many false answers move any estimate.",
)
_NO_DATA = "This plan was made from public numbers. No data were read, and nobody was asked."


def title_of(plan: "Plan") -> str:
    """Return what the plan is of."""
    return f"Plan: {plan.question}"


def draw(plan: "Plan", axes: "Axes") -> None:
    """Draw the expected error over epsilon, a line for each number of users."""
    own = plan.setting.num_users
    crowds = sorted({point["users"] for point in plan.curve})
    for users, colour in zip(crowds, _COLOURS, strict=False):
        points = [p for p in plan.curve if p["users"] == users and not math.isnan(p["error"])]
        if not points:
            continue
        at, error = ([point[name] for point in points] for name in ("epsilon", "error"))
        axes.plot(at, error, "o-", ms=4, color=colour, label=f"{users:,} {plan.holder}s")
        if users == own:
            low, high = ([point[name] for point in points] for name in ("low", "high"))
            axes.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
    if plan.expected is not None:
        axes.plot(plan.epsilon, plan.expected.value, "o", ms=9, mfc="none", color=charts.INK)
    if not math.isnan(plan.target):
        axes.axhline(
            plan.target, color=charts.GREY, lw=1, ls="--", label=f"target {plan.target:.3g}"
        )
    axes.set_xscale("log", base=2)
    ticks = sorted({point["epsilon"] for point in plan.curve})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    _scale(axes, [p["error"] for p in plan.curve if not math.isnan(p["error"])])
    axes.set_xlabel(f"epsilon of each {plan.protects}")
    axes.set_ylabel(textwrap.fill(plan.expected.error if plan.expected else "error", _LABEL))
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def _scale(axes: "Axes", errors: list[float]) -> None:
    """Show small errors, too, where others are much larger."""
    if errors and min(errors) > 0 and max(errors) > _SPAN * min(errors):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def sections_of(plan: "Plan") -> list[Section]:
    """Return what a plan says, in a reader's order."""
    expected = plan.expected
    return [
        Section("", [_asked(plan), _NO_DATA]),
        Section("What to expect", [*plan.sentences(), _figure(plan)]),
        Section(f"What it costs each {_whom(plan)}", [_costs(plan)] if expected else []),
        Section("What is protected", [guarantee(plan.epsilon, plan.delta, plan.protects)]),
        Section("What this rests on", [listed(expected.assumes)] if expected else []),
        Section("What to know", [listed(expected.notes)] if expected else []),
        Section("What it does not know", [listed(_UNKNOWN)]),
        Section("Other numbers", [table_of(_numbers(plan))]),
    ]


def _whom(plan: "Plan") -> str:
    return "person" if plan.holder == "user" else plan.protects


def _numbers(plan: "Plan") -> "DataFrame":
    """Return the curve, with a word where such a run would be refused."""
    table = plan.table()
    refused = table["error"].isna()
    for name in ("error", "low", "high"):
        shown = [*map(number, table[name])]
        table[name] = ["refused" if no else text for no, text in zip(refused, shown, strict=True)]
    return table


def _asked(plan: "Plan") -> str:
    setting = plan.setting
    features = f", {counted(setting.num_features, 'feature')}" if setting.num_features else ""
    rows = f", {setting.rows_per_user:g} rows each" if setting.rows_per_user != 1 else ""
    if plan.holder == "silo":
        return (
            f"{plan.protocol} of ldp-flower would ask {counted(setting.num_users, 'silo')} of "
            f"{setting.rows_per_user:g} records each, with epsilon {plan.epsilon:g} for each of "
            "these."
        )
    people = "1 person" if setting.num_users == 1 else f"{number(setting.num_users)} people"
    return (
        f"{plan.protocol} of ldp-flower would ask {people}"
        f"{rows}{features}, with epsilon {plan.epsilon:g} each."
    )


def _figure(plan: "Plan") -> Markup:
    with charts.style():
        axes = charts.standing_alone(3.6)
        draw(plan, axes)
    return charts.svg(axes, "Expected error over epsilon, by number of users")


def _costs(plan: "Plan") -> Markup:
    if (error := plan.expected) is None:
        return Markup()
    spent = f"epsilon {plan.epsilon:g}" + (f", delta {plan.delta:g}" if plan.delta else "")
    if plan.holder == "silo":
        text = (
            f"At most {spent} of the budget of every record, for {counted(error.rounds, 'answer')} "
            f"of its silo, of {counted(error.report_bytes, 'byte')} at most. The silo's ledger is "
            "charged with all of it before the first answer leaves."
        )
        return element("p", text)
    text = (
        f"At most {spent} of the person's budget, for "
        f"{'one report' if _once(plan) else 'reports'} of {counted(error.report_bytes, 'byte')} at "
        f"most, made in about {1000 * plan.seconds:.2g} ms. {_groups(plan, error.rounds)}"
    )
    return element("p", text)


def _once(plan: "Plan") -> bool:
    """Whether a person's whole budget pays for one report."""
    mechanisms = plan.expected.randomizers if plan.expected else ()
    return all(each.epsilon > plan.epsilon / 2 for each in mechanisms)


def _groups(plan: "Plan", rounds: int) -> str:
    if not _once(plan):
        return f"The server asks {counted(rounds, 'time')} in all, and a person more than once."
    if rounds == 1:
        return "Each person answers once, and the server asks once."
    return (
        f"Each person answers once: the server asks {rounds} groups of people, one after the other."
    )
