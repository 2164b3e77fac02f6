"""What a user's data may cost for life: the operator's policy, and what a query costs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from .randomizers import Randomizer
from .validation import check_integer


@dataclass(frozen=True)
class Cost:
    """A privacy cost, or the sum of several by basic composition.

    Attributes
    ----------
    epsilon : float
        Sum of the epsilons.
    delta : float
        Sum of the deltas.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.epsilon < math.inf and 0 <= self.delta < 1):
            raise ValueError(f"Expected a finite privacy cost, got {self}.")

    @classmethod
    def of(cls, randomizer: Randomizer) -> Self:
        """Return the cost of one report, read off the mechanism itself."""
        return cls(randomizer.epsilon, randomizer.delta)


@dataclass(frozen=True)
class PrivacyPolicy:
    """What the operator of a client allows, whatever a server asks.

    Parameters
    ----------
    max_epsilon : float
        Largest sum of the epsilons of all reports about one user, for life.
    max_delta : float (default: 0.0)
        Largest sum of the deltas.
    allow_inexact : bool (default: False)
        Whether to accept mechanisms with real-valued outputs, whose guarantee holds
        in real arithmetic only.
    max_rows : int, optional
        Largest number of rows used per user (the first ones); by default all.

    Raises
    ------
    ValueError
        If a limit is negative or not a number.
    """

    max_epsilon: float
    max_delta: float = 0.0
    allow_inexact: bool = False
    max_rows: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_epsilon, bool) or not self.max_epsilon > 0:
            raise ValueError(f"Expected max_epsilon > 0, got {self.max_epsilon}.")
        if not 0 <= self.max_delta < 1:
            raise ValueError(f"Expected 0 <= max_delta < 1, got {self.max_delta}.")
        if not isinstance(self.allow_inexact, bool):
            raise ValueError(f"Expected allow_inexact true or false, got {self.allow_inexact}.")
        if self.max_rows is not None:
            check_integer("max_rows", self.max_rows, 1)

    @classmethod
    def from_node_config(cls, node_config: Mapping[str, object]) -> Self | None:
        """Read the policy that a node's operator has set, or None without one.

        The keys are the parameters with hyphens (``max-epsilon``, ``allow-inexact``);
        without ``max-epsilon`` there is no policy.

        Raises
        ------
        ValueError
            If a value is not allowed.
        """
        given = {
            field.name: node_config[key]
            for field in fields(cls)
            if (key := field.name.replace("_", "-")) in node_config
        }
        if "max_epsilon" not in given:
            return None
        if given["max_epsilon"] == math.inf:
            raise ValueError("Expected max_epsilon finite, got inf.")
        for name in ("max_epsilon", "max_delta"):
            if name in given and not isinstance(given[name], int | float):
                raise ValueError(f"Expected a number for {name}, got {given[name]!r}.")
        if "max_rows" in given and type(given["max_rows"]) is not int:
            raise ValueError(f"Expected an integer for max_rows, got {given['max_rows']!r}.")
        return cls(**given)  # type: ignore[arg-type]

    def tightened_by(self, other: "PrivacyPolicy | None") -> "PrivacyPolicy":
        """Return the stricter of two policies in every respect."""
        if other is None:
            return self
        rows = [rows for rows in (self.max_rows, other.max_rows) if rows is not None]
        return PrivacyPolicy(
            min(self.max_epsilon, other.max_epsilon),
            min(self.max_delta, other.max_delta),
            self.allow_inexact and other.allow_inexact,
            min(rows, default=None),
        )

    def allows(self, randomizer: Randomizer) -> bool:
        """Whether one report of this mechanism is allowed to a user who spent nothing."""
        cost = Cost.of(randomizer)
        return (
            (randomizer.exact or self.allow_inexact)
            and cost.epsilon <= self.max_epsilon
            and cost.delta <= self.max_delta
        )
