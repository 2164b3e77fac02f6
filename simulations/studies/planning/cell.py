"""What plans are judged on: a protocol and a population, and the median of some runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower import strategies
from ldp_flower.planning import Setting, WouldRefuse, expectation
from ldp_flower.strategies import LdpStrategy


class Judged:
    """A protocol and a population; families say which."""

    protocol: str
    epsilon: float

    @property
    def seeds(self) -> int:
        """How many runs there are."""
        return 10

    @property
    def setting(self) -> Setting:
        """What is publicly known of it."""
        raise NotImplementedError

    @property
    def kind(self) -> type[LdpStrategy[Any]]:
        """The class of the protocol."""
        found: type[LdpStrategy[Any]] = getattr(strategies, self.protocol)
        return found

    @property
    def strategy(self) -> LdpStrategy[Any]:
        """The protocol as it is planned."""
        return self.kind.planned_for(self.setting, self.epsilon)

    @property
    def is_refused(self) -> bool:
        """Whether the protocol would not ask such users."""
        try:
            expectation(self.strategy, self.setting, 1)
        except WouldRefuse:
            return True
        return False

    def measured(self, errors: Sequence[Any]) -> float:
        """Return the error of the median run, from those of all."""
        return float(np.median(errors))


@dataclass(frozen=True)
class MadeUp(Judged):
    """A protocol and a population that is drawn; of families with a ``quality`` it is public."""

    protocol: str
    users: int
    features: int
    rows: int
    epsilon: float

    @property
    def setting(self) -> Setting:
        """What the protocol's plan reads of it."""
        given = {
            "rows_per_user": self.rows,
            "num_features": self.features,
            "quality": getattr(self, "quality", None),
        }
        read = {name: value for name, value in given.items() if name in self.kind.plans_with}
        return Setting(num_users=self.users, **read)
