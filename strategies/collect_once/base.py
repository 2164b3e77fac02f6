"""Base classes of the strategies that query all users once, at the same time."""

import math
from abc import abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

import numpy as np

from ldp_flower.data.users import Users
from ldp_flower.expectation import Setting
from ldp_flower.questions import DistanceOctave, Octave, Projected, Question, ResidualOctave
from ldp_flower.questions.moments import num_moments
from ldp_flower.questions.public_maps import projection, reach, seed_of
from ldp_flower.randomizers import Estimate, GaussianRecord, Randomizer, ball_codebook
from ldp_flower.validation import (
    Floats,
    Fraction,
    Positive,
    check_integer,
    check_unused,
)

from ..forecasts.populations import features_of, normal_users
from ..runtime import Ask, Cohort, LinearResult, Protocol, Run, guarantees
from ..runtime.coefficients import METHODS, FeatureStrategy, Method
from ..subprotocols.beyond_bounds import DeclaredBound, ask_beyond, bound_askers

R = TypeVar("R", bound=LinearResult)

#: A protocol with one question, which returns a result of type ``R``.
Once = Generator[Ask, Estimate, R]


@dataclass(kw_only=True, eq=False, repr=False)
class CollectOnce(FeatureStrategy[R]):
    """Base class of strategies in which every user sends one message, without a second round.

    With ``method="auto"`` a twentieth of the users report a different number: the octave (binary
    order of magnitude) of a value that a declared bound clips. The standard errors cover the
    effect of clipping, and a note states it if it is large.

    Other parameters are those of :class:`~..runtime.coefficients.FeatureStrategy`.

    Parameters
    ----------
    delta : float, optional
        Privacy parameter of ``method="paper"``, by default 1e-6. With ``"auto"`` it is 0.
    method : {"auto", "paper"} (default: "auto")
        ``"paper"`` is the printed algorithm with its calibration corrected.
    """

    guarantee = (guarantees.USER_BY_METHOD, guarantees.NON_INTERACTIVE, guarantees.ENFORCED)

    #: Names of the parameters that are bounds at which users clip their data.
    _clipped: ClassVar[tuple[str, ...]] = ("feature_bound", "target_bound")

    delta: Fraction | None = None
    method: Method = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._delta = _DELTA if self.delta is None else self.delta
        if self.method == "auto":
            check_unused(self, "with method='auto'", "delta")
        self.randomizer(1)  # raises an error now if epsilon is invalid

    def randomizer(self, size: int, radius: float = 1.0) -> Randomizer:
        """Return the mechanism that ``method="auto"`` uses for vectors of ``size`` numbers.

        Their Euclidean length is at most ``radius``.
        """
        return ball_codebook(self.epsilon, size, radius)

    def mechanism(self, size: int, radius: float) -> GaussianRecord:
        """Return the mechanism that ``method="paper"`` uses for vectors of ``size`` numbers.

        Their Euclidean length is at most ``radius``.
        """
        return GaussianRecord(self.epsilon, size, radius, self._delta)

    @abstractmethod
    def _by_moments(self, run: Run, everyone: Cohort) -> Once[R]:
        """Ask ``everyone`` by ``method="auto"``, and return the result."""

    @abstractmethod
    def _as_printed(self, run: Run, everyone: Cohort) -> Protocol:
        """Ask ``everyone`` by ``method="paper"``, and return the result."""

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy with users for each ``method``, which an audit runs."""
        users = normal_users(dim, 1)[:200]
        for method in METHODS:
            yield cls(dim, epsilon=epsilon, method=method), users

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the strategy for ``setting.num_features`` features, which a plan simulates."""
        return cls(features_of(setting, cls), epsilon=epsilon)

    @property
    def _bounds(self) -> dict[str, DeclaredBound]:
        """The declared bounds at which users clip, by name, with the questions that check them."""
        zeros = np.zeros(self.dim)
        octaves: dict[str, Octave] = {
            "feature_bound": DistanceOctave(zeros),
            "target_bound": ResidualOctave(zeros, 0.0),
        }
        return {name: DeclaredBound(getattr(self, name), octaves[name]) for name in self._clipped}

    def protocol(self, run: Run) -> Protocol:
        """Query users for the chosen method, and some users for the effect of the bounds.

        No question depends on an answer, so all questions may be sent at once.
        """
        if self.method == "paper":
            (everyone,) = run.cohorts([run.num_users])
            return (yield from self._as_printed(run, everyone))
        askers = len(self._bounds) * bound_askers(run, self._bounds)
        (everyone,) = run.cohorts([run.num_users - askers])
        result = yield from self._by_moments(run, everyone)
        return (yield from ask_beyond(run, self._bounds, result))


def largest_dim(powers: list[int]) -> int:
    """Return the largest number of features whose moments all fit in a report.

    ``powers`` are the degrees of the moments that are reported: 2 for products of two features.
    """
    dim = 1
    while num_moments(dim + 1, powers) <= MAX_REPORT:
        dim += 1
    return dim


def check_report(dim: int, projected_dim: int | None, powers: list[int]) -> None:
    """Raise ValueError if a report of moments would be too large; name a ``projected_dim``.

    ``powers`` are those of :func:`largest_dim`.
    """
    most = largest_dim(powers)
    if projected_dim is not None:
        check_integer("projected_dim", projected_dim, 1, min(dim, most))
    elif dim > most:
        raise ValueError(
            f"Expected at most {MAX_REPORT} numbers in a report, got "
            f"{num_moments(dim, powers)} for {dim} features: "
            f"project them with projected_dim <= {most}, for example "
            f"{min(most, 2 ** math.floor(math.log2(most)))}."
        )


@dataclass(kw_only=True, eq=False, repr=False)
class ProjectedCollection(CollectOnce[R]):
    """Base class of strategies whose users may project their features by a public matrix first.

    Other parameters are those of :class:`CollectOnce`.

    Parameters
    ----------
    feature_bound : float (default: 1.0)
        Public bound on the Euclidean norm of a row of features, at which rows are clipped.
    projected_dim : int, optional
        Number of dimensions to which a public random matrix projects features first.
    """

    feature_bound: Positive = 1.0
    projected_dim: int | None = None

    def _mapped(self, run: Run, question: Question, size: int) -> Question:
        """Return the question, asked about projected features if ``size`` is less than ``dim``."""
        return question if size == self.dim else Projected(question, seed_of(run.salt), size)

    def _length(self, size: int) -> float:
        """Return the norm at which rows are clipped, after a projection to ``size`` dimensions."""
        return self.feature_bound * (1.0 if size == self.dim else reach(size))

    def _matrix(self, run: Run, size: int) -> Floats:
        """Return the matrix that projects features to ``size`` numbers, shape (dim, size)."""
        return np.eye(size) if size == self.dim else projection(seed_of(run.salt), self.dim, size)


_DELTA = 1e-6  # default delta of method="paper"
#: Largest number of values in a report. With more, features must be projected.
MAX_REPORT = 5000
