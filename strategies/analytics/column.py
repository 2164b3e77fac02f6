"""One column of numbers: what is publicly known about it, how round its entries are, cells."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_flower.data.schema import Numeric, Schema
from ldp_flower.questions import Grain
from ldp_flower.randomizers import Estimate, FrequencyOracle, best_frequency_oracle
from ldp_flower.validation import Floats

from ..numerics.denoising import project_on_simplex
from ..numerics.density import Counted
from ..numerics.value_scale import coarsest_step, steps_from
from ..runtime import Ask, Run
from ..runtime.run import RunSettings

_FINEST = 1e-3  # of the bounds' distance: the finest step that is tried, if that is below 1
_MOST_STEPS = 24  # two a decade: of bounds that hold eleven decades of steps
_ERROR = 0.08  # of the share of entries that are this round and no rounder, or less
_PART = 0.02, 0.12  # of the users who are asked: where that has a smaller error, and at most
_CLEAR = 2.1  # standard errors from which a finer place is seen: 1 of 56 by chance
# From which entries that are multiples of a step are, and what each coarser step beside it adds to
# the square: one of 60 by chance, of all.
_SEEN, _MORE = 3.0, 3.0


#: Of the bounds' distance: the width of a cell of one value.
ATOM = 1e-9
_KNOWN = 0.9  # of later cells' sizes follows what earlier ones reported; the rest is even
_LEAST = 1e-5  # share of a cell, before anything is known
_FAR = 6.0  # widths of the middle half beyond which coordinates end: no density is estimated there


@dataclass(frozen=True)
class Entries:
    """What few users report about all entries of a column."""

    step: float | None = None  # what nearly all of them are multiples of, None if there is none
    hardly_any: bool = False  # whether there may be none, so that nothing else is known of them


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers."""

    name: str
    kind: Numeric
    place: int  # its place among the features; the target comes after them

    @classmethod
    def of(cls, schema: Schema, name: str) -> Self:
        """Return a column of a schema; raise ValueError unless it is one of numbers."""
        kind = schema.kind(name)
        if not isinstance(kind, Numeric):
            raise ValueError(f"Expected a column of numbers, got {name!r}, which has categories.")
        return cls(name, kind, schema.places(name)[0])

    @property
    def coordinates(self) -> NDArray[np.int64]:
        """What a question calls it."""
        return np.array([self.place])

    @property
    def span(self) -> float:
        """Distance of the bounds."""
        return self.kind.high - self.kind.low

    @property
    def steps(self) -> Floats:
        """What entries may be multiples of: round numbers, from the span to 1 or a part of it."""
        coarsest = coarsest_step(2 * self.span)
        number = 1 + 2 * round(math.log10(coarsest / min(1.0, _FINEST * coarsest)))
        return steps_from(coarsest, min(number, _MOST_STEPS))

    def standardised(self, values: ArrayLike) -> Floats:
        """Return values within the bounds as users have them."""
        return self.kind.coded(np.asarray(values, np.float64))


def users_for_step_estimate(
    settings: RunSettings, column: NumericColumn, num_users: int
) -> tuple[FrequencyOracle, int] | None:
    """Return how many users report how round their entries are, and by what; None if nobody."""
    oracle = best_frequency_oracle(settings.epsilon, len(column.steps) + 2, num_users)
    enough = math.ceil((oracle.variance + 0.25) / _ERROR**2)
    size = max(enough, int(_PART[0] * num_users), settings.min_reports)
    return (oracle, size) if size <= _PART[1] * num_users else None


def learn_step(run: Run, column: NumericColumn) -> Generator[Ask, Estimate, Entries]:
    """Ask few users how round their entries are: a threshold next to a tie misses its mass."""
    asked = users_for_step_estimate(run.settings, column, run.num_users)
    if asked is None:
        return Entries()
    oracle, size = asked
    steps = column.steps
    origin, one = (float(column.kind.restore(at)) for at in (0.0, 1.0))
    scale = one - origin
    question = Grain(column.coordinates, -origin / scale, float(steps[0]) / scale, len(steps))
    answer = yield Ask(run.cohorts([size])[0], question, oracle, min_reports=0)
    low, high = column.kind.low, column.kind.high
    beyond = int(np.sum(steps >= max(abs(low), abs(high))))  # steps with no multiple but 0 within
    return _tested(answer, oracle, steps, max(beyond, int(low <= 0 <= high)))


