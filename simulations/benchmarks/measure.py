"""One measurement, in a process of its own: ``python -m simulations.benchmarks.measure JSON``.

Ours and what it is compared with take turns in the same process, and the fastest of
several rounds of each counts.
"""

import json
import logging
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from flwr.clientapp import ClientApp

from ldp_flower import InProcessGrid, Users
from ldp_flower.compare.sweep import Sweep

from . import workloads
from .cells import TIMES, Cell, in_turns, messages
from .workloads import WORKLOADS

_BLOCK = 1024  # users that are drawn at once, as many as our clients take


def numpys(cell: Cell) -> Callable[[], None]:
    """Return what draws the users' data with NumPy, as many at a time as our clients take."""
    generate, rng = WORKLOADS[cell.name].generate, np.random.default_rng(1)

    def draw(users: int) -> None:
        if generate is workloads.signs:
            rng.integers(0, 2, (users, cell.dim), np.uint8)
        elif generate is workloads.items:
            rng.random(users)
        else:
            rng.standard_normal((users * cell.rows, cell.dim + 1))

    def draw_all() -> None:
        for start in range(0, cell.users, _BLOCK):
            draw(min(_BLOCK, cell.users - start))

    return draw_all


def in_process(cell: Cell) -> dict[str, float]:
    """Measure a protocol in this process beside NumPy drawing its users' data."""
    workload = WORKLOADS[cell.name]
    everyone: Any = workload.population(cell.users, cell.dim, cell.rows)
    if cell.place == "arrays":
        everyone = everyone.take(np.arange(cell.users))
        assert isinstance(everyone, Users)

    app, asked = ClientApp(), list[int]()
    workload.serve(app, everyone, cell.nodes)

    def ours() -> None:
        grid = InProcessGrid(app, cell.nodes)
        asked[:] = messages(workload.start(grid, cell.dim, cell.rows, cell.nodes), cell.nodes)

    return {**in_turns(ours, numpys(cell), cell.rounds), "messages": sum(asked)}


def measure(cell: Cell) -> dict[str, Any]:
    """Measure a cell in this process."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    if cell.place == "engine":
        from .engine import in_engine as function
    elif cell.place == "variates":
        from .variates import beside_numpy as function
    elif cell.place == "codebook":
        from .codebooks import beside_privunit as function
    else:
        function = in_process
    found = function(cell)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # One process uses one core, and what others do on it is not to count; the engine uses all.
    seconds = "seconds" if cell.place == "engine" else "cpu_seconds"
    return {
        **asdict(cell),
        **found,
        "users_per_second": cell.users / found[seconds],
        "times_reference": found[seconds] / found[f"reference_{seconds}"],
        "peak_mb": round(peak + found.get("actors_mb", 0.0)),
    }


def run(cell: Cell) -> dict[str, Any]:
    """Return the row of a cell, measured by a fresh process: its memory is nobody else's."""
    command = [sys.executable, "-m", f"{__package__}.measure", json.dumps(asdict(cell))]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{cell.label} failed:\n{done.stderr[-3000:]}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {name: row.get(name, "") for name in COLUMNS}


KEY = [field.name for field in fields(Cell)]
COLUMNS = [
    *KEY,
    *TIMES,
    "users_per_second",
    "times_reference",
    "peak_mb",
    "messages",
    "start_seconds",
]
sweep = Sweep(KEY, COLUMNS, run)

if __name__ == "__main__":
    print(json.dumps(measure(Cell(**json.loads(sys.argv[1])))))
