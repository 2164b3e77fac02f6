"""Measure what rows of Synthesize are worth on tables that it was not tuned on."""

import logging
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from ldp_flower import Categories, Schema, simulate
from ldp_flower.strategies import (
    PrivateClassification,
    PrivateRegression,
    Synthesize,
    TooFewReports,
)
from ldp_flower.strategies.analytics.synthesize_result import SynthesizeResult
from ldp_flower.strategies.numerics.normal_scale import quantiles

from ...harness.command import StudyCommand, carry_out
from ...harness.runs import Task, sweep_of
from ...harness.tables import Table
from .tables import NAMES, TAXIS, split, table

_NODES, _ROWS = 10, 20_000
_NO_PRIVACY, _MODEL, _DRAWN = "without privacy", "private model", "its rows"
_METHODS = [_NO_PRIVACY, _MODEL, _DRAWN]
_DISTANCES = [
    f"{ways}_way{what}" for ways in ("one", "two") for what in ("", "_stated", "_low", "_high")
]


@dataclass(frozen=True)
class Setting:
    """A table, and what its people pay."""

    table: str
    epsilon: float
    noise: str


def _score_of_rows(rows: pd.DataFrame, held_out: pd.DataFrame, schema: Schema) -> float:
    """Return R2 or AUC on held-out rows of a model that is trained on rows without privacy."""
    x, judged = schema.features(rows)[:, 1:], schema.features(held_out)[:, 1:]
    if not schema.classes:
        model = LinearRegression().fit(x, rows[schema.target])
        return float(r2_score(held_out[schema.target], model.predict(judged)))
    classes = schema.targets(rows)
    if len(set(classes)) == 1:
        return 0.5
    classifier = LogisticRegression(max_iter=1000).fit(x, classes)
    return float(roc_auc_score(schema.targets(held_out), classifier.decision_function(judged)))


def _private_model(
    rows: pd.DataFrame, held_out: pd.DataFrame, schema: Schema, task: Task
) -> dict[str, Any]:
    method = PrivateClassification if schema.classes else PrivateRegression
    asked = method(schema, epsilon=task.setting.epsilon, noise=task.setting.noise)
    found = simulate(asked, schema.users(rows), seed=task.seed, num_nodes=_NODES)
    predicted = schema.features(held_out) @ np.atleast_2d(found.coef)[-1]
    score = roc_auc_score if schema.classes else r2_score
    return {"score": score(schema.targets(held_out), predicted)}


def _drawn(
    rows: pd.DataFrame, held_out: pd.DataFrame, schema: Schema, task: Task
) -> dict[str, Any]:
    asked = Synthesize(schema, epsilon=task.setting.epsilon, noise=task.setting.noise)
    found = simulate(asked, schema.users(rows), seed=task.seed, num_nodes=_NODES)
    stated = [found.one_way, *found.one_way_interval, found.two_way, *found.two_way_interval]
    one, two = distances(found, schema, rows)
    values = [one, *stated[:3], two, *stated[3:]]
    score = _score_of_rows(found.rows(_ROWS, task.seed), held_out, schema)
    return {"score": score, **dict(zip(_DISTANCES, values, strict=True))}


def distances(found: SynthesizeResult, schema: Schema, rows: pd.DataFrame) -> tuple[float, float]:
    """Return the mean total variation from the people's tables, of columns and of pairs."""
    codes = []
    for name, scale, shares in zip(found.columns, found.scales, found.measured, strict=True):
        kind = schema.kind(name)
        if isinstance(kind, Categories):
            codes.append(np.asarray(kind.coded(rows[name])).astype(int))
            continue
        edges = quantiles(scale, np.linspace(0, 1, len(shares) + 1)[1:-1])
        codes.append(np.searchsorted(edges, np.clip(rows[name], kind.low, kind.high)))
    one = [
        _variation(found.mixture.one_way(place), np.bincount(own, minlength=len(shares)))
        for place, (own, shares) in enumerate(zip(codes, found.measured, strict=True))
    ]
    two = []
    for first, second in combinations(range(len(codes)), 2):
        fitted = found.mixture.two_way(first, second)
        cells = codes[first] * fitted.shape[1] + codes[second]
        two.append(_variation(fitted.ravel(), np.bincount(cells, minlength=fitted.size)))
    return float(np.mean(one)), float(np.mean(two))


def _variation(shares: "np.ndarray[Any, Any]", counts: "np.ndarray[Any, Any]") -> float:
    return float(np.abs(shares - counts / counts.sum()).sum() / 2)


def _measured(file: Path | None, task: Task) -> dict[str, object]:
    """Return a score on held-out rows, and the distances of tables; neither of refused runs."""
    logging.disable(logging.WARNING)
    schema, frame = table(task.setting.table, file)
    rows, held_out = split(frame, task.seed)
    found: dict[str, object] = dict.fromkeys(["score", *_DISTANCES], float("nan"))
    found["people"] = len(rows)
    if task.method == _NO_PRIVACY:
        return {**found, "score": _score_of_rows(rows, held_out, schema)}
    try:
        measure = _drawn if task.method == _DRAWN else _private_model
        return {**found, **measure(rows, held_out, schema, task)}
    except TooFewReports:
        return found


def report(runs: pd.DataFrame) -> Table:
    """Return, by table, epsilon and noise, scores and total variation."""
    lines = []
    for (name, epsilon, noise), own in runs.groupby(["table", "epsilon", "noise"], sort=False):
        scores = [_mean(own["score"][own["method"] == method], 2) for method in _METHODS]
        drawn = own[(own["method"] == _DRAWN) & own["score"].notna()]
        lines.append([str(name), str(own["people"].iloc[0]), f"{epsilon:g}", str(noise), *scores])
        for ways in ("two_way", "one_way"):
            hold = drawn[ways].between(drawn[f"{ways}_low"], drawn[f"{ways}_high"]).sum()
            stated = _mean(drawn[f"{ways}_stated"], 3)
            lines[-1] += [f"{_mean(drawn[ways], 3)} ({stated})", f"{hold} of {len(drawn)}"]
    return Table(
        "Rows of Synthesize",
        [
            "table",
            "people",
            "epsilon",
            "noise",
            *_METHODS,
            "pairs",
            "pairs hold",
            "columns",
            "columns hold",
        ],
        lines,
        {"table", "noise"},
        "R2 or AUC on held-out people, means over splits; - if refused. Total variation of pairs' "
        "tables and of columns' (as stated), and how many of their 95 % intervals hold.",
    )


def _mean(values: "pd.Series[float]", digits: int) -> str:
    return f"{values.mean():.{digits}f}" if values.notna().any() else "-"


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run what is missing, report."""
    command = StudyCommand("simulations.studies.synthetic_rows", __doc__, seeds=2)
    command.choose("tables", NAMES, "all there are")
    command.set_defaults(tables=None)
    command.add_argument("--taxis", type=Path, help="file of the taxi rides")
    command.add_argument("--noise", choices=["node", "user"], default="node")
    command.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0])
    options = command.options(arguments)
    there = [name for name in NAMES if options.taxis or name != TAXIS]
    tasks = [
        Task(Setting(name, epsilon, options.noise), method, seed)
        for name, epsilon, seed, method in product(
            options.tables or there, options.epsilons, options.seeds, _METHODS
        )
    ]
    sweep = sweep_of(Setting, ["score", "people", *_DISTANCES], partial(_measured, options.taxis))
    carry_out(options, sweep, tasks, report, lambda runs: {})


if __name__ == "__main__":
    main()
