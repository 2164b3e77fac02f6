"""Local randomizers: one mechanism per module, each with its guarantee.

What a mechanism is, is in :mod:`.base`; the exact sampling that the finite ones
share is in :mod:`.two_level`; what a message may name is in :mod:`.registry`.
"""

from .base import Estimate, Randomizer, Summary
from .choice import best_frequency_oracle
from .codebook import Codebook
from .composed import Composed
from .concentrated import ConcentratedGaussian
from .direct import KRandomizedResponse
from .frequency import FrequencyOracle
from .gaussian import GaussianMechanism, GaussianRecord
from .hadamard import HadamardResponse
from .hashing import OptimizedLocalHashing
from .hypercube import SubsetHypercube
from .peeling import RecordPeeling
from .pem import PrefixExtending
from .privunit import DuchiBall, LiftedPrivUnit, PrivUnit
from .records import RecordGaussian, RecordMechanism
from .registry import randomizer_from_config
from .response import RandomizedResponse
from .sampled import SampledCoordinate
from .scalar import HybridMechanism, LaplaceMechanism, PiecewiseMechanism
from .splitting import split_epsilon
from .subset import SubsetSelection
from .treehist import TreeHist
from .two_level import TwoLevel
from .unary import OptimizedUnaryEncoding
from .vertices import RecordVertices

__all__ = [
    "Codebook",
    "Composed",
    "ConcentratedGaussian",
    "DuchiBall",
    "Estimate",
    "FrequencyOracle",
    "GaussianMechanism",
    "GaussianRecord",
    "HadamardResponse",
    "HybridMechanism",
    "KRandomizedResponse",
    "LaplaceMechanism",
    "LiftedPrivUnit",
    "OptimizedLocalHashing",
    "OptimizedUnaryEncoding",
    "PiecewiseMechanism",
    "PrefixExtending",
    "PrivUnit",
    "RandomizedResponse",
    "Randomizer",
    "RecordGaussian",
    "RecordMechanism",
    "RecordPeeling",
    "RecordVertices",
    "SampledCoordinate",
    "SubsetHypercube",
    "SubsetSelection",
    "Summary",
    "TreeHist",
    "TwoLevel",
    "best_frequency_oracle",
    "randomizer_from_config",
    "split_epsilon",
]
