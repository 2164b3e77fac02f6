"""Flower's server optimisers, applied to the private mean update as post-processing.

The arithmetic is Flower's. Its strategy runs with the model plus the mean of the private reports,
instead of the average of the clients' models.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi

from ldp_flower.validation import Floats

_KINDS: dict[str, type[FedAvg]] = {
    kind.__name__: kind for kind in (FedAdam, FedYogi, FedAdagrad, FedAvgM)
}
_VECTOR = "parameters"  # name of the array with all parameters; the arithmetic is elementwise


@dataclass(frozen=True)
class ServerOptimizer:
    """One of Flower's server optimisers, which determines the steps of LdpFedAvg.

    It is kept as a name and numbers, without Flower's object, so that a store can compare runs.
    """

    name: str  # FedAdam, FedYogi, FedAdagrad or FedAvgM
    parameters: dict[str, float]  # parameters that FedAvg does not have: eta, beta_1, ...

    @classmethod
    def of(cls, strategy: object) -> Self:
        """Return the optimiser of one of Flower's strategy objects; return a ServerOptimizer as is.

        Raise ValueError if the object is not one of these strategies, or if one of its arguments
        has no effect here or is out of range.
        """
        if isinstance(strategy, cls):
            return strategy
        name = type(strategy).__name__
        if _KINDS.get(name) is not type(strategy):
            raise ValueError(
                f"Expected optimizer to be one of Flower's {', '.join(_KINDS)}, got {strategy!r}."
            )
        usual, parameters = FedAvg(), {}
        for own, declared in inspect.signature(type(strategy)).parameters.items():
            value = getattr(strategy, own)
            if own == "eta_l":  # Flower only prints this parameter
                if value != declared.default:
                    raise ValueError(
                        f"Expected no eta_l of the optimizer, got {value}: the app sets the rate "
                        "of local training, in train_config."
                    )
            elif not hasattr(usual, own):
                _check(own, value)
                parameters[own] = float(value)
            elif value != getattr(usual, own):
                raise ValueError(
                    f"Expected no {own} of the optimizer, got {value!r}: LdpFedAvg sends the "
                    "messages, and takes such arguments itself."
                )
        return cls(name, parameters)

    def steps(self) -> Callable[[int, Floats, Floats], Floats]:
        """Return a function of the round, the model and the mean update: it returns the next model.

        The function keeps the optimiser's state from call to call.
        """
        # _OneMean comes after Flower's class and before FedAvg, whose average it replaces.
        kind: Any = type(self.name, (_KINDS[self.name], _OneMean), {})
        strategy = kind(**self.parameters)

        def step(number: int, theta: Floats, update: Floats) -> Floats:
            strategy.current_arrays = None
            strategy.configure_train(number, _record(theta), ConfigRecord(), None)
            strategy.average = _record(theta + update)
            arrays, _ = strategy.aggregate_train(number, [])
            return np.asarray(arrays[_VECTOR].numpy(), np.float64)

        return step

    def __str__(self) -> str:
        named = ", ".join(f"{name}={value:g}" for name, value in self.parameters.items())
        return f"{self.name}({named})"


class _OneMean(FedAvg):
    """FedAvg that sends no messages and takes a given average."""

    average: ArrayRecord

    def configure_train(self, *_: Any, **__: Any) -> list[Message]:
        return []

    def aggregate_train(self, *_: Any, **__: Any) -> tuple[ArrayRecord, None]:
        return self.average, None


def _record(vector: Floats) -> ArrayRecord:
    return ArrayRecord({_VECTOR: Array(vector)})


def _check(name: str, value: Any) -> None:
    """Raise ValueError if a parameter of the optimiser is out of range."""
    share = name in ("beta_1", "beta_2", "server_momentum")
    number = isinstance(value, int | float) and math.isfinite(value)
    if not number or not (0 <= value < 1 if share else value > 0):
        allowed = f"0 <= {name} < 1" if share else f"{name} > 0"
        raise ValueError(f"Expected {allowed} of the optimizer, got {value!r}.")
