"""Print the tables of errors in the docs, as Markdown.

Run it from the repository's root as ``python -m simulations.benchmarks.accuracy TABLE...``; without a
name it prints all of them, which takes hours.
"""

from enum import StrEnum
from typing import Annotated

import typer

from . import items, sparse, user_level

TABLES = {
    "items-zipf": items.measure_zipf,
    "items-distribution": items.measure_distribution,
    "items-flights": items.measure_flights,
    "sparse-means": sparse.measure_means,
    "sparse-classes": sparse.measure_classes,
    "steps": user_level.measure_steps,
    "regressions": user_level.measure_regressions,
    "means": user_level.measure_means,
}
Table = StrEnum("Table", [(name, name) for name in TABLES])  # type: ignore[misc]


def main(
    tables: Annotated[list[Table] | None, typer.Argument(help="by default all")] = None,
) -> None:
    """Measure and print."""
    for name in tables or TABLES:
        TABLES[str(name)]()


if __name__ == "__main__":
    typer.run(main)
