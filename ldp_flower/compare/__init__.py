"""Comparison of a user's app under FedAvg, DP-FedAvg, LocalDpMod, DP-SGD and LdpFedAvg.

:mod:`~ldp_flower.compare.flower` configures Flower's own private methods with the correct noise.
"""

from .comparison import compare
from .comparison_plan import METHODS
from .flower import dp_fedavg, flower_epsilon, local_dp_mod, local_dp_multiplier
from .nodes import CannotCompareError
from .report import Comparison

__all__ = [
    "METHODS",
    "CannotCompareError",
    "Comparison",
    "compare",
    "dp_fedavg",
    "flower_epsilon",
    "local_dp_mod",
    "local_dp_multiplier",
]
