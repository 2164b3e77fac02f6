"""Compare the gate for fits on real tables with a gate of four moments, on synthetic people.

It prints the table of `simulations/studies/grouped_data/earlier.md`. Models range from useless
to nearly perfect:
shortened true slopes plus noise of various length. Mechanisms are the strategy's own.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from ldp_flower import Users
from ldp_flower.clients.statistics import compute
from ldp_flower.randomizers import Codebook, Estimate, Randomizer
from ldp_flower.strategies import Cohort, LdpStrategy, LinearResult
from ldp_flower.strategies.tables.holdout import gate, keep_back

from ..harness.command import Command
from ..harness.tables import Table

Floats = NDArray[np.float64]

FIRST_SEED = 7000
BAD = -0.05
_LEVELS = 0.4  # standard deviation of people's own levels, over that of what is not explained
_PAGE_SHARE, _PAGE_SCORES = 0.15, (1.5, 2.75)


@dataclass(frozen=True)
class People:
    """Users, the user of each row, and the slopes that targets follow."""

    users: Users
    user: NDArray[np.int64]
    slopes: Floats

    def mean(self, rows: Floats) -> Floats:
        """Return every user's mean."""
        return np.asarray(np.bincount(self.user, rows) / self.users.num_rows)

    def r2(self, coef: Floats) -> float:
        """Return R2, all users counting the same."""
        x, y = self.users.features, np.asarray(self.users.targets)
        level = self.mean(y).mean()
        loss = self.mean((y - x @ coef) ** 2).mean()
        return float(1 - loss / self.mean((y - level) ** 2).mean())


