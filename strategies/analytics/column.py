"""A column of numbers: its public bounds, and an estimate of its entries' step.

The step of a column is a round number of which nearly all entries are multiples.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.questions import Grain, GrainShares
from ldp_flower.randomizers import Estimate, FrequencyOracle, best_frequency_oracle
from ldp_flower.validation import Floats

from ..numerics.denoising import project_on_simplex
from ..numerics.value_scale import coarsest_step, steps_from
from ..runtime import Ask, Run
from ..runtime.run import RunSettings
from ..sums.budget import Budget

# Candidate steps go down to 1, or to this part of the largest candidate if that is below 1.
_FINEST = 1e-3
_MOST_STEPS = 24  # limit on the number of candidate steps, two a decade: some eleven decades
_ERROR = 0.08  # largest standard error of the share of entries with one candidate as their step
# Smallest and largest share of the users who report their step. Between the two, _ERROR determines
# the number of users; if it needs more than the largest share, no user reports a step.
_PART = 0.02, 0.12
# Number of standard errors that show a finer step: noise exceeds it in 1 of 56 cases. At the node
# errors are of noise alone, and noise exceeds the second number in 1 of 100 cases or fewer.
_FINER_STEP_Z, _FINER_STEP_Z_AT_NODE = 2.1, 3.0
# Significance threshold for a step, in standard errors, and the increase of the squared threshold
# for each coarser step that is tested along with it. Noise exceeds it in one of 60 columns.
_SEEN, _MORE = 3.0, 3.0

#: Share of the budget that is spent on the step, with noise at the node.
STEP_SHARE = 0.05


@dataclass(frozen=True)
class Entries:
    """Findings of :func:`learn_step` about a column's entries, from the reports of a few users."""

    step: float | None = None  # number of which nearly all entries are multiples, if there is one
    hardly_any: bool = False  # True if nearly all entries may be missing; then step is None


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers of a schema, with what questions about it need."""

    name: str
    kind: Numeric
    place: int  # index of the column among the features; the target comes after the features

    @classmethod
    def of(cls, schema: Schema, name: str, argument: str = "column") -> Self:
        """Return a column of a schema; raise ValueError if it has categories.

        ``argument`` is the argument that named the column, for the error.
        """
        kind = schema.kind(name, argument)
        if not isinstance(kind, Numeric):
            raise ValueError(f"Expected {argument} of numbers, got {name!r}, which has categories.")
        return cls(name, kind, schema.places(name)[0])

    @property
    def coordinates(self) -> NDArray[np.int64]:
        """Array with the column's index, by which a question names it, shape (1,)."""
        return np.array([self.place])

    @property
    def span(self) -> float:
        """Distance between the column's bounds, in its own units."""
        return self.kind.high - self.kind.low

    @property
    def steps(self) -> Floats:
        """Candidates for the round number of which nearly all entries are multiples, decreasing.

        They are 1 and 5 times powers of ten, from the largest power of ten within the span down to
        1, or down to a thousandth of this power if that is smaller; at most 24. If they would begin
        at 1 or below and 0 is within the bounds, they begin at ten times as much. Then 0 is the
        only multiple of the first candidate, which separates it from multiples of the next ones.
        """
        coarsest = coarsest_step(2 * self.span)
        number = 1 + 2 * round(math.log10(coarsest / min(1.0, _FINEST * coarsest)))
        if coarsest <= 1 and self.kind.low <= 0 <= self.kind.high:
            coarsest, number = 10 * coarsest, number + 2
        return steps_from(coarsest, min(number, _MOST_STEPS))

    @property
    def steps_at_node(self) -> Floats:
        """Candidates with noise at the node: those of :attr:`steps` after two larger ones.

        The first one exceeds the span. If 0 is within the bounds, it is the only multiple of the
        first candidate, which separates it from multiples of the next ones. More candidates cost
        no more noise at the node.
        """
        return steps_from(10 * float(self.steps[0]), len(self.steps) + 2)

    def grain(self, steps: Floats) -> tuple[NDArray[np.int64], float, float, int]:
        """Return the arguments of the questions on which step the entries are multiples of.

        They are the column's index, the position of 0, the coarsest step, both standardised, and
        the number of steps.
        """
        origin, one = (float(self.kind.restore(at)) for at in (0.0, 1.0))
        scale = one - origin
        return self.coordinates, -origin / scale, float(steps[0]) / scale, len(steps)

    def standardised(self, values: ArrayLike) -> Floats:
        """Clip values in the column's units to its bounds; return them in standardised units.

        These are the units of the users' rows. NaN stands for an entry that is not a number.
        """
        return self.kind.coded(np.asarray(values, np.float64))


