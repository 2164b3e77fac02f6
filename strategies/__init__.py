"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .base import LdpStrategy, TooFewReports
from .exchange import Ask
from .heavy_hitters import HeavyHitters
from .item_result import HeavyHittersResult
from .ldp_iht import LdpIht
from .multi_round_regression import MultiRoundRegression
from .population import Cohort
from .result import Fit, LinearResult, Outcome, PrivacySpent, Result, Step
from .sparse_regression import SparseRegression
from .sparse_result import SparseResult
from .two_round_regression import TwoRoundRegression
from .user_level_mean import UserLevelMean

__all__ = [
    "Ask",
    "Cohort",
    "Fit",
    "HeavyHitters",
    "HeavyHittersResult",
    "LdpIht",
    "LdpStrategy",
    "LinearResult",
    "MultiRoundRegression",
    "Outcome",
    "PrivacySpent",
    "Result",
    "SparseRegression",
    "SparseResult",
    "Step",
    "TooFewReports",
    "TwoRoundRegression",
    "UserLevelMean",
]
