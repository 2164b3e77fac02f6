"""Planning: the expected error of a protocol, from public numbers, before any query."""

from ..expectation import Expectation, LowerBound, NoPlan, Plannable, Setting, WouldRefuse
from .plan import plan
from .result import Plan
from .variants import expectation

__all__ = [
    "Expectation",
    "LowerBound",
    "NoPlan",
    "Plan",
    "Plannable",
    "Setting",
    "WouldRefuse",
    "expectation",
    "plan",
]