def people(num_users: int, rng: np.random.Generator) -> People:
    """Return users of 2 to 19 rows; targets have mean 0 and variance about 1."""
    dim = int(rng.choice([8, 40]))
    user = np.repeat(np.arange(num_users), rng.integers(2, 20, num_users))
    own, rows = rng.standard_normal((num_users, dim)), rng.standard_normal((len(user), dim))
    x = np.clip(math.sqrt(0.5) * (own[user] + rows), -3, 3)
    explained = rng.choice([0.0, 0.1, 0.3, 0.7])
    slopes = np.zeros(dim)
    slopes[: dim // 5] = rng.standard_normal(dim // 5)
    slopes *= math.sqrt(explained) / np.linalg.norm(slopes)
    rest = math.sqrt(1 - explained)
    y = x @ slopes + rest * _LEVELS * rng.standard_normal(num_users)[user]
    y += rest * math.sqrt(1 - _LEVELS**2) * rng.standard_normal(len(user))
    features = np.column_stack([np.ones(len(user)), x])
    return People(Users.from_rows(features, np.clip(y, -3, 3), user), user, slopes)


def model(slopes: Floats, rng: np.random.Generator) -> Floats:
    """Return coefficients like those of a private fit, good or bad."""
    noise = rng.standard_normal(len(slopes)) * math.sqrt(rng.choice([0.01, 0.1, 0.3, 0.8]))
    return np.append(0.0, rng.uniform(0.3, 1) * slopes + noise / math.sqrt(len(slopes)))


class Recruiter(LdpStrategy[Any]):
    """Hands out users in a random order; nothing is sent."""

    def __init__(self, order: NDArray[np.int64]) -> None:
        super().__init__(min_reports=20)
        self.order, self.taken = order, 0

    def protocol(self) -> Generator[Any, Any, LinearResult]:
        """Not run."""
        raise NotImplementedError

    @property
    def num_users(self) -> int:
        """Number of users."""
        return len(self.order)

    def cohorts(self, sizes: Any) -> list[Cohort]:
        """Return the next users."""
        ends = self.taken + np.cumsum([0, *sizes])
        self.taken = int(ends[-1])
        return [Cohort(int(low), int(high), int(high - low)) for low, high in pairwise(ends)]


def reported(randomizer: Randomizer, values: Floats, rng: np.random.Generator) -> Estimate:
    """Return what a server estimates from these users' reports."""
    return randomizer.estimate(randomizer.summarize(randomizer.randomize(values, rng)))


def by_difference(some: People, coef: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return what the library's gate returns, but for the mean, which is 0 by construction."""
    recruiter = Recruiter(rng.permutation(len(some.users)))
    asks = gate(keep_back(recruiter, epsilon), coef, epsilon)
    answer: Any = None
    while True:
        try:
            ask = asks.send(answer)
        except StopIteration as end:
            return np.asarray(end.value.length * coef)
        values = compute(some.users, ask.question)
        asked = recruiter.order[ask.cohort.low : ask.cohort.high]
        answer = reported(ask.randomizer, values[asked], rng)


def by_moments(
    some: People, coef: Floats, epsilon: float, rng: np.random.Generator, least: float
) -> Floats:
    """Return the coefficients of a gate of four moments, which rescales models.

    Judges report the moments of the prediction ``f`` (of unit slopes) and the target. The
    slopes' length is kept unless the estimated one differs by two standard errors; it is 0
    if the covariance is below ``least`` standard errors.
    """
    length = float(np.linalg.norm(coef))
    y = np.asarray(some.users.targets)
    f = some.users.features @ coef / length
    clipped = (
        np.minimum(f**2, 6) - 1,
        *(np.clip(v, -b, b) for v, b in ((f * y, 6), (f, 3), (y, 3))),
    )
    moments = np.column_stack([some.mean(rows) for rows in clipped])
    judges = rng.permutation(len(moments))[: int(_PAGE_SHARE * len(moments))]
    mechanism = Codebook(epsilon, 4, 1.5)
    square, product, mean_f, mean_y = reported(mechanism, moments[judges], rng).mean
    noise = math.sqrt(mechanism.variance / len(judges))
    variance, covariance = max(square + 1 - mean_f**2, 0.1), product - mean_f * mean_y
    if covariance < least * noise:
        return np.zeros_like(coef)
    wanted = covariance / variance
    error = noise / variance * math.sqrt(1 + wanted**2)
    return coef if abs(wanted - length) <= 2 * error else coef * wanted / length


def main(arguments: list[str] | None = None) -> None:
    """Print how often each gate returns a bad model, and how good what it returns is."""
    command = Command("simulations.benchmarks.gate", __doc__)
    command.add_argument("--runs", type=int, default=400, help="a setting, at least 20")
    runs = command.parse_args(arguments).runs
    if runs < 20:
        command.error(f"Expected runs >= 20, got {runs}.")
    gates = {
        "difference": by_difference,
        **{
            f"moments, {least:g} sd": lambda *known, least=least: by_moments(*known, least)
            for least in _PAGE_SCORES
        },
    }
    lines = []
    for num_users in (1000, 4000):
        for epsilon in (0.5, 1.0, 2.0, 4.0):
            before, after = [], {name: [] for name in gates}  # type: ignore[var-annotated]
            for run in track(
                range(runs), f"{num_users} users, epsilon {epsilon:g}", transient=True
            ):
                rng = np.random.default_rng(FIRST_SEED + run)
                some = people(num_users, rng)
                coef = model(some.slopes, rng)
                before.append(some.r2(coef))
                for name, judge in gates.items():
                    kept = judge(some, coef, epsilon, rng)
                    after[name].append((kept.any(), some.r2(kept)))
            useless = np.array(before) <= 0
            for name, found in after.items():
                passed, r2 = np.array(found).T
                shown = (np.mean(r2 < BAD), passed[useless].mean(), r2.mean())
                lines.append([f"{num_users}", f"{epsilon:g}", name, *(f"{s:.3f}" for s in shown)])
    head = ["users", "epsilon", "gate", "R2 below -.05", "passes, R2 <= 0", "mean R2"]
    Table("Gates", head, lines, ["gate"]).show()
    print(f"{np.mean(np.array(before) < BAD):.0%} of the models have an R2 below {BAD:g}.")


if __name__ == "__main__":
    main()
