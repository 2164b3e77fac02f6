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
    LENGTH,
    LEVEL,
    LEVEL_NOISE,
    LEVEL_SPREAD,
    MOMENTS,
    SCORE,
    SHORTEST,
    SIZES,
    TOLD,
    USUAL_R2,
    likely_move,
    line_tells,
    moments_radius,
    num_wanted,
    size_error,
)
from .legs import FIRST, USUAL_MOVE, chosen
from .ridge_walk import INTERCEPT, RESIDUAL_BOUND, RIDGE, SHORTER, STEPS, first_length

Floats = NDArray[np.float64]
Rng = np.random.Generator

_EPSILON = 1.0
_FARTHEST = 2.0  # that a target can be from the middle of its bounds
# Of those who tell columns' scales, centres twice, and scales again: their share of the users, and
# the mechanism's radius for one column. No more are asked than tell a column to within a tenth.
_COLUMNS = ((0.05, 2.0), (0.05, 1.0), (0.1, 1.0), (0.1, 0.7))
_ENOUGH, _NORM = 0.1, 0.03
_USERS_VARIANCE = 1.5  # of what users have for moments, in units of their sizes
_TARGETS = 0.7  # error of the targets' spread over that of a moment


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

    def losses(self) -> Floats:
        """Walk, then have judges tell level, length and score."""
        kept = sum(self._judges(share) for share in (LEVEL, SIZES, MOMENTS, SCORE))
        if chosen(round(self.users), self.columns.features, _EPSILON, 1) == "walk":
            missing = self._walk(self.tables.moments, self.best, self.rest, self.users - kept)
        else:
            missing = self._two_legs(self.users - kept)
        return self._judged(missing)

    def _judges(self, share: float) -> float:
        return num_wanted(self.users, _EPSILON, share)

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

    def _two_legs(self, users: float) -> Floats:
        """Walk again in units of columns' scales, and have judges tell how far to follow."""
        tables = self.tables
        first = self._walk(tables.moments, self.best, self.rest, FIRST * self.users)
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
        left -= self._judges(SIZES) + self._judges(MOMENTS / 2)
        around = Moments(tables.moments.spectrum / scale**2, centred / scale)
        around.mean[:, 0] = 1.0
        end = self._walk(around, start, self.rest / size[:, 0] ** 2, left)
        second = end * size / scale
        second[:, :1] = end[:, :1] * size - (second * moved)[:, 1:].sum(axis=1, keepdims=True)
        move = first - second
        sizes = self._sizes(first, move)
        go = self._move(first, move, sizes, self._judges(MOMENTS / 2), USUAL_MOVE)
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

    def _sizes(self, missing: Floats, direction: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the sizes of residuals and of steps as they are told, and the mean step."""
        square = self.tables.moments.square
        sizes = np.sqrt([square(missing) + self.rest, square(direction)])
        error = size_error(self._judges(SIZES), _EPSILON)
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
        """Return what is lost after level, length and score are told."""
        tables, target = self.tables, self.tables.size
        level_error = math.sqrt(
            number_randomizer(_EPSILON, _FARTHEST).variance / self._judges(LEVEL)
        )
        direction = self.best - missing
        direction[:, 0] -= tables.centre / (1 + level_error**2)
        judges = self._judges(MOMENTS)
        residual, steps, mean = sizes = self._sizes(missing, direction)
        if line_tells(judges, _EPSILON):
            go = self._move(missing, direction, sizes, judges, LENGTH)
            error = _noise(judges) * np.hypot(residual, steps * go)
        else:
            go = np.zeros_like(mean)
            error = residual * math.sqrt(number_randomizer(_EPSILON, 1.0).variance / judges)
        level = missing[:, 0] + self._shift(missing) - go * mean
        usual = LEVEL_SPREAD
        usual += LEVEL_NOISE * math.sqrt(self.variance * self.columns.features / self.users)
        told = level + error * self.rng.standard_normal(len(level))
        level = level - told / (1 + (error / (usual * residual)) ** 2)
        left = missing - go[:, None] * direction
        lost = (self._covariance(left, left) + level**2) / target**2
        # The mean is returned instead where judges see no more than that in the model.
        by_line = _noise(judges) * np.hypot(residual, steps)
        error = (level_error**-2 + by_line**-2.0) ** -0.5 / target
        constant = self.r2 + (error * self.rng.standard_normal(len(lost))) ** 2
        worth, spread = USUAL_R2
        seen = self._seen(lost)
        gate = (error**2 < TOLD) & (seen[0] / seen[1] ** 2 + worth / spread**2 < 0)
        return np.where(gate | (1 + go < SHORTEST), constant, lost)

    def _seen(self, lost: Floats) -> tuple[Floats, Floats]:
        """Return the R2 that judges tell, and its error."""
        noise, loss = _noise(self._judges(SCORE)), 1 - self.r2 + lost
        error = noise * np.hypot(loss, _TARGETS * np.hypot(loss, 1))
        return 1 - loss + error * self.rng.standard_normal(len(lost)), error


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
