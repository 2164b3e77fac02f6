"""PrivateRegression on made-up tables, all at once: what it loses, from numbers alone.

The steps are those of the protocol, at epsilon 1 and for as many users as it takes. What users
tell is worked out from the tables' moments, see :mod:`..forecasts.tables.directions`, with the
noise of the mechanism and of users who differ.
"""

import math

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray
from scipy.special import digamma, ndtr

from ldp_flower.randomizers import ball_codebook

from ..forecasts.tables.directions import Directions, Moments
from ..forecasts.tables.made_up_tables import Columns, MadeUpTables, made_up_tables
from ..subprotocols.norm import enough_for_norm
from ..subprotocols.squared_errors import number_randomizer
from .judges import (
    GAIN_STEPS,
    Gains,
    Number,
    cohort_size,
    held_out,
    likely_move,
    mean_radius,
    moments_radius,
    size_error,
)
from .legs import FIRST, USUAL_MOVE, chosen
from .ridge_walk import INTERCEPT, RESIDUAL_BOUND, RIDGE, SHORTER, STEPS, first_length

Floats = NDArray[np.float64]
Rng = np.random.Generator

_EPSILON = 1.0
# Of those who tell columns' scales, centres twice, and scales again: their share of the users, and
# the mechanism's radius for one column. No more are asked than tell a column to within a tenth.
_COLUMNS = ((0.05, 2.0), (0.05, 1.0), (0.1, 1.0), (0.1, 0.7))
_ENOUGH, _NORM = 0.1, 0.03
_USERS_VARIANCE = 1.5  # of what users have for moments, in units of their sizes


def regression_losses(columns: Columns, rows: float, r2: float, users: float) -> Floats:
    """Return what is lost of each table's R2, sorted as the tables are.

    Parameters
    ----------
    columns : Columns
        Of the tables.
    rows : float
        Typical number of a user's rows.
    r2 : float
        What the model explains without privacy.
    users : float
        How many answer, at epsilon 1.
    """
    tables = made_up_tables(columns)
    run = _Run(tables, columns, rows, r2, users, default_rng(columns.features))
    return run.losses()


