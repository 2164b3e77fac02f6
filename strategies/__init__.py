"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .base import LdpStrategy, TooFewReports
from .constrained_mean import ConstrainedMean
from .constrained_regression import ConstrainedRegression
from .exchange import Ask
from .glm_result import GlmFit, GlmResult
from .heavy_hitters import HeavyHitters
from .item_result import HeavyHittersResult
from .kernel_result import KernelFit, KernelResult
from .kernel_ridge_regression import KernelRidgeRegression
from .ldp_fedavg import LdpFedAvg
from .ldp_iht import LdpIht
from .model_result import FedAvgResult, ModelFit
from .multi_round_regression import MultiRoundRegression
from .population import Cohort
from .result import Fit, LinearResult, Outcome, PrivacySpent, Result, Step
from .smooth_glm import SmoothGlm
from .sparse_regression import SparseRegression
from .sparse_result import SparseResult
from .two_round_regression import TwoRoundRegression
from .user_level_mean import UserLevelMean

__all__ = [
    "Ask",
    "Cohort",
    "ConstrainedMean",
    "ConstrainedRegression",
    "FedAvgResult",
    "Fit",
    "GlmFit",
    "GlmResult",
    "HeavyHitters",
    "HeavyHittersResult",
    "KernelFit",
    "KernelResult",
    "KernelRidgeRegression",
    "LdpFedAvg",
    "LdpIht",
    "LdpStrategy",
    "LinearResult",
    "ModelFit",
    "MultiRoundRegression",
    "Outcome",
    "PrivacySpent",
    "Result",
    "SmoothGlm",
    "SparseRegression",
    "SparseResult",
    "Step",
    "TooFewReports",
    "TwoRoundRegression",
    "UserLevelMean",
]
