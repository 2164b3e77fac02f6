"""PrivUnit, its lifted form and Duchi's sampler: vectors in an l2 ball as vectors."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...randomness import RandomSource, Words
from ...validation import Floats
from ..base import Reports
from ..domains import directions, lift
from ..elementwise import row_norms
from . import RealVector
from .cap import Cap, best_height


@dataclass(frozen=True)
class _BallSampler(RealVector):
    """What the three have in common: a report is a direction drawn from a :class:`Cap`."""

    @property
    @abstractmethod
    def cap(self) -> Cap:
        """The cap that directions are drawn from."""

    @property
    def variance(self) -> float:
        """``bound**2 / dim``: a report's squared length is at most ``bound**2``."""
        return self.bound**2 / self.dim

    @property
    def bound(self) -> float:
        """``radius / m``, the length of a report."""
        return self.radius / self.cap.scale

    @property
    def length(self) -> float:
        """``bound`` (to float32 rounding)."""
        return self.bound * (1 + 1e-6)

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        # A vector inside the ball takes its own direction or the opposite one; reports
        # have one length, so that this randomness costs no variance.
        unit, length = directions(values)
        fraction = np.minimum(length / self.radius, 1.0)
        unit[rng.uniforms((len(unit), 1))[:, 0] >= (1 + fraction) / 2] *= -1
        return self._on_grid(self.cap.draw(unit, rng) * self.bound)

    def contains(self, reports: Reports) -> bool:
        """Whether every report has the one possible length (to float32 rounding)."""
        lengths = row_norms(reports.astype(np.float64))
        return bool(np.allclose(lengths, self.bound, rtol=1e-5, atol=0))


@dataclass(frozen=True)
class PrivUnit(_BallSampler):
    """Randomiser for vectors in an l2 ball; the least known variance.

    A uniform direction is drawn from a cap around the user's direction with a
    probability raised by exp(epsilon), from the rest of the sphere otherwise, and
    scaled to be unbiased. Vectors inside the ball pick the sign of their direction
    at random, which costs no variance because reports have a constant length.
    Parameters are those of :class:`.OfVector`.

    Notes
    -----
    Source: Bhowmick et al. (2018), with the cap optimised as in Asi, Feldman &
    Talwar (2022). Sampling is exact inversion, O(dim) per user; a report is
    ``dim`` 4-byte floats. :class:`Codebook` is its finite form.

    Guarantee
    ---------
    1. Protected: any two values of one user, at pure ``epsilon`` in real arithmetic.
    2. For a direction u the report's density on the sphere takes two values, p / c
       inside the cap around u and (1 - p) / (1 - c) outside, c being the cap's mass.
       p = e^eps c / (e^eps c + 1 - c) makes their ratio e^eps; it is rounded down, by what
       a computed c may err and to what uniforms draw exactly, so the ratio is at most that.
    3. u is a randomised function of the value, and mixing keeps the bound;
       shortening happens first, and a row that is not finite becomes 0. The
       guarantee therefore holds for every input.
    """

    @cached_property
    def cap(self) -> Cap:
        """The cap of the least variance."""
        return Cap(self.epsilon, self.dim, best_height(self.epsilon, self.dim))


@dataclass(frozen=True)
class DuchiBall(_BallSampler):
    """Randomiser for vectors in an l2 ball that draws from a half-sphere.

    Parameters are those of :class:`.OfVector`.

    Notes
    -----
    Source: Duchi, Jordan & Wainwright (2018). It is :class:`PrivUnit` with a cap of
    height 0, kept for comparisons: at epsilon 4 and 64 dimensions its variance is 3.8
    times as large.

    Guarantee
    ---------
    As that of :class:`PrivUnit`. The boundary of the half-sphere has measure zero, so
    that open or closed makes no difference here.
    """

    @cached_property
    def cap(self) -> Cap:
        """The half-sphere."""
        return Cap(self.epsilon, self.dim, 0.0)


@dataclass(frozen=True)
class LiftedPrivUnit(_BallSampler):
    """PrivUnit on the sphere of one dimension more, for vectors well inside the ball.

    A vector is lifted to the unit sphere of R^(dim + 1), drawn for there, and the
    added coordinate dropped. Its variance is that of :class:`PrivUnit` in one
    dimension more, less what the dropped coordinate takes: a little smaller for
    vectors inside the ball and large epsilon, the same otherwise.
    Parameters are those of :class:`.OfVector`.

    Guarantee
    ---------
    As that of :class:`PrivUnit`; lifting is a function of the value, dropping a
    coordinate is post-processing.
    """

    @cached_property
    def cap(self) -> Cap:
        """The cap of the least variance on the lifted sphere."""
        return Cap(self.epsilon, self.dim + 1, best_height(self.epsilon, self.dim + 1))

    def _randomize(self, values: Floats, rng: RandomSource, coins: Words) -> Reports:
        drawn = self.cap.draw(lift(values, self.radius), rng)[:, :-1]
        return self._on_grid(drawn * self.bound)

    def contains(self, reports: Reports) -> bool:
        """Whether no report is longer than possible (to float32 rounding)."""
        return bool((row_norms(reports.astype(np.float64)) <= self.bound * (1 + 1e-5)).all())
