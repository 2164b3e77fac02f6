"""The table of ``ldp-flower plan --collections``."""

import math
from typing import Any

from rich.table import Table
from rich.text import Text

from ..planning import NoPlan, Setting
from ..planning.series import SPREAD, plan_series
from ..presentation.words import number
from ..strategies import LdpStrategy
from .console import USAGE, console, fail

_DRIFT = 0.005  # of a level's width: .036 in a year of weeks


def show_series(
    protocol: type[LdpStrategy[Any]],
    setting: Setting,
    epsilon: float,
    collections: int,
    drift: float | None,
) -> None:
    """Show the errors of a series side by side: split budgets, panels, permanent answers."""
    drift = _DRIFT if drift is None else drift
    try:
        plan = plan_series(protocol, setting, epsilon, collections, drift)
    except NoPlan as error:
        console.print(Text(str(error)))
        return
    except ValueError as error:
        fail(str(error), USAGE)
    table = Table(title=f"Expected {plan.error}", title_justify="left")
    table.add_column(f"{collections} collections, epsilon {epsilon:g} for all of them")
    table.add_column("error", justify="right")
    for what, expected in (
        (f"split: everybody each time, at {epsilon / collections:.2g}", plan.split),
        (f"panel of {setting.num_users // collections:,}: its own estimate", plan.panel),
        ("panels: today's level", plan.today),
        ("panels: past levels", plan.past),
        ("memoised: everybody each time, times of changes public", plan.memoised),
    ):
        if math.isinf(expected):  # the protocol has no such series
            continue
        table.add_row(what, "refused" if math.isnan(expected) else number(expected))
    console.print(table)
    console.print(
        f"Assumes that a level changes by {drift:g} from one collection to the next, and that "
        f"users' values have a standard deviation of {SPREAD:g} (of the width of their bounds)."
    )
