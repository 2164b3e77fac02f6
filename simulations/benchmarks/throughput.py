"""Compare the throughput of randomising vectors with what merely drawing costs NumPy.

Run it as ``python simulations/benchmarks/throughput.py``. The yardstick is the time in
which NumPy draws the variates of a mechanism and gathers the coordinates that it
reads, without any arithmetic on them. Both are timed on the same chunks of users, in
turn, and the fastest of three passes counts.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ldp_flower.randomizers import PrivUnit, Randomizer, SubsetHypercube
from ldp_flower.randomness import KeyedRandom, NumpyRandom, RandomSource, derive

Floats = NDArray[np.float64]
PASSES, LIMIT = 3, 4.0


def draw_privunit(mechanism: PrivUnit, values: Floats, rng: np.random.Generator) -> None:
    """Draw a normal vector and three uniforms for each user."""
    rng.standard_normal(values.shape)
    rng.random((len(values), 3))


def draw_hypercube(mechanism: SubsetHypercube, values: Floats, rng: np.random.Generator) -> None:
    """Draw uniforms and words for each user and gather its coordinates."""
    users, dim = values.shape
    rng.random((users, mechanism.subset))
    rng.integers(0, 1 << 64, (users, 2), np.uint64)
    start = rng.integers(0, 1 << 64, (users, 1), np.uint64)
    run = (start + np.arange(mechanism.subset, dtype=np.uint64)) % np.uint64(dim)
    np.take_along_axis(values, run.astype(np.int64), axis=1)


def source(name: str, users: int, number: int) -> RandomSource:
    """Return a random source for a chunk of users."""
    if name == "NumpyRandom":
        return NumpyRandom(np.random.default_rng(number))
    return KeyedRandom(derive(number, np.arange(users, dtype=np.uint64)))


def chunks(values: Floats, users: int) -> Iterator[Floats]:
    """Yield the values of as many users, chunk by chunk."""
    for start in range(0, users, len(values)):
        yield values[: users - start]


def timed(function: Callable[..., object], *arguments: object) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def compare(
    mechanism: Randomizer, draw: Callable[..., None], values: Floats, users: int, name: str
) -> dict[str, Any]:
    """Return the fastest times a user of the mechanism and of NumPy's drawing."""
    rng = np.random.default_rng(1)
    mechanism.randomize(values[:10], rng)
    passes = []
    for _ in range(PASSES):
        ours = numpy = 0.0
        for number, chunk in enumerate(chunks(values, users)):
            private = source(name, len(chunk), number)
            numpy += timed(draw, mechanism, chunk, rng)
            ours += timed(mechanism.randomize, chunk, private)
        passes.append((ours, numpy))
    ours, numpy = (min(seconds) / users * 1e6 for seconds in zip(*passes, strict=True))
    return {
        "mechanism": type(mechanism).__name__,
        "epsilon": mechanism.epsilon,
        "source": name,
        "microseconds": ours,
        "numpy_microseconds": numpy,
        "ratio": ours / numpy,
    }


def main() -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--chunk", type=int, default=16_384, help="users a call")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    values = np.random.default_rng(0).uniform(
        -1, 1, (min(options.chunk, options.users), options.dim)
    )
    cases = [
        (mechanism(epsilon, options.dim), draw)
        for mechanism, draw in ((SubsetHypercube, draw_hypercube), (PrivUnit, draw_privunit))
        for epsilon in options.epsilon
    ]
    rows = [
        compare(mechanism, draw, values, options.users, name)
        for mechanism, draw in cases
        for name in ("NumpyRandom", "KeyedRandom")
    ]
    table = Table(title=f"{options.users:,} users, {options.dim} coordinates, at most {LIMIT:g}")
    for heading in ("mechanism", "epsilon", "source"):
        table.add_column(heading)
    for heading in ("microseconds\na user", "NumPy's\ndrawing", "ratio"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            *(f"{row[key]}" for key in ("mechanism", "epsilon", "source")),
            *(f"{row[key]:.3g}" for key in ("microseconds", "numpy_microseconds")),
            f"[{'green' if row['ratio'] <= LIMIT else 'red'}]{row['ratio']:.2f}",
        )
    Console().print(table)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "throughput.json"
    setting = {"users": options.users, "chunk": options.chunk, "dim": options.dim}
    path.write_text(json.dumps(setting | {"rows": rows}, indent=1) + "\n")
    print(f"Wrote {path.absolute()}")


if __name__ == "__main__":
    main()
