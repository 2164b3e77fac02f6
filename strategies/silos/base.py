"""Base classes of the strategies for silos, and the guarantee of their plans.

A plan is the set of all steps of a run, which a silo's ledger charges as a whole.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from ldp_flower.data.users import Users
from ldp_flower.questions import Gradient
from ldp_flower.questions.links import LINKS
from ldp_flower.validation import (
    Count,
    Floats,
    Fraction,
    Positive,
    check_positive,
    check_unused,
)

from ..forecasts.populations import one_silo
from ..runtime import Cohort, Run, guarantees
from ..runtime.coefficients import SparseStrategy

Link = Literal["identity", "logistic"]
_CLASS_BOUND = 0.5  # bound on residuals of classes: their size at coefficients of zero
#: Reason why no error can be predicted for a sparse student of silos' models.
NO_PLAN_OF_TEACHERS = (
    "The student's accuracy depends on the silos' own models, and no public number shows how good "
    "these are: simulate it with silos of synthetic records."
)


def record_guarantee(randomizer: str) -> tuple[str, ...]:
    """Return the points of the guarantee of strategies whose randomizer has this name."""
    return (
        "Protected: every record of every silo, against any other record in its place, at "
        "(``epsilon``, ``delta``) for the whole run, against everybody but its own silo. A person "
        "with several records, or records in several silos, is protected less.",
        "A silo's reports are one plan of its ledger, paid as a whole with the first: see "
        f":class:`ldp_flower.randomizers.{randomizer}` for the composition.",
        "How many records a silo has is public, declared by its operator. No guarantee rests on "
        "that number.",
        guarantees.ENFORCED,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class SiloRegression(SparseStrategy):
    """Base class of sparse regressions over silos with many records each.

    Other parameters are those of :class:`~..runtime.coefficients.SparseStrategy`.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of all that a silo reports, about each of its records; delta in (0, 1).
    link : {"identity", "logistic"} (default: "identity")
        Squared loss, or logistic loss for targets 0 and 1 (or -1 and 1).
    radius : float (default: infinity)
        Bound on the Euclidean norm of the coefficients.
    min_reports : int (default: 1)
        Smallest number of silos with which a step goes on.
    """

    protects = "record"
    #: Additional arguments of a subclass in :meth:`audit_runs`.
    _audited: ClassVar[Mapping[str, float]] = {}

    delta: Fraction
    link: Link = "identity"
    radius: float = math.inf
    min_reports: Count = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius != math.inf:
            check_positive("radius", self.radius)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield a strategy of one step for each link, with one silo as its users.

        A single report of such a strategy spends the whole budget.
        """
        plan: dict[str, Any] = {"sparsity": 1, "delta": 1e-3, "num_steps": 1, **cls._audited}
        yield cls(dim, epsilon=epsilon, link="identity", **plan), one_silo(dim)
        plan.pop("target_scale", None)  # classes have none
        yield cls(dim, epsilon=epsilon, link="logistic", **plan), one_silo(dim)

    def everyone(self, run: Run) -> Cohort:
        """Return the cohort of all silos."""
        (cohort,) = run.cohorts([run.num_unasked])
        return cohort

    def _score_bound(self, wanted: float | None, name: str) -> float:
        """Return the bound at which residuals are clipped: ``wanted``, or else that of the link.

        Raise ValueError, about the argument ``name``, if neither exists.
        """
        bound = LINKS[self.link].largest_score if wanted is None else wanted
        if not math.isfinite(bound):
            raise ValueError(
                f"Expected {name} with link={self.link!r}, whose loss has no bound of its own."
            )
        check_positive(name, bound)
        return bound


@dataclass(kw_only=True, eq=False, repr=False)
class ClippedSilos(SiloRegression):
    """Base class of regressions over silos with clipped features and residuals.

    Residuals are clipped at a multiple of the targets' scale. For classes they are clipped at 1/2,
    their size at coefficients of zero. This halves the noise, and does not change the direction of
    the coefficients if features have the same distribution.

    Other parameters are those of :class:`~.base.SiloRegression`.

    Parameters
    ----------
    target_scale : float, optional
        Root mean square of the targets, a public guess. The squared loss requires it, and the
        logistic loss does not use it.
    feature_bound : float (default: 1.0)
        Features are clipped to ``[-feature_bound, feature_bound]``.
    """

    target_scale: Positive | None = None
    feature_bound: Positive = 1.0

    no_plan = (
        "The error by noisy choices of coefficients depends on how far apart features' scores are, "
        "which no public number shows: simulate it on synthetic records of the same size."
    )
    _prior: ClassVar[float] = 1.0  # first bound on residuals, in units of the targets' scale

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link == "logistic":
            check_unused(self, "with link='logistic'", "target_scale")
            wanted: float | None = _CLASS_BOUND
        else:
            wanted = None if self.target_scale is None else self._prior * self.target_scale
        self._first_bound = self._score_bound(wanted, "target_scale")

    def _gradient(self, theta: Floats, bound: float, **arguments: Any) -> Gradient:
        """Return the question for gradients at ``theta``, with residuals clipped at ``bound``."""
        return Gradient(
            theta,
            feature_bound=self.feature_bound,
            residual_bound=bound,
            link=self.link,
            **arguments,
        )
