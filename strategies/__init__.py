"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .analytics.counts import Counts, CountsResult
from .analytics.describe import Describe
from .analytics.describe_result import DescribeResult
from .analytics.distribution import Distribution
from .analytics.distribution_result import DistributionResult
from .analytics.heavy_hitters import HeavyHitters, HeavyHittersResult
from .analytics.means import Means, MeansResult
from .analytics.quantiles import Quantiles, QuantilesResult
from .analytics.two_way import TwoWay, TwoWayResult
from .collect_once.constrained_mean import ConstrainedMean
from .collect_once.constrained_regression import ConstrainedRegression
from .collect_once.kernel_ridge_regression import KernelResult, KernelRidgeRegression
from .collect_once.smooth_glm import GlmResult, SmoothGlm
from .iht.label_ldp_iht import LabelLdpIht
from .iht.ldp_iht import LdpIht
from .iht.non_interactive_iht import NonInteractiveIht
from .models.ldp_fedavg import FedAvgResult, LdpFedAvg
from .models.network_rounds import RecordDpSgdResult
from .models.record_dp_sgd import RecordDpSgd
from .models.trained import trainable_of
from .recurring.series import Series
from .recurring.series_result import SeriesResult
from .runtime import (
    Ask,
    Card,
    Cohort,
    ContradictedValue,
    LdpStrategy,
    LinearResult,
    Result,
    TooFewReports,
)
from .runtime.result import PrivacySpent, Step
from .silos.dp_iht import DpIht
from .silos.knowledge_transfer import KnowledgeTransfer
from .silos.peeling_dp_iht import PeelingDpIht, PeelingTransfer, TransferResult
from .silos.private_frank_wolfe import PrivateFrankWolfe
from .sparse.base import SparseResult
from .sparse.sparse_mean import SparseMean
from .sparse.sparse_regression import SparseRegression
from .table_models.fits import ClassificationFit, RegressionFit
from .table_models.private_classification import PrivateClassification
from .table_models.private_regression import PrivateRegression
from .tables.private_evaluation import EvaluationResult, PrivateEvaluation
from .user_level.multi_round_regression import MultiRoundRegression
from .user_level.two_round_regression import TwoRoundRegression
from .user_level.user_level_mean import UserLevelMean

__all__ = [
    "Ask",
    "Card",
    "ClassificationFit",
    "Cohort",
    "ConstrainedMean",
    "ConstrainedRegression",
    "ContradictedValue",
    "Counts",
    "CountsResult",
    "Describe",
    "DescribeResult",
    "Distribution",
    "DistributionResult",
    "DpIht",
    "EvaluationResult",
    "FedAvgResult",
    "GlmResult",
    "HeavyHitters",
    "HeavyHittersResult",
    "KernelResult",
    "KernelRidgeRegression",
    "KnowledgeTransfer",
    "LabelLdpIht",
    "LdpFedAvg",
    "LdpIht",
    "LdpStrategy",
    "LinearResult",
    "Means",
    "MeansResult",
    "MultiRoundRegression",
    "NonInteractiveIht",
    "PeelingDpIht",
    "PeelingTransfer",
    "PrivacySpent",
    "PrivateClassification",
    "PrivateEvaluation",
    "PrivateFrankWolfe",
    "PrivateRegression",
    "Quantiles",
    "QuantilesResult",
    "RecordDpSgd",
    "RecordDpSgdResult",
    "RegressionFit",
    "Result",
    "Series",
    "SeriesResult",
    "SmoothGlm",
    "SparseMean",
    "SparseRegression",
    "SparseResult",
    "Step",
    "TooFewReports",
    "TransferResult",
    "TwoRoundRegression",
    "TwoWay",
    "TwoWayResult",
    "UserLevelMean",
    "trainable_of",
]
