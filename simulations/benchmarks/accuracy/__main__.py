"""Print the tables of errors in the docs, as Markdown; all of them take hours."""

from ...harness.command import Command
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


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    command = Command("simulations.benchmarks.accuracy", __doc__)
    command.choose("tables", TABLES)
    for name in command.parse_args(arguments).tables:
        TABLES[name]()


if __name__ == "__main__":
    main()