def _tested(answer: Estimate, oracle: FrequencyOracle, steps: Floats, zero: int) -> Entries:
    """Return the coarsest step beside which no finer entries are seen, if they are rounded.

    Zeros are multiples of all steps, and at the first ``zero`` places most may be zeros: others
    have to be seen that are multiples of a finer one.
    """
    if not answer.count:
        return Entries()
    none, missing = len(steps), len(steps) + 1
    spread = math.sqrt((oracle.variance + 0.25) / answer.count)
    if 1 - answer.mean[missing] < 3 * spread:
        return Entries(hardly_any=True)

    def misfit(places: list[int]) -> float:
        """Return the squared distance of the estimates from shares of these places alone."""
        own = answer.mean[[*places, missing]]
        apart = np.sum((own - project_on_simplex(own)) ** 2)
        return float(answer.mean @ answer.mean - own @ own + apart) / spread**2

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
        if own - finer < _CLEAR**2 and any(seen):
            return Entries(step)
    return Entries()


@dataclass(frozen=True)
class Cells:
    """Cells in order."""

    edges: Floats  # (cells + 1,): increasing
    values: Floats  # at each of which a cell of its own ends, which holds nothing else

    @property
    def atoms(self) -> NDArray[np.bool_]:
        """Which cells are of one value."""
        return np.isin(self.edges[1:], self.values)

    @property
    def evenly(self) -> Floats:
        """The shares that an even density has, none too small."""
        return np.maximum(np.diff(self.edges) / np.ptp(self.edges), _LEAST)

    def divided(self, below: Floats, places: Floats) -> Floats:
        """Return edges between which there are about equal shares; atoms count beside these."""
        masses = np.diff(below)
        # A narrow hump around an atom looks like it, before there are finer cells.
        beside = np.where(self.atoms, masses / 2, 0.0)
        masses = masses + np.append(beside[1:], 0.0) + np.append(0.0, beside[:-1])
        shares = np.where(self.atoms, 0.0, _KNOWN * masses + (1 - _KNOWN) * self.evenly)
        up_to = np.concatenate([[0.0], np.cumsum(shares)])
        return np.asarray(np.interp(places * up_to[-1], up_to, self.edges))

    def seen_as(self, counted: Counted, cells: "Cells") -> Counted:
        """Return the law of reports on these cells for others, evenly filled, and the last one."""
        law = counted.law[:, :-1] @ self._overlap(cells, axis=0)
        return Counted(np.column_stack([law, counted.law[:, -1]]), counted.counts)

    def likely(self, before: "Cells", shares: Floats) -> Floats:
        """Return shares of these cells from those of others, evenly filled, and the last one."""
        found = before._overlap(self, axis=1) @ shares[:-1]
        return np.asarray(np.maximum(np.append(found, shares[-1]), _LEAST))

    def _overlap(self, cells: "Cells", axis: int) -> Floats:
        """Return which part of each other cell is in each of these, or the other way round."""
        upper = np.minimum.outer(self.edges[1:], cells.edges[1:])
        overlap = np.clip(upper - np.maximum.outer(self.edges[:-1], cells.edges[:-1]), 0, None)
        parts = overlap / np.maximum(overlap.sum(axis=axis, keepdims=True), 1e-300)
        return np.asarray(parts if axis == 0 else parts.T)

    def coordinates(self, edges: Floats, below: Floats) -> tuple[Floats, Floats]:
        """Return the cells' middles, and their logarithms, in widths of the middle half."""
        middles = (self.edges[1:] + self.edges[:-1]) / 2
        quarters = np.interp([0.25, 0.5, 0.75], below, edges)
        low, width = self.edges[0], max(float(np.ptp(quarters)), ATOM * np.ptp(self.edges))

        def logs(values: Floats) -> Floats:
            if low < 0 < self.edges[-1]:
                return np.asarray(np.arcsinh(values / width))
            return np.asarray(np.log(np.maximum(values - low, ATOM * np.ptp(self.edges))))

        found = []
        for each in (np.asarray, logs):
            near, middle, far = each(quarters)
            x = (each(middles) - middle) / max(far - near, 1e-9 * abs(far), 1e-300)
            found.append(np.clip(x, -_FAR, _FAR))
        return found[0], found[1]


def cells_of(column: NumericColumn, edges: Floats, step: float | None) -> Cells:
    """Return cells that end at edges: between multiples of a step, or beside likely atoms."""
    kind = column.kind
    tiny = ATOM * (kind.high - kind.low)
    if step is not None:
        low = (math.ceil(kind.low / step - 1e-9) - 0.5) * step
        high = (math.floor(kind.high / step + 1e-9) + 0.5) * step
        inner = (np.floor(edges / step) + 0.5) * step
        edges = np.unique(np.clip(inner, low, high))
        return Cells(np.union1d(edges, [low, high]), np.zeros(0))
    atoms = np.unique([kind.low, max(kind.low, min(0.0, kind.high)), kind.high])
    near = np.abs(edges[:, None] - atoms).min(axis=1) <= 2 * tiny
    return Cells(np.unique(np.concatenate([edges[~near], atoms - tiny, atoms])), atoms)