def users_for_step_estimate(
    settings: RunSettings, column: NumericColumn, num_users: int
) -> tuple[FrequencyOracle, int] | None:
    """Return the oracle and the number of users for the estimate of the step.

    Return None if this would take too large a share of the users.
    """
    oracle = best_frequency_oracle(settings.epsilon, len(column.steps) + 2, num_users)
    enough = math.ceil((oracle.variance + 0.25) / _ERROR**2)
    size = max(enough, int(_PART[0] * num_users), settings.min_reports)
    return (oracle, size) if size <= _PART[1] * num_users else None


def learn_step(run: Run, column: NumericColumn) -> Generator[Ask, Estimate, Entries]:
    """Query a few users for the step of their entries and return the findings.

    If entries are tied at multiples of a step, a threshold beside a multiple misses their mass.
    """
    asked = users_for_step_estimate(run.settings, column, run.num_users)
    if asked is None:
        return Entries()
    oracle, size = asked
    question = Grain(*column.grain(column.steps))
    answer = yield Ask(run.cohorts([size])[0], question, oracle, min_reports=0)
    if not answer.count:
        return Entries()
    spread = math.sqrt((oracle.variance + 0.25) / answer.count)
    return _tested(answer.mean, spread, column, column.steps, _FINER_STEP_Z)


def learn_step_at_node(
    budget: Budget, column: NumericColumn, share: float
) -> Generator[Ask, Estimate, float | None]:
    """Ask all users for a noisy sum, and return the step that entries are multiples of, or None."""
    steps = column.steps_at_node
    question = GrainShares(*column.grain(steps))
    answer = yield budget.ask(question, budget.cells(len(steps) + 2, share))
    spread = float(answer.std_error[0])
    return _tested(answer.mean, spread, column, steps, _FINER_STEP_Z_AT_NODE).step


def _tested(
    shares: Floats, spread: float, column: NumericColumn, steps: Floats, finer_z: float
) -> Entries:
    """Return the coarsest step for which entries at finer steps are not significant, if any.

    ``shares`` are the shares of entries with each step, of entries without any step, and of missing
    entries. ``spread`` is their standard error, and ``finer_z`` is the number of standard errors
    that shows a finer step. Zero is a multiple of all steps, and most entries at the first steps
    may be zeros. Hence a step is returned only if there are significantly many entries at steps
    after these.
    """
    low, high = column.kind.low, column.kind.high
    # number of steps that have no multiple except 0 within the bounds
    beyond = int(np.sum(steps >= max(abs(low), abs(high))))
    zero = max(beyond, int(low <= 0 <= high))
    none, missing = len(steps), len(steps) + 1
    if 1 - shares[missing] < 3 * spread:
        return Entries(hardly_any=True)

    def misfit(places: list[int]) -> float:
        """Return the squared distance of the estimates from shares that are 0 elsewhere.

        The distance is in standard errors. Missing values may have a share in any case.
        """
        own = shares[[*places, missing]]
        apart = np.sum((own - project_on_simplex(own)) ** 2)
        return float(shares @ shares - own @ own + apart) / spread**2

    zeros = list(range(zero))
    others = misfit([*zeros, none])
    for place, step in enumerate(steps.tolist()):
        coarse = list(range(place + 1))
        own = misfit(coarse)
        finer = min(misfit([*coarse, each]) for each in range(place + 1, none + 1))
        seen = [
            others - misfit([*zeros, *range(place - more, place + 1)]) > _SEEN**2 + _MORE * more
            for more in range(place + 1 - len(zeros))
        ]
        if own - finer < finer_z**2 and any(seen):
            return Entries(step)
    return Entries()
