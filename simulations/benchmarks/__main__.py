"""Measure how fast everything is, and what it takes of memory; print, store and draw it.

Every measurement has a process of its own; what is in the CSV already is not measured again,
so it may be interrupted and continued.
"""

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd

from ..harness.command import Command, one_thread_each
from ..harness.figures import save
from . import frequency
from .cells import Cell
from .figure import draw
from .measure import COLUMNS, sweep
from .report import show, slopes
from .workloads import WORKLOADS, Training


class Part(StrEnum):
    """What can be measured."""

    PROTOCOLS = "protocols"
    SCALING = "scaling"
    VARIATES = "variates"
    CODEBOOKS = "codebooks"
    ENGINE = "engine"
    ORACLES = "oracles"


_VENV = Path("~/.cache/ldp-flower/benchmark-venv")
_QUICK = {"LdpIht": 40_000, "SparseRegression": 100, "HeavyHitters": 5_000}


def protocols(quick: bool) -> list[Cell]:
    """Return every protocol in process."""
    sizes = {name: work.users for name, work in WORKLOADS.items()}
    cells = []
    for name, users in (_QUICK if quick else sizes).items():
        work = WORKLOADS[name]
        nodes = users if isinstance(work, Training) else 1
        cells.append(Cell("generated", name, users, work.dim, work.rows, nodes))
        if name == "SparseRegression":
            cells.append(replace(cells[-1], place="arrays"))
    return cells


def scaling(quick: bool) -> list[Cell]:
    """Return cells that differ in users, features or records alone."""
    # LdpIht refuses fewer than 30,028 users at 256 features, and 150,140 at 1,024.
    iht, regression = Cell("generated", "LdpIht", 40_000, 256), WORKLOADS["SparseRegression"]
    many = Cell("generated", "SparseRegression", 400, 64, regression.rows)
    if quick:
        return [replace(iht, users=users) for users in (50_000, 100_000)]
    mean = Cell("generated", "UserLevelMean", 10_000, 64, 10)
    counts = (31_623, 100_000, 316_228, 1_000_000)
    return [
        *(replace(iht, users=users) for users in counts),
        *(replace(mean, users=users) for users in (1_000, 3_162, 10_000, 31_623)),
        *(replace(iht, users=200_000, dim=dim) for dim in (64, 128, 256, 512, 1024)),
        *(replace(many, dim=dim) for dim in (32, 64, 128, 256, 512)),
        *(replace(many, rows=rows) for rows in (25, 50, 100, 200, 400)),
    ]


def engine(quick: bool) -> list[Cell]:
    """Return the engine with one user a node, and with many, and beside it one process."""
    if quick:
        return [Cell("engine", "NonInteractiveIht", 80, 64, nodes=80, rounds=1)]
    alone = [
        Cell("engine", name, work.alone, work.dim, work.rows, nodes=work.alone)
        for name, work in WORKLOADS.items()
        if name != "LdpIht"  # which refuses so few users
    ]
    many = Cell("engine", "NonInteractiveIht", 2_000, 256, nodes=2_000)
    shared = [replace(many, users=10 * users, nodes=10) for users in (100, 1_000, 10_000, 100_000)]
    return [*alone, many, replace(many, place="grid"), *shared]


def variates(quick: bool) -> list[Cell]:
    """Return the randomizers alone."""
    from .variates import MECHANISMS

    users = 20_000 if quick else 200_000
    return [Cell("variates", name, users, 256) for name in MECHANISMS]


def codebooks(quick: bool) -> list[Cell]:
    """Return codebooks of few and of many dimensions."""
    from .codebooks import SIZES

    dims = list(SIZES)[:1] if quick else list(SIZES)
    return [Cell("codebook", f"{dim:,} dimensions", SIZES[dim], dim, rounds=7) for dim in dims]


_CELLS = {
    Part.PROTOCOLS: protocols,
    Part.SCALING: scaling,
    Part.VARIATES: variates,
    Part.CODEBOOKS: codebooks,
    Part.ENGINE: engine,
}


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, store and draw."""
    command = Command("simulations.benchmarks", __doc__)
    add = command.add_argument
    command.choose("parts", Part, "all, quick: without the other libraries")
    add("--quick", action="store_true", help="small sizes, about a minute")
    add("--venv", type=Path, default=_VENV, help="environment of other libraries")
    command.output()
    options = command.parse_args(arguments)
    quick, output = options.quick, options.output
    # One thread each: a protocol uses one core, and so does what it is compared with.
    one_thread_each()
    wanted = [Part(part) for part in options.parts]
    if quick and wanted == list(Part):
        wanted.remove(Part.ORACLES)
    cells = [cell for part in wanted if part in _CELLS for cell in _CELLS[part](quick)]
    path = output / ("quick.csv" if quick else "runs.csv")
    output.mkdir(parents=True, exist_ok=True)
    if cells:
        sweep(list(dict.fromkeys(cells)), path, 1)
    runs = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)
    known = runs.astype(object).where(runs.notna(), None)  # JSON has no NaN
    results: dict[str, Any] = {"runs": known.to_dict("records"), "slopes": slopes(runs)}
    stored = output / "oracles.json"
    if Part.ORACLES in wanted:
        python = frequency.environment(options.venv.expanduser())
        stored.write_text(json.dumps(frequency.compare(python, 100_000, 1_024, 2.0)) + "\n")
    results["oracles"] = json.loads(stored.read_text()) if stored.exists() else None
    show(runs, results["slopes"], results["oracles"])
    numbers = output / "benchmarks.json"
    numbers.write_text(json.dumps(results, indent=1) + "\n")
    figure = draw(runs, results["slopes"], results["oracles"])
    save(figure, output / "benchmarks.png", numbers)


if __name__ == "__main__":
    main()
