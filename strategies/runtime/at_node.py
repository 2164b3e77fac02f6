"""Strategies that can have noise added once to each node's sum instead of to each user's value."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from ldp_flower.guarantee.budget import NOISE
from ldp_flower.validation import check_fraction, check_unused

from .run_store import LATER


@dataclass(kw_only=True, eq=False, repr=False)
class AtNode:
    """Base class of strategies with noise at the user or at the node.

    With ``noise="user"`` noise is added to each user's value, so that users trust their own device.
    With ``noise="node"`` it is added once to the exact sum over all users of a node, so that users
    trust the node that holds their rows. Operators have to allow this (``noise``, ``max-delta``).

    Parameters
    ----------
    delta : float (default: 1e-6)
        Privacy parameter of a user's data, with noise at the node.
    """

    noises: ClassVar[tuple[str, ...]] = NOISE

    delta: float = field(default=1e-6, metadata={LATER: True})

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        check_fraction("delta", self.delta)
        if self.noise == "user":  # type: ignore[attr-defined]
            check_unused(self, 'with noise="user", which is pure', "delta")

    def at_node(self) -> Self:
        """Return this strategy with noise at the node."""
        return replace(self, noise="node")  # type: ignore[call-arg]
