"""What error to expect of a protocol, from public numbers, before anybody is asked."""

from .expectation import Expectation, NoPlan, WouldRefuse
from .plan import Plan, plan
from .plannable import Plannable
from .setting import Setting

__all__ = ["Expectation", "NoPlan", "Plan", "Plannable", "Setting", "WouldRefuse", "plan"]
