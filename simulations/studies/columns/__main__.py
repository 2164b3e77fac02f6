"""Compare quantiles and distributions of a column with their limit and the textbook's methods."""

import logging
import math

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Schema, simulate
from ldp_flower.strategies import Distribution, Quantiles

from ...harness.command import Command
from ...harness.tables import Table
from .shapes import SHAPES
from .textbook import TEXTBOOK

Floats = NDArray[np.float64]

_POINTS = np.linspace(0, 1, 1025)  # of the bounds, at which distribution functions are compared


def distribution_errors(shape: str, users: int, epsilon: float, seed: int) -> list[Floats]:
    """Return the largest and the mean error of Distribution and of each textbook method."""
    bounds, draw = SHAPES[shape]
    entries = draw(np.random.default_rng([seed, 1]), users)
    schema = Schema({"value": bounds})
    strategy = Distribution(schema, "value", epsilon=epsilon)
    found = simulate(strategy, schema.users({"value": entries}), seed=seed)
    span = bounds.high - bounds.low
    values = bounds.low + span * _POINTS
    truth = np.searchsorted(np.sort(entries), values, side="right") / users
    functions = [found.cdf(values)]
    for method in TEXTBOOK.values():
        rng = np.random.default_rng([seed, 2])
        functions.append(np.interp(_POINTS, *method((entries - bounds.low) / span, epsilon, rng)))
    off = np.abs(np.array(functions) - truth)
    return [off.max(axis=1), off.mean(axis=1)]


def quantile_error(
    shape: str, users: int, epsilon: float, seed: int, levels: tuple[float, ...]
) -> float:
    """Return the mean square of the quantiles' errors in rank, ties apart, over the limit's."""
    bounds, draw = SHAPES[shape]
    entries = draw(np.random.default_rng([seed, 1]), users)
    schema = Schema({"value": bounds})
    strategy = Quantiles(schema, "value", levels, epsilon=epsilon)
    found = simulate(strategy, schema.users({"value": entries}), seed=seed).values
    ordered = np.sort(entries)
    below, up_to = (np.searchsorted(ordered, found, side=s) / users for s in ("left", "right"))
    off = np.maximum(np.maximum(below - levels, levels - up_to), 0)
    limit = len(levels) * math.exp(epsilon) / math.expm1(epsilon) ** 2 / users
    return float(np.mean(off**2)) / limit


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and print both tables."""
    command = Command("simulations.studies.columns", __doc__)
    command.choose("--shapes", SHAPES)
    command.add_argument("--users", nargs="+", type=int, default=[2500, 10_000, 100_000])
    command.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0])
    command.add_argument("--levels", nargs="+", type=float, default=[0.5])
    command.add_argument("--seeds", type=int, default=5, help="how many (default: 5)")
    command.add_argument("--first-seed", type=int, default=0)
    options = command.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    lines = []
    for shape in options.shapes:
        for users in options.users:
            for epsilon in options.epsilons:
                setting = shape, users, epsilon
                seeds = range(options.first_seed, options.first_seed + options.seeds)
                levels = tuple(options.levels)
                squares = [quantile_error(*setting, seed, levels) for seed in seeds]
                errors = np.mean([distribution_errors(*setting, seed) for seed in seeds], axis=0)
                best = errors[:, 1:].min(axis=1)
                lines.append(
                    [
                        *(shape, f"{users}", f"{epsilon:g}", f"{math.sqrt(np.mean(squares)):.2f}"),
                        *(f"{own:.4f}" for own in errors[:, 0]),
                        *(
                            f"{own / other:.2f}"
                            for own, other in zip(errors[:, 0], best, strict=True)
                        ),
                    ]
                )
    head = [
        "shape",
        "users",
        "epsilon",
        "quantile",
        "largest",
        "mean",
        "over best",
        "mean over best",
    ]
    Table(
        "Columns",
        head,
        lines,
        {"shape"},
        "quantile: root mean square error in rank over the limit of one bit a user. largest, mean: "
        "errors of the distribution function, and these over the best textbook method's.",
    ).show()


if __name__ == "__main__":
    main()
