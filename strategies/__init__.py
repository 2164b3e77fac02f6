"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .base import LdpStrategy, TooFewReports
from .exchange import Ask
from .heavy_hitters import HeavyHitters
from .item_result import HeavyHittersResult
from .ldp_fedavg import LdpFedAvg
from .ldp_iht import LdpIht
from .model_result import FedAvgResult, ModelFit
from .multi_round_regression import MultiRoundRegression
from .population import Cohort
from .result import Fit, LinearResult, Outcome, PrivacySpent, Result, Step
from .sparse_mean import SparseMean
from .sparse_regression import SparseRegression
from .sparse_result import SparseResult
from .two_round_regression import TwoRoundRegression
from .user_level_mean import UserLevelMean

__all__ = [
    "Ask",
    "Cohort",
    "FedAvgResult",
    "Fit",
    "HeavyHitters",
    "HeavyHittersResult",
    "LdpFedAvg",
    "LdpIht",
    "LdpStrategy",
    "LinearResult",
    "ModelFit",
    "MultiRoundRegression",
    "Outcome",
    "PrivacySpent",
    "Result",
    "SparseMean",
    "SparseRegression",
    "SparseResult",
    "Step",
    "TooFewReports",
    "TwoRoundRegression",
    "UserLevelMean",
]
