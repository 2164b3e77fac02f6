"""Strategies that can have noise added once to each node's sum instead of to each user's value."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from ldp_flower.guarantee.budget import NOISE
from ldp_flower.refusals import TooFew
from ldp_flower.validation import Fraction, check_integer, check_unused

from .prints import LATER
from .run import Run, TooFewReports


@dataclass(kw_only=True, eq=False, repr=False)
class AtNode:
    """Base class of strategies with noise at the user, at the node, or shared by nodes.

    With ``noise="user"`` noise is added to each user's value, so that users trust their own device.
    With ``noise="node"`` it is added once to the exact sum over all users of a node, so that users
    trust the node that holds their rows. With ``noise="shared"`` each node adds a part of the noise
    to its sum, and only the sum over all nodes can be seen (docs/secure-sums.md). Operators have to
    allow this (``noise``, ``max-delta``, ``max-dishonest``).

    Parameters
    ----------
    delta : float (default: 1e-6)
        Privacy parameter of a user's data, with noise at the node or shared.
    honest : int, optional
        Number of nodes whose noise is relied on, with shared noise. By default it is the number of
        nodes, less one that may fail, less those that may collude according to the operators
        (``max-dishonest``). If no operator states this, a fifth of all nodes may collude.
    """

    noises: ClassVar[tuple[str, ...]] = NOISE

    delta: Fraction = field(default=1e-6, metadata={LATER: True})
    honest: int | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        if self.honest is not None:
            check_integer("honest", self.honest, _FEWEST_HONEST)
        if self.noise == "user":  # type: ignore[attr-defined]
            check_unused(self, 'with noise="user", where epsilon is pure', "delta")
        if self.noise != "shared":  # type: ignore[attr-defined]
            check_unused(self, 'without noise="shared"', "honest")

    def with_noise(self, noise: str) -> Self:
        """Return a copy of the strategy whose noise is at the place ``noise``: node, or shared."""
        return replace(self, noise=noise)  # type: ignore[call-arg]


#: Share of the budget that is kept, with shared noise, to ask lost steps again. It makes all errors
#: by noise 1.05 times as large, and the error of a question that is asked again 3.2 times as large.
SPARE = 0.1
_FEWEST_HONEST = 2
_DISHONEST = 0.2  # share of the nodes that may collude if no operator has set max-dishonest


def honest_nodes(run: Run) -> int:
    """Return the number of nodes whose noise a run relies on: one unless the noise is shared.

    Raise TooFewReports if the nodes are too few to share their noise.
    """
    settings, nodes = run.settings, run.population.num_nodes
    if settings.noise != "shared":
        return 1
    dishonest = math.ceil(_DISHONEST * nodes) if run.dishonest is None else run.dishonest
    # By default one node may be lost, unless there are too few.
    by_default = max(_FEWEST_HONEST, nodes - dishonest - 1)
    honest = getattr(settings, "honest", None) or by_default
    if honest + dishonest > nodes:
        raise TooFewReports(
            TooFew(
                f"{nodes} nodes are too few to share their noise: {dishonest} may collude, and at "
                f"least {honest} more have to add their noise.",
                "nodes",
                honest + dishonest,
                unit="nodes",
            )
        )
    return int(honest)
