"""What the protocols for silos share: every silo answers every step, under one plan."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from ldp_flower import Users
from ldp_flower.validation import check_choice, check_fraction, check_integer, check_positive
from ldp_flower.values.links import LINKS

from ..runtime.audit_users import one_silo
from ..runtime.base import LdpStrategy
from ..runtime.population import Cohort
from ..runtime.result import LinearResult

_LINKS = ("identity", "logistic")


@dataclass(kw_only=True, eq=False, repr=False)
class SiloRegression(LdpStrategy[LinearResult]):
    """Base class: a sparse regression over silos, each of many records.

    Parameters
    ----------
    dim : int
        Number of features.
    sparsity : int
        Number of coefficients that may differ from zero.
    epsilon, delta : float
        Privacy parameters of everything that a silo reports, about each of its records.
    num_steps : int
        Number of steps; every silo answers each.
    link : {"identity", "logistic"}
        Squared loss, or logistic loss for targets 0 and 1.
    radius : float
        Bound on the Euclidean norm of the coefficients, infinity for none.
    min_reports : int
        Fewest silos with which a step goes on.
    """

    protects = "record"

    dim: int = field(kw_only=False)
    sparsity: int
    delta: float
    link: str = "identity"
    radius: float = math.inf
    min_reports: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, 1)
        check_integer("sparsity", self.sparsity, 1, self.dim)
        check_fraction("delta", self.delta)
        check_choice("link", self.link, _LINKS)
        if self.radius != math.inf:
            check_positive("radius", self.radius)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float, **bounds: float) -> Iterator[tuple[Self, Users]]:
        """Yield plans of one step: there the whole budget can be measured in one report."""
        plan: dict[str, Any] = {"sparsity": 1, "delta": 1e-3, "num_steps": 1, **bounds}
        for link in _LINKS:
            yield cls(dim, epsilon=epsilon, link=link, **plan), one_silo(dim)

    def everyone(self) -> Cohort:
        """Return all silos as one cohort."""
        (cohort,) = self.cohorts([self._population.remaining])
        return cohort

    def _score_bound(self, wanted: float | None, name: str) -> float:
        """Return the bound on scores: the wanted one, or the link's own."""
        bound = LINKS[self.link].largest_score if wanted is None else wanted
        if not math.isfinite(bound):
            raise ValueError(f"Expected {name}, since the squared loss has no bound of its own.")
        check_positive(name, bound)
        return bound
