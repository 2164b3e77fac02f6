"""Local randomizers: one mechanism per module, each with its guarantee.

What a mechanism is, is in :mod:`.base`; the exact sampling that the finite ones
share is in :mod:`.two_level`; what a message may name is in :mod:`.registry`.
"""

from .base import Estimate, Randomizer, Summary
from .codebook import Codebook
from .hypercube import SubsetHypercube
from .privunit import PrivUnit
from .registry import randomizer_from_config
from .response import RandomizedResponse
from .two_level import TwoLevel

__all__ = [
    "Codebook",
    "Estimate",
    "PrivUnit",
    "RandomizedResponse",
    "Randomizer",
    "SubsetHypercube",
    "Summary",
    "TwoLevel",
    "randomizer_from_config",
]
