"""Budget of a run with noise at the node, which the questions to all of its users share."""

import math
from dataclasses import dataclass
from functools import cached_property

from ldp_flower.questions import Question
from ldp_flower.randomizers.sum_budget import plan_rho
from ldp_flower.randomizers.sums import PARTS, BallSum, CellSum, NodeSum
from ldp_flower.refusals import TooFew

from ..runtime import Ask, Cohort, Run
from ..runtime.at_node import SPARE, honest_nodes


@dataclass(frozen=True)
class Budget:
    """Budget that a run with noise at the node has for the sums over all of its users.

    It has the privacy parameters of the ledger's plan, of which the run uses a share. It makes the
    mechanism of each sum, and says how large the errors will be.
    """

    epsilon: float
    delta: float
    users: int  # number of users
    nodes: int  # number of nodes that hold them
    of_run: float = 1.0  # share of the plan that the run uses
    honest: int = 1  # number of nodes whose noise is relied on: 1 unless the noise is shared
    run: Run | None = None  # the run whose users are asked; None for a budget without a run

    @classmethod
    def of(cls, run: Run, delta: float) -> "Budget":
        """Return the budget of a run with noise at nodes; raise TooFewReports for too few nodes."""
        nodes, honest = run.population.num_nodes, honest_nodes(run)
        share = run.share * (1 - SPARE if honest > 1 else 1)
        return cls(run.epsilon, delta, run.num_users, nodes, share, honest, run)

    @cached_property
    def _everyone(self) -> Cohort:
        assert self.run is not None
        (cohort,) = self.run.cohorts([self.run.num_users])
        return cohort

    def ask(self, question: Question, mechanism: NodeSum) -> Ask:
        """Return the question to all users of the run, by a mechanism that this budget pays."""
        return Ask(self._everyone, question, mechanism)

    @cached_property
    def rho(self) -> float:
        """Privacy cost rho of the whole run (:mod:`ldp_flower.randomizers.sum_budget`)."""
        return plan_rho(self.epsilon, self.delta) * self.of_run

    def signal(self, share: float) -> float:
        """Return the signal-to-noise ratio of the sum of all users' values, each of length 1.

        Descents choose their step lengths by it. ``share`` is the share of the run's budget that is
        spent on the sum.
        """
        return self.users * math.sqrt(2 * self.rho * share * self.honest / self.nodes)

    def ball(self, dim: int, radius: float, share: float, steps: int = 1) -> BallSum:
        """Return the mechanism that adds noise to a node's sum of vectors of length ``radius``.

        Vectors may be shorter. The mechanism is for one of ``steps`` sums of the same kind.
        ``share`` is the share of the run's budget that all these sums spend together.
        """
        parts = self._parts(share, steps)
        return BallSum(self.epsilon, self.delta, dim, parts, self.honest, radius)

    def cells(self, dim: int, share: float, steps: int = 1) -> CellSum:
        """Return the mechanism that adds noise to a node's sum of distributions over ``dim`` cells.

        It is for one of ``steps`` sums of the same kind.
        ``share`` is the share of the run's budget that all these sums spend together.
        """
        return CellSum(self.epsilon, self.delta, dim, self._parts(share, steps), self.honest)

    def error(self, mechanism: NodeSum) -> float:
        """Return the standard error by noise of each coordinate of the mean over all users."""
        return math.sqrt(self.nodes * mechanism.variance) / self.users

    def too_few(self, what: str, needed: int) -> TooFew | None:
        """Return a TooFew if fewer than ``needed`` users are to do ``what``, or None."""
        noise = "shared" if self.honest > 1 else "node"
        return too_few_at_nodes(what, needed, self.users, self.nodes, self.epsilon, noise)

    def _parts(self, share: float, steps: int) -> int:
        parts = share * self.of_run * PARTS / steps
        if parts < 1 - 1e-9:
            raise ValueError(
                f"Expected steps that have 1 / {PARTS:,} of the budget or more, got "
                f"{parts / PARTS:.2g}: ask for fewer estimates, or in fewer collections."
            )
        return math.floor(parts + 1e-9)


def too_few_at_nodes(
    what: str, needed: int, users: int, nodes: int, epsilon: float, noise: str
) -> TooFew | None:
    """Return a TooFew if ``users`` users are fewer than ``needed`` to do ``what``, or None.

    The users are on ``nodes`` nodes.
    """
    if users >= needed:
        return None
    where = "shared noise" if noise == "shared" else "noise at the node"
    return TooFew(
        f"{users:,} users on {'one node' if nodes == 1 else f'{nodes} nodes'} are too few at "
        f"epsilon {epsilon:g} with {where} to {what}.",
        "noise",
        needed,
        advice="K nodes need the square root of K times as many." if nodes == 1 else "",
    )
