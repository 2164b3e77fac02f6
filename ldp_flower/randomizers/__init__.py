"""Local randomizers: one mechanism per module, each with its guarantee.

What a mechanism is, is in :mod:`.base`; the exact sampling that the finite ones
share is in :mod:`.two_level`; what a message may name is in :mod:`.registry`.
"""

from .base import Estimate, Randomizer, Summary
from .codebooks.codebook import Codebook
from .codebooks.hadamard import HadamardCodebook, ball_codebook
from .composed import Composed
from .hypercube import SubsetHypercube
from .items.choice import best_frequency_oracle
from .items.direct import KRandomizedResponse
from .items.frequency import FrequencyOracle
from .items.hadamard import HadamardBit, HadamardResponse
from .items.hashing import OptimizedLocalHashing
from .items.square_wave import DiscreteSquareWave
from .items.subset import SubsetSelection
from .items.trees import PrefixExtending, TreeHist
from .items.unary import OptimizedUnaryEncoding
from .real_valued.choosing import RecordPeeling, RecordVertices
from .real_valued.concentrated import ConcentratedGaussian
from .real_valued.gaussian import GaussianMechanism, GaussianRecord
from .real_valued.privunit import DuchiBall, LiftedPrivUnit, PrivUnit
from .real_valued.records import RecordGaussian, RecordMechanism
from .real_valued.scalar import HybridMechanism, LaplaceMechanism, PiecewiseMechanism
from .registry import randomizer_from_config
from .response import RandomizedResponse
from .sampled import SampledCoordinate
from .splitting import split_epsilon
from .two_level import TwoLevel

__all__ = [
    "Codebook",
    "Composed",
    "ConcentratedGaussian",
    "DiscreteSquareWave",
    "DuchiBall",
    "Estimate",
    "FrequencyOracle",
    "GaussianMechanism",
    "GaussianRecord",
    "HadamardBit",
    "HadamardCodebook",
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
    "ball_codebook",
    "best_frequency_oracle",
    "randomizer_from_config",
    "split_epsilon",
]
