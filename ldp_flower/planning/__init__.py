"""What error to expect of a protocol, from public numbers, before anybody is asked."""

from ..expectation import Expectation, LowerBound, NoPlan, Plannable, Setting, WouldRefuse
from .plan import Plan, plan
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
