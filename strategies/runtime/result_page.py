"""What a result says to a reviewer: one page with question, guarantee, answer, who answered."""

from typing import TYPE_CHECKING

from ldp_flower.presentation import charts
from ldp_flower.presentation.page import Markup, Section, element, listed, table_of
from ldp_flower.presentation.words import guarantee

if TYPE_CHECKING:
    from pandas import DataFrame

    from .result import PrivacySpent, Result

_SEEDED = (
    "This run was a simulation whose reports were drawn from a known seed, which protects nobody: "
    "the sentence above is about the same run without a seed."
)
_REAL_VALUED = (
    "Some mechanism draws real numbers: the guarantee holds in exact arithmetic, and is not "
    "proved for floating point."
)
# Columns of tables whose names do not say it all.
_COLUMNS = {
    "share": "Share: the part of the users whom a row is about, from 0 to 1, as estimated; noise "
    "can move it a little beyond.",
    "of these users": "Of these users: the narrower standard error, for the users who took "
    "part and the rows that they drew; the other one is for everybody of whom they are a sample.",
}
_SERVER = "Nobody has to trust the server for this: clients randomise before they send."


def title_of(result: "Result") -> str:
    """Return what was asked, or what there is instead."""
    question = result.question or type(result).__name__
    return question[:1].upper() + question[1:]


def sections_of(result: "Result") -> list[Section]:
    """Return what a result says, in a reader's order."""
    table = result._shown(result.table())
    sentences = [sentence for name, sentence in _COLUMNS.items() if name in table.columns]
    return [
        Section("", [_asked(result), *result._headline()]),
        Section("Result", [table_of(table), *sentences, _figure(result)]),
        Section("Notes", [listed(result.notes)] if result.notes else []),
        Section("What is protected", [*_guarantee(result.privacy), *result._statement()]),
        Section("Who answered", [_answered(result), table_of(_steps(result))]),
    ]


def _asked(result: "Result") -> str:
    by = f"Estimated by {result.strategy} of ldp-flower" if result.strategy else ""
    target = result.schema.target if result.schema is not None and result._predicts else None
    if target is None:
        return by and f"{by}."
    return f"{by or 'Estimated'}; the target is {target}."


def _figure(result: "Result") -> Markup:
    with charts.style():
        axes = charts.standing_alone(result._height)
        result._draw(axes)
    return charts.svg(axes, title_of(result))


def _guarantee(privacy: "PrivacySpent | None") -> list[str]:
    if privacy is None:
        return ["Nobody was asked anything, and nothing was spent."]
    sentences = [
        f"{guarantee(privacy.epsilon, privacy.delta, privacy.unit, privacy.part)} {_SERVER}"
    ]
    return sentences + [_SEEDED] * privacy.seeded + [_REAL_VALUED] * (not privacy.exact)


def _answered(result: "Result") -> Markup:
    spent = f" {result.no_budget:,} had no budget left." if result.no_budget else ""
    held = "users" if result._answerers == "users" else "records"
    census = f"Step 0 is the census, which asks nodes how many {held} they hold; "
    text = (
        f"{result.num_reports:,} reports were used, of {result.num_users:,} {result._answerers}."
        f"{spent} {census}the columns from errors on count nodes. "
        " Bytes are those of one report."
    )
    return element("p", text)


def _steps(result: "Result") -> "DataFrame":
    from pandas import DataFrame

    columns = ["asked", "reports", "errors", "rejected", "silent"]
    for name in ("lost", "no_budget"):
        if any(getattr(step, name) for step in result.steps):
            columns.insert(2, name)
    reasons = ["; ".join(step.reasons) for step in result.steps]
    return DataFrame(
        {
            "step": [step.number for step in result.steps],
            "question": [step.statistic for step in result.steps],
            "mechanism": [step.mechanism for step in result.steps],
            "bytes": [step.report_bytes for step in result.steps],
            **{c.replace("_", " "): [getattr(step, c) for step in result.steps] for c in columns},
            **({"reasons": reasons} if any(reasons) else {}),
        }
    )
