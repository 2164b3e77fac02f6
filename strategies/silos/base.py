"""What the protocols for silos share: every silo answers every step, under one plan."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ldp_flower.guarantee.users import Users
from ldp_flower.validation import check_choice, check_fraction, check_positive
from ldp_flower.values.links import LINKS

from ..runtime.audit_users import one_silo
from ..runtime.features import SparseStrategy
from ..runtime.population import Cohort

_LINKS = ("identity", "logistic")


@dataclass(kw_only=True, eq=False, repr=False)
class SiloRegression(SparseStrategy):
    """Base class: a sparse regression over silos, each of many records.

    Other parameters are those of :class:`~..runtime.features.SparseStrategy`.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of everything that a silo reports, about each of its records.
    delta : float
        Privacy parameter likewise, in (0, 1).
    link : {"identity", "logistic"} (default: "identity")
        Squared loss, or logistic loss for targets 0 and 1 (or -1 and 1).
    radius : float (default: infinity)
        Bound on the Euclidean norm of the coefficients.
    min_reports : int (default: 1)
        Fewest silos with which a step goes on.
    """

    protects = "record"
    #: Arguments of :meth:`audit_runs` beside those of all.
    _audited: ClassVar[Mapping[str, float]] = {}

    delta: float
    link: str = "identity"
    radius: float = math.inf
    min_reports: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("delta", self.delta)
        check_choice("link", self.link, _LINKS)
        if self.radius != math.inf:
            check_positive("radius", self.radius)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield plans of one step: there the whole budget can be measured in one report."""
        plan: dict[str, Any] = {"sparsity": 1, "delta": 1e-3, "num_steps": 1, **cls._audited}
        yield cls(dim, epsilon=epsilon, link="identity", **plan), one_silo(dim)
        plan.pop("target_scale", None)  # classes have none
        yield cls(dim, epsilon=epsilon, link="logistic", **plan), one_silo(dim)

    def everyone(self) -> Cohort:
        """Return all silos as one cohort."""
        (cohort,) = self.cohorts([self._population.remaining])
        return cohort

    def _score_bound(self, wanted: float | None, name: str) -> float:
        """Return the bound on scores: the wanted one, or the link's own."""
        bound = LINKS[self.link].largest_score if wanted is None else wanted
        if not math.isfinite(bound):
            raise ValueError(
                f"Expected {name} with link={self.link!r}, whose loss has no bound of its own."
            )
        check_positive(name, bound)
        return bound
