"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .base import LdpStrategy, TooFewReports
from .exchange import Ask
from .heavy_hitters import HeavyHitters
from .item_result import HeavyHittersResult
from .ldp_fedavg import LdpFedAvg
from .ldp_iht import LdpIht
from .model_result import FedAvgResult, ModelFit
from .population import Cohort
from .result import Fit, LinearResult, Outcome, PrivacySpent, Result, Step

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
    "Outcome",
    "PrivacySpent",
    "Result",
    "Step",
    "TooFewReports",
]
