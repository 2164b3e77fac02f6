"""Compare plans with runs: how far from what was expected is the error that came out."""

import csv
import importlib
import logging
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ldp_flower.planning import Expectation, WouldRefuse, expectation

from ...harness.command import Command, one_thread_each
from ...harness.tables import Table

_HERE = Path(__file__).parent
_FIELDS = ("planned", "low", "high", "measured", "inside", "seeds")


def judge(
    family: str, only: list[str], most: tuple[int, int], first_seed: int, output: Path
) -> None:
    """Run the cells of a family, and write a line for each that is not refused.

    ``most`` is how many cells of a protocol, and runs of a cell, there are at most.
    """
    module = importlib.import_module(f".{family}", __package__)
    with output.open("w", encoding="utf-8", newline="", buffering=1) as file:
        writer, judged = None, Counter[str]()
        for cell in module.cells():
            if (only and cell.protocol not in only) or judged[cell.protocol] >= most[0]:
                continue
            try:
                plan = expectation(cell.strategy, cell.setting)
            except WouldRefuse:
                continue
            judged[cell.protocol] += 1
            seeds = range(first_seed, first_seed + min(cell.seeds, most[1]))
            runs = [module.errors(cell, seed) for seed in seeds]
            values = (plan.value, plan.low, plan.high, cell.measured(runs))
            told = [*(f"{value:.4g}" for value in values), _inside(runs, plan), len(seeds)]
            line = {**asdict(cell), **dict(zip(_FIELDS, told, strict=True))}
            if writer is None:
                writer = csv.DictWriter(file, line, lineterminator="\n")
                writer.writeheader()
            writer.writerow(line)


def _inside(runs: list[Any], plan: Expectation) -> str:
    """Return which share of the runs lies in the range, where a run has one error."""
    if np.ndim(runs[0]):
        return ""
    return f"{np.mean([plan.low <= run <= plan.high for run in runs]):.4g}"


def table(path: Path, slack: float) -> Table:
    """Return which share of the cells of each protocol is near its plan."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = []
    for protocol in dict.fromkeys(row["protocol"] for row in rows):
        own = [row for row in rows if row["protocol"] == protocol]
        planned = np.array([float(row["planned"]) for row in own])
        off = np.array([float(row["measured"]) for row in own])
        least = slack if protocol == "HeavyHitters" else 0.0
        near = [
            (off <= factor * planned + least) & (planned <= factor * off + least)
            for factor in (1.25, 1.5, 2.0)
        ]
        seeds = "-".join(sorted({row["seeds"] for row in own}, key=int))
        told = [float(row["inside"]) for row in own if row.get("inside")]
        inside = f"{np.mean(told):.0%}" if told else "-"
        shares = [f"{each.mean():.0%}" for each in near]
        lines.append([protocol, *shares, inside, f"{len(own)}", seeds])
    head = ["protocol", "within 25 %", "factor 1.5", "factor 2", "in range", "cells", "runs each"]
    return Table("Plans", head, lines, {"protocol"}, "Shares of the cells.")


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run and print the table."""
    command = Command("simulations.studies.planning", __doc__)
    command.add_argument("--family", required=True, help="a module of this folder")
    command.add_argument("--only", nargs="*", default=[], help="protocols (default: all)")
    command.add_argument("--cells", type=int, default=1000, help="at most, of a protocol")
    command.add_argument("--runs", type=int, default=1000, help="at most, of a cell")
    command.add_argument("--first-seed", type=int, default=0)
    command.add_argument("--only-report", action="store_true")
    command.add_argument("--output", type=Path, help="CSV (default: beside this module)")
    options = command.parse_args(arguments)
    one_thread_each()
    logging.disable(logging.CRITICAL)
    if options.only and not options.output and not options.only_report:
        command.error("--only needs --output: the published file has all protocols.")
    path = options.output or _HERE / f"{options.family}.csv"
    if not options.only_report:
        most = options.cells, options.runs
        judge(options.family, options.only, most, options.first_seed, path)
    table(path, 0.05).show()


if __name__ == "__main__":
    main()
