"""The command ``ldp-flower plan``."""

import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from . import names
from .console import (
    REFUSED,
    USAGE,
    AsJson,
    console,
    fail,
    grid_of,
    numeric,
    option,
    print_json,
    unknown,
)

if TYPE_CHECKING:
    from ..planning import Plan
    from ..planning.series import SeriesPlan

#: Names of questions, each with the name of the protocol that answers it.
QUESTIONS = {
    "regression": "PrivateRegression",
    "classification": "PrivateClassification",
    "mean": "Means",
    "counts": "Counts",
    "quantiles": "Quantiles",
    "distribution": "Distribution",
    "heavy-hitters": "HeavyHitters",
    "model": "LdpFedAvg",
}
#: Options that give the numbers of a setting.
_OPTIONS = {
    "num_features": "--features",
    "rows_per_user": "--rows",
    "quality": "--quality",
    "variance_between": "--between",
    "num_nodes": "--nodes",
}
_WIDTH = 60
_DRIFT = 0.005  # assumed drift per collection, relative to the width; .036 in a year of weeks


def plan(
    question: Annotated[
        str,
        typer.Argument(
            help="Question, or name of a protocol.",
            autocompletion=names.completion([*QUESTIONS, *names.PROTOCOLS]),
        ),
    ],
    users: Annotated[int, option("Number of people to be asked.", "--users", "--num-users", min=1)],
    epsilon: Annotated[float, option("Privacy parameter of each user.")] = 1.0,
    features: Annotated[
        int | None,
        option(
            "Number of features of a row, of possible items, or of the model's parameters.",
            "--features",
            "--num-features",
            min=1,
        ),
    ] = None,
    rows: Annotated[
        float, option("Mean number of rows of a user.", "--rows", "--rows-per-user", min=1)
    ] = 1,
    quality: Annotated[
        float | None, option("R2 or AUC of the same model without privacy.", default="assumed")
    ] = None,
    between: Annotated[
        float | None,
        option(
            "Share of the variance of columns and residuals that is between users, 0 to 1.",
            "--between",
            "--variance-between",
            default="assumed",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        option(
            "Nodes that hold the people. Compares noise at the user, at the node, and shared.",
            "--nodes",
            "--num-nodes",
            min=1,
        ),
    ] = None,
    noise: Annotated[
        str | None, option("Plan noise at one place only: user, node or shared.", default="all")
    ] = None,
    target: Annotated[
        float | None, option("Desired error.", default="half of the expected error")
    ] = None,
    collections: Annotated[
        int | None, option("Number of collections, for a Series.", min=2)
    ] = None,
    drift: Annotated[
        float | None,
        option(
            "Standard deviation of the change of the true value from one collection to the next, "
            "in units of the error.",
            default="assumed",
            min=0,
        ),
    ] = None,
    html: Annotated[Path | None, option("File of a page for a reviewer.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the expected error of QUESTION, before any query.

    QUESTION is regression, classification, mean, counts, quantiles, distribution, heavy-hitters or
    model, or the name of a protocol (`ldp-flower protocols` lists them).

    A plan needs public numbers only, and reads no data.

    Exit codes: 0 with an answer, also if the answer is that the error is not known; 3 if the run
    would be refused; 2 for a bad argument.
    """
    from ..expectation import WrongSetting
    from ..planning import NoPlan, Setting
    from ..planning import plan as planned
    from ..planning.series import plan_series
    from ..strategies.catalogue import PROTOCOLS

    name = QUESTIONS.get(question, question)
    if name not in PROTOCOLS:
        fail(unknown(question, QUESTIONS, PROTOCOLS), USAGE)
    if collections is None and drift is not None:
        fail("Expected --drift with --collections only.", USAGE)
    if collections is not None and any(
        given is not None for given in (quality, target, html, noise)
    ):
        fail("Expected no --quality, --target, --html and --noise with --collections.", USAGE)
    every = nodes is not None and noise is None
    if every and html is not None:
        fail("Expected --noise with --nodes and --html: a page is about one plan.", USAGE)
    kind = PROTOCOLS[name]
    numbers: dict[str, Any] = {"num_users": users, "rows_per_user": rows, "num_features": features}
    show: Callable[[], None]
    try:
        if collections is not None:
            drift = _DRIFT if drift is None else drift
            setting = Setting(**numbers, num_nodes=nodes)
            series = plan_series(kind, setting, epsilon, collections, drift)
            document = {"protocol": name, **asdict(series)}
            show = partial(_show_series, series, users, epsilon, collections, drift)
            refused = not any(map(math.isfinite, series.errors))
        else:
            with console.status("Simulating runs on synthetic users"):
                numbers |= {"quality": quality, "variance_between": between, "target": target}
                asked = partial(planned, kind, epsilon=epsilon, **numbers)
                plans = [asked(num_nodes=nodes, noise=noise)]
                if every:
                    others = (each for each in kind.noises if each != plans[0].noise)
                    places = {each: None if each == "user" else nodes for each in others}
                    plans += [asked(noise=each, num_nodes=at) for each, at in places.items()]
                    plans.sort(key=lambda plan: names.NOISE.index(plan.noise))
            document, show = plans[0].to_dict(), partial(_show, plans[0])
            if every:
                document = {"protocol": name, "plans": [each.to_dict() for each in plans]}
                show = partial(_show_noises, plans)
            refused = all(each.expected is None for each in plans)
    except NoPlan as error:
        if as_json:
            print_json({"protocol": name, "no_plan": str(error)})
        else:
            console.print(Text(str(error)))
        return
    except WrongSetting as error:
        fail(error.about(_OPTIONS[error.field]), USAGE)
    except (ImportError, ValueError) as error:
        fail(str(error), USAGE)
    if as_json:
        print_json(document)
    else:
        show()
    if html is not None:
        try:
            plans[0].to_html(html)
        except OSError as error:
            fail(f"Cannot write {html}: {error.strerror}. Choose another --html.", USAGE)
        if not as_json:
            console.print(Text(f"Page: {html}"))
    if refused:
        raise typer.Exit(REFUSED)


def _show_series(
    plan: "SeriesPlan", users: int, epsilon: float, collections: int, drift: float
) -> None:
    """Show the errors of a series side by side, in the order of :attr:`SeriesPlan.errors`."""
    from ..planning.series import SPREAD

    head = f"{collections} collections, epsilon {epsilon:g} for all of them"
    table = Table(head, *numeric("error"), title=f"Expected {plan.error}", title_justify="left")
    ways = (
        f"split: all users each time, at {epsilon / collections:.2g}",
        f"panel of {users // collections:,}: its own estimate",
        "panels: today's level",
        "panels: past levels",
        "memoised: all users each time, times of changes public",
        "noise at the node: all users each time",
        "noise at the node: today's level",
        "noise at the node: past levels",
    )
    for what, expected in zip(ways, plan.errors, strict=True):
        if not math.isinf(expected):  # infinite for a kind of series that the protocol lacks
            table.add_row(what, _error(expected))
    console.print(table)
    console.print(
        "Assumes that the true value changes from one collection to the next with standard "
        f"deviation {drift:g}, in units of the error, and that the standard deviation of users' "
        f"values is {SPREAD:g} of the width of their bounds."
    )


def _show_noises(plans: list["Plan"]) -> None:
    """Show plans with noise at several places side by side, and whom each of them trusts."""
    from ..presentation.words import TRUSTS, number

    told = [plan.expected for plan in plans if plan.expected]
    what = told[0].error if told else "error"
    columns = numeric("error", "8 runs of 10", "users", "epsilon")
    table = Table("noise", *columns, title=f"Expected {what}", title_justify="left")
    for plan in plans:
        error, within = "refused", ""
        if expected := plan.expected:
            error = number(expected.value)
            within = f"{expected.low:.2g} to {expected.high:.2g}"
        ways = (plan.changes[name] for name in ("users", "epsilon"))
        shown = ["none" if way is None else f"{way:,g}" for way in ways]
        table.add_row(plan.noise, error, within, *shown)
    console.print(table, width=_WIDTH)
    target = plans[0].target if plans[0].target == plans[-1].target else math.nan
    aim = "half of the error" if math.isnan(target) else f"an error of {number(target)}"
    console.print(
        Text(
            f"Users, and epsilon: what reaches {aim}, or starts a refused run, with the other "
            "numbers as they are."
        ),
        width=_WIDTH,
        soft_wrap=False,
    )
    facts = [(plan.noise, TRUSTS[plan.noise]) for plan in plans]
    assumed = dict.fromkeys(text for each in told for text in each.assumes)
    facts += [("assumes", text) for text in assumed]
    console.print(Padding(grid_of(facts), (1, 0)), width=_WIDTH, soft_wrap=False)


def _show(plan: "Plan") -> None:
    from ..presentation.words import counted

    for sentence in plan.sentences():
        console.print(Text(sentence), width=_WIDTH, soft_wrap=False)
    if expected := plan.expected:
        spent = f"epsilon {plan.epsilon:g}" + (f", delta {plan.delta:g}" if plan.delta else "")
        facts = [
            (f"each {plan.protects}", spent),
            ("a report", counted(expected.report_bytes, "byte")),
            ("rounds", str(expected.rounds)),
            *(("assumes", text) for text in expected.assumes),
            *(("note", text) for text in expected.notes),
            *(("limit", str(bound)) for bound in plan.lower_bounds),
        ]
        console.print(Padding(grid_of(facts), (1, 0)), width=_WIDTH, soft_wrap=False)
    crowds = sorted({point["users"] for point in plan.curve})
    heads = numeric("epsilon", *(counted(int(users), plan.holder) for users in crowds))
    table = Table(*heads, title="Expected error", title_justify="left")
    errors = {(each["epsilon"], each["users"]): _error(each["error"]) for each in plan.curve}
    for epsilon in sorted({epsilon for epsilon, _ in errors}):
        # Other numbers of users have results at only a few epsilons.
        table.add_row(f"{epsilon:g}", *(errors.get((epsilon, users), "") for users in crowds))
    console.print(table, width=_WIDTH)


def _error(error: float) -> str:
    from ..presentation.words import number

    return "refused" if math.isnan(error) else number(error)
