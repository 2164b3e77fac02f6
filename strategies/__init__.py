"""The untrusted half: Flower strategies, pure post-processing of reports."""

from .analytics.correlation import Correlation as Correlation
from .analytics.correlation import CorrelationResult as CorrelationResult
from .analytics.counts import Counts as Counts
from .analytics.counts import CountsResult as CountsResult
from .analytics.describe import Describe as Describe
from .analytics.describe_result import DescribeResult as DescribeResult
from .analytics.difference import Difference as Difference
from .analytics.difference_result import DifferenceResult as DifferenceResult
from .analytics.distribution import Distribution as Distribution
from .analytics.distribution_result import DistributionResult as DistributionResult
from .analytics.group_distributions import (
    GroupDistributionsResult as GroupDistributionsResult,
)
from .analytics.heavy_hitters import HeavyHitters as HeavyHitters
from .analytics.heavy_hitters_result import HeavyHittersResult as HeavyHittersResult
from .analytics.means import Means as Means
from .analytics.means_result import MeansResult as MeansResult
from .analytics.quantiles import Quantiles as Quantiles
from .analytics.quantiles_result import QuantilesResult as QuantilesResult
from .analytics.synthesize import Synthesize as Synthesize
from .analytics.synthesize_result import SynthesizeResult as SynthesizeResult
from .analytics.two_way import TwoWay as TwoWay
from .analytics.two_way import TwoWayResult as TwoWayResult
from .collect_once.constrained_mean import ConstrainedMean as ConstrainedMean
from .collect_once.constrained_regression import ConstrainedRegression as ConstrainedRegression
from .collect_once.kernel_ridge_regression import KernelResult as KernelResult
from .collect_once.kernel_ridge_regression import KernelRidgeRegression as KernelRidgeRegression
from .collect_once.smooth_glm import GlmResult as GlmResult
from .collect_once.smooth_glm import SmoothGlm as SmoothGlm
from .iht.label_ldp_iht import LabelLdpIht as LabelLdpIht
from .iht.ldp_iht import LdpIht as LdpIht
from .iht.non_interactive_iht import NonInteractiveIht as NonInteractiveIht
from .models.fedavg_result import FedAvgResult as FedAvgResult
from .models.ldp_fedavg import LdpFedAvg as LdpFedAvg
from .models.record_dp_sgd import RecordDpSgd as RecordDpSgd
from .models.record_result import RecordDpSgdResult as RecordDpSgdResult
from .models.trained import trainable_of as trainable_of
from .recurring.series import Series as Series
from .recurring.series_result import SeriesResult as SeriesResult
from .runtime import Ask as Ask
from .runtime import Card as Card
from .runtime import Cohort as Cohort
from .runtime import ContradictedValue as ContradictedValue
from .runtime import LdpStrategy as LdpStrategy
from .runtime import LinearResult as LinearResult
from .runtime import Result as Result
from .runtime import TooFewReports as TooFewReports
from .runtime.facts import PrivacySpent as PrivacySpent
from .runtime.facts import Step as Step
from .silos.dp_iht import DpIht as DpIht
from .silos.knowledge_transfer import KnowledgeTransfer as KnowledgeTransfer
from .silos.peeling_dp_iht import PeelingDpIht as PeelingDpIht
from .silos.peeling_dp_iht import PeelingTransfer as PeelingTransfer
from .silos.peeling_dp_iht import TransferResult as TransferResult
from .silos.private_frank_wolfe import PrivateFrankWolfe as PrivateFrankWolfe
from .sparse.base import SparseResult as SparseResult
from .sparse.sparse_mean import SparseMean as SparseMean
from .sparse.sparse_regression import SparseRegression as SparseRegression
from .table_models.fits import ClassificationFit as ClassificationFit
from .table_models.fits import RegressionFit as RegressionFit
from .table_models.linear_evaluation import EvaluationResult as EvaluationResult
from .table_models.network_evaluation import (
    NetworkEvaluationResult as NetworkEvaluationResult,
)
from .table_models.private_classification import PrivateClassification as PrivateClassification
from .table_models.private_evaluation import PrivateEvaluation as PrivateEvaluation
from .table_models.private_regression import PrivateRegression as PrivateRegression
from .user_level.multi_round_regression import MultiRoundRegression as MultiRoundRegression
from .user_level.two_round_regression import TwoRoundRegression as TwoRoundRegression
from .user_level.user_level_mean import UserLevelMean as UserLevelMean