class _Run:
    """One run on all tables; ``missing`` is what a model lacks to the best one."""

    def __init__(
        self, tables: MadeUpTables, columns: Columns, rows: float, r2: float, users: float, rng: Rng
    ) -> None:
        self.tables, self.columns, self.rows, self.r2 = tables, columns, rows, r2
        self.users, self.rng = users, rng
        self.rest = (1 - r2) * tables.size**2
        self.best = tables.slopes * (math.sqrt(r2) * tables.size)[:, None]
        self.best[:, 0] = tables.centre - self._shift(self.best)
        self.variance = ball_codebook(_EPSILON, columns.features, 1.0).variance
        self.unit = number_randomizer(_EPSILON, 1.0).variance

    def losses(self) -> Floats:
        """Walk, then have judges tell level, length and score."""
        two_legs = chosen(round(self.users), self.columns.features, _EPSILON, 1) != "walk"
        left = self.users - held_out(self.users, _EPSILON, two_stages=two_legs)
        # The walk begins at the mean target.
        missing = self.best.copy()
        missing[:, 0] = -self._shift(self.best)
        if two_legs:
            missing = self._two_legs(missing, left)
        else:
            missing = self._walk(self.tables.moments, missing, self.rest, left)
        return self._judged(missing)

    def _judges(self, name: str) -> float:
        return cohort_size(name, self.users, _EPSILON)

    def _shift(self, model: Floats) -> Floats:
        """Return by how much slopes raise the mean prediction."""
        return np.asarray((model * self.tables.moments.mean)[:, 1:].sum(axis=1))

    def _covariance(self, one: Floats, other: Floats) -> Floats:
        return np.asarray(np.einsum("ij,ij,ij->i", self.tables.moments.spectrum, one, other))

    def _walk(self, moments: Moments, missing: Floats, rest: Floats, users: float) -> Floats:
        """Return what the mean of the places in the second half lacks."""
        length = self.columns.row_length
        signal, count = math.sqrt(users / self.variance), users / STEPS
        step = np.full((len(missing), 1), first_length(signal, STEPS) / length)
        ridge, sigma = RIDGE / self.rows * length**2, math.sqrt(self.variance / count)
        directions = Directions(moments, ridge, self.rows, self.tables.own)
        total, last = np.zeros_like(missing), np.zeros_like(missing)
        pace = 1 + (INTERCEPT - 1) * np.eye(1, missing.shape[1])
        for number in range(STEPS):
            size = np.sqrt(moments.square(missing) + rest)
            slope, square = _clipped(size / RESIDUAL_BOUND)
            told = directions.step(slope[:, None] * missing, square * size**2)
            differ = np.maximum(1 - (told**2).sum(axis=1, keepdims=True), 0.0) / count
            told += sigma * self.rng.standard_normal(missing.shape)
            told += np.sqrt(differ) * directions.spread(self.rng)
            along = (told * last).sum(axis=1, keepdims=True)
            back = along < -sigma * np.linalg.norm(last, axis=1, keepdims=True)
            step = np.where(back, SHORTER * step, step)
            missing, last = missing - step * pace * told, told
            if number >= STEPS // 2:
                total += missing
        return total / (STEPS - STEPS // 2)

    def _two_legs(self, missing: Floats, users: float) -> Floats:
        """Walk again in units of columns' scales, and have judges tell how far to follow."""
        tables = self.tables
        first = self._walk(tables.moments, missing, self.rest, FIRST * self.users)
        told, noise = self._columns()
        centred = tables.centred().mean
        centred += noise * np.sqrt(tables.narrow)[:, None] * self.rng.standard_normal(first.shape)
        centred[:, 0] = 1.0
        moved = tables.moments.mean - centred
        # Users' sizes are told by their logarithms, and those of few rows are small in the mean.
        few = math.exp((float(digamma(self.rows / 2)) - math.log(self.rows / 2)) / 2)
        scale = few * np.sqrt(tables.narrow)[:, None]
        size = few * tables.size[:, None]
        start = first * scale / size
        start[:, :1] = (first[:, :1] + (first * moved)[:, 1:].sum(axis=1, keepdims=True)) / size
        left = users - FIRST * self.users - told
        around = Moments(tables.moments.spectrum / scale**2, centred / scale)
        around.mean[:, 0] = 1.0
        end = self._walk(around, start, self.rest / size[:, 0] ** 2, left)
        second = end * size / scale
        second[:, :1] = end[:, :1] * size - (second * moved)[:, 1:].sum(axis=1, keepdims=True)
        move = first - second
        sizes = self._sizes(first, move, self._judges("stage sizes"))
        go = self._move(first, move, sizes, self._judges("stage moments"), USUAL_MOVE)
        return first - np.clip(go, 0.0, 1.0)[:, None] * move

    def _columns(self) -> tuple[float, float]:
        """Return how many tell about columns, and the noise of a centre, in its column's sizes."""
        columns = self.columns.numbers + 1  # with the target
        unit = columns * ball_codebook(_EPSILON, columns, 1.0).variance
        asked = [
            min(share * self.users, unit * radius**2 / _ENOUGH**2) for share, radius in _COLUMNS
        ]
        norm = min(_NORM * self.users, enough_for_norm(_EPSILON))
        # An estimate is shortened by what is noise in it, so it is never off by more than all.
        return sum(asked) + norm, 1 / math.sqrt(1 + (asked[1] + asked[2]) / unit)

    def _sizes(
        self, missing: Floats, direction: Floats, judges: float
    ) -> tuple[Floats, Floats, Floats]:
        """Return the sizes of residuals and of steps as they are told, and the mean step."""
        square = self.tables.moments.square
        sizes = np.sqrt([square(missing) + self.rest, square(direction)])
        error = size_error(judges, _EPSILON)
        residual, steps = sizes * np.exp(error * self.rng.standard_normal(sizes.shape))
        return residual, steps, direction[:, 0] + self._shift(direction)

    def _move(
        self,
        missing: Floats,
        direction: Floats,
        sizes: tuple[Floats, Floats, Floats],
        judges: float,
        usual: tuple[float, float],
    ) -> Floats:
        """Return how far judges follow a direction."""
        residual, steps, mean = sizes
        noise = _noise(judges) * np.sqrt(1 + (mean / steps) ** 2)
        told = self._covariance(direction, missing) / (residual * steps)
        told += noise * self.rng.standard_normal(len(told))
        variance = self._covariance(direction, direction) / steps**2
        return likely_move(told, variance, noise, steps / residual, *usual)

    def _judged(self, missing: Floats) -> Floats:
        """Return what is lost after held-out users have told how far to go, and the level."""
        around = self.best.copy()
        around[:, 0] = -self._shift(self.best)
        direction = self.best - missing
        direction[:, 0] = -self._shift(direction)
        variance = self.tables.size**2
        products = self._covariance(direction, around) / variance
        squares = np.maximum(self._covariance(direction, direction) / variance, 1e-9)
        found = zip(products.tolist(), squares.tolist(), strict=True)
        move = np.array([self._line_search(*each) for each in found])
        left = around - move[:, None] * direction
        lost = self._covariance(left, left) / variance
        # A fit's intercept, and where none is returned the mean by all who are left.
        final = self._judges("final")
        level = self._level(final) * np.sqrt(lost + self.rest / variance)
        constant = self._level(final + self._judges("score")) * np.ones(len(lost))
        error = np.where(move > 0, level, constant) * self.rng.standard_normal(len(lost))
        return np.where(move > 0, lost, self.r2) + error**2

    def _level(self, users: float) -> float:
        """Return the standard error of an intercept by all of its cohorts, in residuals' sizes."""
        users += self._judges("mean")
        return mean_radius(users, _EPSILON, 1.0) * math.sqrt(self.unit / users)

    def _line_search(self, product: float, square: float) -> float:
        """Return how far held-out users go where so much is to be gained."""
        error = size_error(self._judges("sizes"), _EPSILON)
        ratio = math.sqrt(square) * math.exp(error * self.rng.standard_normal())
        gains, move = Gains.of_sizes(np.array([1.0, ratio]), error), 1.0
        for share in GAIN_STEPS:
            noise = ratio * math.sqrt((self.unit + 1) / (share * self._judges("gain")))
            told = product - square * move / 2 + noise * self.rng.standard_normal()
            gains.add(move, Number(told, noise))
            move = gains.best_move()
        return gains.safe_move()[0]


def _noise(judges: float) -> float:
    """Return the standard error of a moment that so many judges tell."""
    mechanism = ball_codebook(_EPSILON, 5, moments_radius(judges, _EPSILON))
    return math.sqrt((mechanism.variance + _USERS_VARIANCE) / judges)


def _clipped(size: Floats) -> tuple[Floats, Floats]:
    """Return slope and mean square, over those they had, of normal numbers clipped at 1."""
    edge = 1 / size
    beyond, density = ndtr(-edge), np.exp(-(edge**2) / 2) / math.sqrt(2 * math.pi)
    inside = 1 - 2 * beyond
    return inside, inside - 2 * edge * density + 2 * edge**2 * beyond
