"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .base import LdpStrategy, TooFewReports
from .exchange import Ask
from .heavy_hitters import HeavyHitters
from .item_result import HeavyHittersResult
from .ldp_iht import LdpIht
from .population import Cohort
from .result import Fit, LinearResult, Outcome, PrivacySpent, Result, Step
from .sparse_regression import SparseRegression
from .sparse_result import SparseResult

__all__ = [
    "Ask",
    "Cohort",
    "Fit",
    "HeavyHitters",
    "HeavyHittersResult",
    "LdpIht",
    "LdpStrategy",
    "LinearResult",
    "Outcome",
    "PrivacySpent",
    "Result",
    "SparseRegression",
    "SparseResult",
    "Step",
    "TooFewReports",
]
