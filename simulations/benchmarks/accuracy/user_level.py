"""Measure the user-level mean and the two- and multi-round regressions on synthetic data.

They are tables of simulations/user_level/README.md.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower import Users, simulate
from ldp_flower.strategies import MultiRoundRegression, TwoRoundRegression, UserLevelMean

Floats = NDArray[np.float64]

SEEDS = 20
SPARSITY, SIZE, NOISE = 8, 0.2, 1.0
SCALE = float(np.hypot(NOISE, SIZE * np.sqrt(SPARSITY)))


def sparse_users(num_users: int, rows: int, dim: int, seed: int) -> tuple[Users, Floats]:
    """Return users of normal features and eight equal coefficients at random places."""
    rng = np.random.default_rng(seed)
    beta = np.zeros(dim)
    beta[rng.choice(dim, SPARSITY, replace=False)] = SIZE
    x = rng.standard_normal((num_users * rows, dim), dtype=np.float32)
    y = x @ beta + NOISE * rng.standard_normal(len(x))
    return Users(x, y, np.arange(num_users + 1) * rows), beta


def print_errors(variants: Mapping[str, Any], setting: Mapping[str, Any]) -> None:
    """Print the mean error of every variant, with the standard error of that mean."""
    num_users, rows, dim = setting["n"], setting["m"], setting["d"]
    errors: dict[str, list[float]] = {name: [] for name in variants}
    for seed in range(SEEDS):
        users, beta = sparse_users(num_users, rows, dim, seed)
        for name, variant in variants.items():
            strategy = variant(
                dim,
                epsilon=setting["epsilon"],
                samples_per_user=rows,
                sparsity=SPARSITY,
                selector="marginal",
                target_scale=SCALE,
            )
            coef = simulate(strategy, users, seed=seed).coef
            errors[name].append(float(np.linalg.norm(coef - beta)))
    cells = [f"{np.mean(e):.3f} +- {np.std(e) / SEEDS**0.5:.3f}" for e in errors.values()]
    print(f"| {' | '.join(map(str, setting.values()))} | {' | '.join(cells)} |", flush=True)


def measure_steps() -> None:
    """Print errors by the number of gradient steps."""
    steps = (3, 5, 10, 20, 40)
    print(f"| n | m | d | epsilon | {' | '.join(map(str, steps))} |")
    variants = {str(number): partial(MultiRoundRegression, num_steps=number) for number in steps}
    for n, m, d, epsilon in ((400, 100, 256, 4), (4000, 100, 32, 1), (4000, 50, 32, 4)):
        print_errors(variants, {"n": n, "m": m, "d": d, "epsilon": epsilon})


def measure_regressions() -> None:
    """Print errors of both regressions by method."""
    default = {"n": 400, "m": 100, "d": 256, "epsilon": 4}
    settings = [default | {"epsilon": epsilon} for epsilon in (1, 2, 4, 8)]
    settings += [default | {"n": n} for n in (200, 800)]
    settings += [default | {"m": m} for m in (50, 200)]
    settings += [default | {"d": d} for d in (64, 1024)]
    variants = {
        f"{kind.__name__} {method}": partial(kind, method=method)
        for kind in (TwoRoundRegression, MultiRoundRegression)
        for method in kind.methods
    }
    print(f"| n | m | d | epsilon | {' | '.join(variants)} |")
    for setting in settings:
        print_errors(variants, setting)


def measure_means() -> None:
    """Print root mean square errors of the mean, and the mean square of its z-scores."""
    print(
        "| n | d | epsilon | auto | auto, spread declared | paper, spread declared | no privacy |"
    )
    num_rows, bound = 100, 2.0  # the truth has length 1, rows have unit variance
    for num_users, dim in ((2000, 4), (2000, 16), (2000, 64), (20_000, 64)):
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
            squares: list[list[float]] = []
            scores: list[list[float]] = []
            for seed in range(SEEDS):
                rng = np.random.default_rng(seed)
                truth = rng.standard_normal(dim)
                truth /= np.linalg.norm(truth)
                # A row that is the mean of a hundred.
                x = truth + rng.standard_normal((num_users, dim)) / np.sqrt(num_rows)
                users = Users.from_rows(x)
                spread = float(np.sqrt(dim / num_rows))
                found: list[Floats] = []
                errors: list[Floats] = []
                for arguments in (
                    {"bound": bound},
                    {"bound": bound, "spread": spread},
                    {"bound": bound / dim**0.5, "spread": spread, "method": "paper"},
                ):
                    strategy = UserLevelMean(dim, epsilon=epsilon, **arguments)
                    result = simulate(strategy, users, seed=seed)
                    found.append(result.coef - truth)
                    errors.append(result.std_error)
                found.append(x.mean(axis=0) - truth)
                squares.append([float(error @ error) for error in found])
                pairs = zip(found, errors, strict=False)
                scores.append([float(np.mean((f / e) ** 2)) for f, e in pairs])
            rms, z = np.sqrt(np.mean(squares, axis=0)), np.mean(scores, axis=0)
            cells = [f"{r:.4f} ({s:.2f})" for r, s in zip(rms, z, strict=False)]
            row = (num_users, dim, epsilon, *cells, f"{rms[-1]:.4f}")
            print(f"| {' | '.join(map(str, row))} |", flush=True)
