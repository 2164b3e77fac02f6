"""Budget of a run with noise at the node: one plan, whose reports share it."""

import math
from dataclasses import dataclass
from functools import cached_property

from ldp_flower.randomizers.real_valued.gaussian import zcdp_rho
from ldp_flower.randomizers.sums import PARTS, BallSum, CellSum, NodeSum
from ldp_flower.refusals import TooFew

from ..runtime import Run


@dataclass(frozen=True)
class Budget:
    """Privacy parameters of a run, the number of its users and of their nodes."""

    epsilon: float
    delta: float
    users: int
    nodes: int

    @classmethod
    def of(cls, run: Run, delta: float) -> "Budget":
        """Return the budget of a run."""
        return cls(run.epsilon, delta, run.num_users, run.population.num_nodes)

    @cached_property
    def rho(self) -> float:
        """Zero-concentrated privacy parameter of the whole run."""
        return zcdp_rho(self.epsilon, self.delta)

    def signal(self, share: float) -> float:
        """Signal of all users over the noise of all nodes, for values of length 1 by this share."""
        return self.users * math.sqrt(2 * self.rho * share / self.nodes)

    def ball(self, dim: int, radius: float, share: float, steps: int = 1) -> BallSum:
        """Return the mechanism for vectors of at most ``radius``, one of ``steps`` by a share."""
        return BallSum(self.epsilon, self.delta, dim, self._parts(share, steps), radius)

    def cells(self, dim: int, share: float, steps: int = 1) -> CellSum:
        """Return the mechanism for distributions over cells, one of ``steps`` by a share."""
        return CellSum(self.epsilon, self.delta, dim, self._parts(share, steps))

    def error(self, mechanism: NodeSum) -> float:
        """Return the standard error by noise of a mean over all users."""
        return math.sqrt(self.nodes * mechanism.variance) / self.users

    def too_few(self, what: str, needed: int) -> TooFew | None:
        """Return why the users are too few to do ``what``; None if they are ``needed`` or more."""
        return too_few_at_nodes(what, needed, self.users, self.nodes, self.epsilon)

    @staticmethod
    def _parts(share: float, steps: int) -> int:
        return max(math.floor(share * PARTS / steps + 1e-9), 1)


def too_few_at_nodes(
    what: str, needed: int, users: int, nodes: int, epsilon: float
) -> TooFew | None:
    """Return why users of some nodes are too few to do ``what``; None if they are enough."""
    if users >= needed:
        return None
    return TooFew(
        f"{users:,} users on {'one node' if nodes == 1 else f'{nodes} nodes'} are too few at "
        f"epsilon {epsilon:g} with noise at the node to {what}.",
        "noise",
        needed,
        advice="K nodes take the square root of K as many." if nodes == 1 else "",
    )
