"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .base import LdpStrategy, TooFewReports
from .constrained_mean import ConstrainedMean
from .constrained_regression import ConstrainedRegression
from .dp_iht import DpIht
from .evaluation_result import Evaluation, EvaluationResult
from .exchange import Ask
from .glm_result import GlmFit, GlmResult
from .heavy_hitters import HeavyHitters
from .item_result import HeavyHittersResult
from .kernel_result import KernelFit, KernelResult
from .kernel_ridge_regression import KernelRidgeRegression
from .knowledge_transfer import KnowledgeTransfer
from .label_ldp_iht import LabelLdpIht
from .ldp_fedavg import LdpFedAvg
from .ldp_iht import LdpIht
from .model_result import FedAvgResult, ModelFit
from .multi_round_regression import MultiRoundRegression
from .non_interactive_iht import NonInteractiveIht
from .peeling_dp_iht import PeelingDpIht
from .peeling_transfer import PeelingTransfer
from .population import Cohort
from .private_evaluation import PrivateEvaluation
from .private_frank_wolfe import PrivateFrankWolfe
from .result import Fit, LinearResult, Outcome, PrivacySpent, Result, Step
from .smooth_glm import SmoothGlm
from .sparse_mean import SparseMean
from .sparse_regression import SparseRegression
from .sparse_result import SparseResult
from .transfer_result import TransferFit, TransferResult
from .two_round_regression import TwoRoundRegression
from .two_stage_regression import TwoStageRegression
from .user_level_mean import UserLevelMean

__all__ = [
    "Ask",
    "Cohort",
    "ConstrainedMean",
    "ConstrainedRegression",
    "DpIht",
    "Evaluation",
    "EvaluationResult",
    "FedAvgResult",
    "Fit",
    "GlmFit",
    "GlmResult",
    "HeavyHitters",
    "HeavyHittersResult",
    "KernelFit",
    "KernelResult",
    "KernelRidgeRegression",
    "KnowledgeTransfer",
    "LabelLdpIht",
    "LdpFedAvg",
    "LdpIht",
    "LdpStrategy",
    "LinearResult",
    "ModelFit",
    "MultiRoundRegression",
    "NonInteractiveIht",
    "Outcome",
    "PeelingDpIht",
    "PeelingTransfer",
    "PrivacySpent",
    "PrivateEvaluation",
    "PrivateFrankWolfe",
    "Result",
    "SmoothGlm",
    "SparseMean",
    "SparseRegression",
    "SparseResult",
    "Step",
    "TooFewReports",
    "TransferFit",
    "TransferResult",
    "TwoRoundRegression",
    "TwoStageRegression",
    "UserLevelMean",
]
