"""Parts of a result's page for a reviewer: question, guarantee, figure and answers by step."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ldp_flower.presentation.page import Markup, element, folded, table_of
from ldp_flower.presentation.words import TRUSTS, guarantee

from .facts import PrivacySpent, Step

if TYPE_CHECKING:
    from pandas import DataFrame

_SEEDED = (
    "This run was a simulation whose reports were drawn from a known seed, which protects nobody: "
    "the sentence above is about the same run without a seed."
)
_REAL_VALUED = (
    "Some mechanism draws real numbers: the guarantee holds in exact arithmetic, and is not "
    "proved for floating point."
)
# Explanations of table columns whose names alone are not clear.
_COLUMNS = {
    "share": "Share: the estimated part of the users whom a row describes, from 0 to 1; noise can "
    "move it a little beyond.",
    "of these users": "Of these users: the smaller standard error, for the users who took part and "
    "the rows that they drew; the other standard error is for the population of which they are a "
    "sample.",
}
# Columns of the table of steps, those that are left out if they are empty, and other names.
_STEPS = (
    *("number", "statistic", "mechanism", "report_bytes", "asked", "reports", "no_budget", "lost"),
    *("errors", "rejected", "silent", "reasons"),
)
_IF_ANY = ("no_budget", "lost", "reasons")
_NAMES = {"number": "step", "statistic": "question", "report_bytes": "bytes"}


def asked(strategy: str, target: str | None, privacy: PrivacySpent | None) -> str:
    """Return a sentence: what was asked, by which strategy, and at which cost, as far as given."""
    by = f" by {strategy}" if strategy else ""
    cost = f" at {privacy}" if privacy else ""
    about = "" if target is None else f"; the target is {target}"
    return f"Estimated{by}{cost}{about}." if by or about else ""


def sentences_on(table: "DataFrame") -> list[str]:
    """Return the sentences that explain columns of a table."""
    return [sentence for name, sentence in _COLUMNS.items() if name in table.columns]


def guarantee_of(privacy: PrivacySpent | None) -> list[str]:
    """Return sentences that state the guarantee and its limitations."""
    if privacy is None:
        return ["Nobody was asked anything, and nothing was spent."]
    sentences = [
        f"{guarantee(privacy.epsilon, privacy.delta, privacy.unit, privacy.part)} "
        f"{TRUSTS[privacy.noise]}"
    ]
    if privacy.alone is not None:
        sentences.append(f"If all other nodes collude, epsilon is {privacy.alone:.3g}.")
    return sentences + [_SEEDED] * privacy.seeded + [_REAL_VALUED] * (not privacy.exact)


def answered(
    who: str, reports: int, users: int, no_budget: int, steps: Sequence[Step]
) -> list[Markup]:
    """Return a paragraph and a table, by step, on the users and nodes that answered."""
    spent = f" {no_budget:,} could not afford a report." if no_budget else ""
    held = "users" if who == "users" else "records"
    text = (
        f"{reports:,} reports were used, of {users:,} {who}.{spent} Step 0 is the census, which "
        f"asks nodes how many {held} they hold; the columns from errors on count nodes. "
        "Bytes are those of one report."
    )
    return [element("p", text), folded("Step by step", table_of(_steps(steps)))]


def _steps(steps: Sequence[Step]) -> "DataFrame":
    from pandas import DataFrame

    rows = [{**vars(step), "reasons": "; ".join(step.reasons)} for step in steps]
    table = DataFrame(rows, columns=_STEPS)
    table = table.drop(columns=[name for name in _IF_ANY if not table[name].any()])
    return table.rename(columns=_NAMES).rename(columns=lambda name: name.replace("_", " "))
