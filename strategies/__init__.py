"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .base import LdpStrategy, TooFewReports
from .exchange import Ask
from .ldp_iht import LdpIht
from .population import Cohort
from .result import Fit, LinearResult, Outcome, PrivacySpent, Result, Step

__all__ = [
    "Ask",
    "Cohort",
    "Fit",
    "LdpIht",
    "LdpStrategy",
    "LinearResult",
    "Outcome",
    "PrivacySpent",
    "Result",
    "Step",
    "TooFewReports",
]
