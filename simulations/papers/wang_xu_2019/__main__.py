"""Run both experiments of Wang & Xu (ICML 2019), then print the table and draw the figure.

Run it from the repository's root as ``python -m simulations.papers.wang_xu_2019``. Runs that
are in the CSV already are not repeated, so it may be interrupted and continued.
"""

import argparse
import os
from pathlib import Path

import pandas as pd

from .experiments import sweep, tasks
from .report import draw, show, write_markdown


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.papers.wang_xu_2019", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="all methods at one small setting each")
    add("--seeds", type=int, default=None, help="data sets a setting (5, quick: 2)")
    add("--processes", type=int, default=os.cpu_count() or 1)
    add("--output", type=Path, default=Path("results/wang_xu_2019"))
    options = parser.parse_args(arguments)
    # One thread each: workers inherit it, and read it before their linear algebra loads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wanted = tasks(options.seeds or (2 if options.quick else 5), options.quick)
    path = options.output / "runs.csv"
    sweep(wanted, path, options.processes)
    runs = pd.read_csv(path)
    show(runs)
    write_markdown(runs, options.output / "table.md")
    draw(runs, options.output / "wang-xu.png")
    print(f"Wrote {options.output}/wang-xu.png and table.md")


if __name__ == "__main__":
    main()
