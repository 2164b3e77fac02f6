"""Distribution: how a column of numbers is distributed, from one report of every user."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Cell
from ldp_flower.guarantee.users import Users
from ldp_flower.planning import Expectation, Setting, WouldRefuse
from ldp_flower.randomizers import DiscreteSquareWave, RandomizedResponse
from ldp_flower.randomness import KeyedRandom, derive
from ldp_flower.schema import Numeric, Schema

from ..forecasts.ranks import expected_function
from ..numerics.density import Counted, draw_densities
from ..numerics.value_scale import ValueScale
from ..runtime.audit_users import table_users
from ..runtime.base import LdpStrategy, Protocol, TooFewReports
from ..runtime.card import Card
from ..runtime.exchange import Answers, Ask
from .column import NumericColumn, learn_step, who_tell_the_step
from .distribution_result import DistributionResult

Floats = NDArray[np.float64]

# The users who are asked about cells of the whole scale: until one threshold has this error,
_SKETCH = 0.03
_FEWEST, _MOST = 0.05, 0.2  # but shares of all from the one to the other.
_CELLS, _MORE_CELLS = 64, 96
_FINE = 2e-3  # the error of one threshold from which there are more cells
_KNOWN = 0.7  # of the second cells' sizes follows what the first told; the rest is even
_LEAST = 1e-5  # share of a cell, before anything is known
_DRAWS = 1000
_WORTH = 0.1  # the error of one threshold, from which on nothing can be told


@dataclass(kw_only=True, eq=False, repr=False)
class Distribution(LdpStrategy[DistributionResult]):
    """The distribution of a column: histogram, distribution function, quantiles, with bands.

    Users report in which cell their entry lies, so that near cells look nearly the same. Up to a
    fifth of them are asked about cells all over the bounds. Where these hold many, finer cells are
    made, and all others are asked about these. One posterior of a smooth density has both in it.

    All users weigh the same, however many rows they have: each reports on a row that it
    draws at random. Users without an entry in the column report so, and count in nothing else.

    Other parameters are those of :class:`~..runtime.base.LdpStrategy`.

    Parameters
    ----------
    schema : Schema
        Of the users' tables; the column's bounds are public, and may be generous.
    column : str
        Name of a column of numbers, the target included.

    Raises
    ------
    ValueError
        If an argument is out of range, or the column has categories.
    TooFewReports
        On starting, if there are too few users to tell much.

    Notes
    -----
    Sources: the square wave of Li et al. (2020), here over cells
    (:class:`~ldp_flower.randomizers.DiscreteSquareWave`); cells of equal mass as by Wang et al.
    (2024, PriPL-Tree). The posterior is that of :func:`~..numerics.density.draw_densities`:
    smooth along cells of equal mass, so that it is as fine as the users are many. Where nearly all
    entries are multiples of a round step, which up to 5 % of the users are asked for, cells
    end between multiples, and the distribution function rises at these.

    Guarantee
    ---------
    1. Protected: everything that a user holds, all its rows and their number, against
       any other data (user-level local differential privacy), at pure ``epsilon``.
    2. Every user is asked once, in one of disjoint cohorts, for one report by a mechanism that is
       ``epsilon``-LDP. Later cells depend on the reports of others alone.
    3. No matter what the strategy sends, the clients' randomizers and ledgers enforce
       this on their side.
    """

    plans_with = frozenset({"rows_per_user"})
    card = Card(
        question="the distribution of a column of numbers, with bands",
        guarantee="pure epsilon",
        rounds="2, or 3",
        report="1, of few users up to 13",
        use_when="a whole distribution is wanted, or more than some ten quantiles",
        fails_when="where many users share values that are no multiples of one step; 417 users are "
        "the fewest at epsilon 0.5",
        page="analytics",
    )

    schema: Schema = field(kw_only=False)
    column: str = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._column = NumericColumn.of(self.schema, self.column)
        DiscreteSquareWave(self.epsilon, _CELLS)  # refuses a bad epsilon now

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield the distribution of a feature."""
        schema, users = table_users(max(dim, 2))
        yield cls(schema, "x1", epsilon=epsilon), users

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol for a column."""
        return cls(Schema({"column": Numeric(0, 1)}), "column", epsilon=epsilon)

    def protocol(self) -> Protocol:
        """Ask about cells of the whole scale, then about cells of equal mass."""
        if refusal := self._refusal(self.num_users):
            raise TooFewReports(refusal)
        error = self._error(self.num_users)
        step = (yield from learn_step(self, self._column)).step
        kind = self._column.kind
        scale = ValueScale(kind.low, kind.high)
        places = np.linspace(0, 1, 1 + self._cells(self.num_users))
        enough = self.num_users * (error / _SKETCH) ** 2
        first = round(min(max(enough, _FEWEST * self.num_users), _MOST * self.num_users))
        first = max(first, self.min_reports)
        edges = _ends(scale.values(places), step)
        told = yield from self._counted(first, edges)
        draws = draw_densities([told], _evenly(edges), _normals(len(edges)))
        even = (edges - edges[0]) / np.ptp(edges)
        below = _KNOWN * _below(draws).mean(axis=1) + (1 - _KNOWN) * even
        finer = _ends(np.interp(places, below, edges), step)
        parts = [_lifted(told, edges, finer), (yield from self._counted(self.num_unasked, finer))]
        draws = draw_densities(parts, _evenly(finer), _normals(len(finer)))
        return self._told(finer, draws, step)

    def _counted(self, users: int, edges: Floats) -> Generator[Ask, Answers, Counted]:
        """Ask so many users for their cells; return the reports."""
        oracle = DiscreteSquareWave(self.epsilon, len(edges))
        question = Cell(self._column.coordinates, self._column.standardised(edges[1:-1]))
        answer = yield Ask(self.cohorts([users])[0], question, oracle)
        counts = np.bincount(answer.reports.astype(np.int64), minlength=oracle.num_reports)
        return Counted(oracle.law_of_reports(), counts.astype(np.float64))

    def _error(self, num_users: int) -> float:
        """Return the error of a share below one threshold that all users are asked about."""
        return math.sqrt(RandomizedResponse(self.epsilon).variance / 4 / num_users)

    def _cells(self, num_users: int) -> int:
        """Return into how many cells the scale is cut."""
        return _CELLS if self._error(num_users) > _FINE else _MORE_CELLS

    def _refusal(self, num_users: int) -> str:
        """Say why so many users are not asked; nothing if they tell enough."""
        needed = math.ceil(max(self._error(1) ** 2 / _WORTH**2, self.min_reports / _MOST))
        if num_users >= needed or num_users < self.min_reports:
            return self._too_few(num_users)
        return (
            f"With {num_users} users little of a distribution can be told at epsilon "
            f"{self.epsilon:g}."
        )

    def expect(self, setting: Setting) -> Expectation:
        """Return the largest error of the distribution function."""
        users = setting.num_users
        if refusal := self.refusal(users):
            raise WouldRefuse(refusal)
        step = who_tell_the_step(self, users)
        one = expected_function(self.epsilon, users, setting.rows_per_user)
        oracle = DiscreteSquareWave(self.epsilon, self._cells(users) + 1)
        return replace(
            one,
            rounds=2 + (step is not None),
            randomizers=(oracle, *([step[0]] if step else [])),
        )

    def _told(self, edges: Floats, draws: Floats, step: float | None) -> DistributionResult:
        """Return the distribution with its errors."""
        below = _below(draws)
        mean = below.mean(axis=1)
        covariance = np.cov(below)
        errors = np.sqrt(np.diag(covariance))
        spread = np.sqrt(errors**2 + (0.75 * errors.max()) ** 2)
        held = 1 - float(draws[-1].mean())
        largest = np.sort((np.abs(below - mean[:, None]) / spread[:, None]).max(axis=0))
        return DistributionResult(
            column=self.column,
            edges=edges,
            below=mean,
            covariance=covariance,
            deviations=largest,
            without_entry=float(draws[-1].mean()),
            step=step,
            notes=[_HARDLY_ANY.format(self.column)] if held < 3 * float(draws[-1].std()) else [],
        )


_HARDLY_ANY = (
    "Hardly any user may have an entry in {!r}: then the distribution is of noise and nothing else."
)


def _ends(edges: Floats, step: float | None) -> Floats:
    """Return increasing edges, between multiples of the step where there is one."""
    if step is not None:
        inner = (np.floor(edges[1:-1] / step) + 0.5) * step
        low = (math.ceil(edges[0] / step - 1e-9) - 0.5) * step
        high = (math.floor(edges[-1] / step + 1e-9) + 0.5) * step
        edges = np.concatenate([[low], np.clip(inner, low, high), [high]])
    apart = np.flatnonzero(np.diff(edges, prepend=-np.inf) > 0)
    return np.asarray(edges[apart])


def _normals(cells: int) -> Floats:
    """Return numbers for draws from posteriors, always the same."""
    draws = np.arange(_DRAWS // 2, dtype=np.uint64)
    return KeyedRandom(derive(0, draws)).normals((len(draws), cells)).T


def _evenly(edges: Floats) -> Floats:
    """Return the shares of cells that an even density has, none too small."""
    return np.maximum(np.diff(edges) / np.ptp(edges), _LEAST)


def _lifted(counted: Counted, ends: Floats, edges: Floats) -> Counted:
    """Return the reports' law for other cells, evenly filled; the last cell is apart."""
    upper, lower = np.minimum.outer(ends[1:], edges[1:]), np.maximum.outer(ends[:-1], edges[:-1])
    overlap = np.clip(upper - lower, 0, None)
    law = counted.law[:, :-1] @ (overlap / overlap.sum(axis=0))
    return Counted(np.column_stack([law, counted.law[:, -1]]), counted.counts)


def _below(draws: Floats) -> Floats:
    """Return the shares of those with an entry below each edge."""
    below = np.vstack([np.zeros(draws.shape[1]), np.cumsum(draws[:-1], axis=0)])
    return np.asarray(below / below[-1])
