"""Comparison of a user's app under FedAvg, DP-FedAvg, LocalDpMod, DP-SGD and LdpFedAvg."""

from .comparison import METHODS, compare
from .nodes import CannotCompareError
from .report import Comparison

__all__ = ["METHODS", "CannotCompareError", "Comparison", "compare"]
