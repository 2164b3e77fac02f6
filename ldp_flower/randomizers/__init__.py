"""Local randomizers, each with its guarantee, and the registry of those that a message can name.

The module :mod:`.base` defines what a mechanism is. The module :mod:`.two_level` holds the exact
sampling that all mechanisms with finitely many outputs share.
"""

from collections.abc import Mapping
from functools import lru_cache
from inspect import isabstract, isclass

from .base import Randomizer
from .codebooks import Codebook
from .estimates import Estimate, Summary
from .hadamard_codebook import HadamardCodebook, ball_codebook
from .hypercube import SubsetHypercube
from .items import best_frequency_oracle
from .items.frequency import FrequencyOracle, KRandomizedResponse
from .items.hadamard import HadamardBit, HadamardResponse
from .items.hashing import OptimizedLocalHashing
from .items.prefix import PrefixExtending, TreeHist
from .items.square_wave import DiscreteSquareWave, NarrowSquareWave
from .items.subset import SubsetSelection
from .real_valued.gaussian import GaussianMechanism, GaussianRecord
from .real_valued.record_places import RecordPeeling, RecordVertices
from .real_valued.records import RecordGaussian, RecordMechanism
from .real_valued.scalar import HybridMechanism, PiecewiseMechanism
from .sampled import SampledCoordinate
from .sums import BallSum, CellSum, NodeSum
from .two_level import RandomizedResponse, TwoLevel

__all__ = [
    "BallSum",
    "CellSum",
    "Codebook",
    "DiscreteSquareWave",
    "Estimate",
    "FrequencyOracle",
    "GaussianMechanism",
    "GaussianRecord",
    "HadamardBit",
    "HadamardCodebook",
    "HadamardResponse",
    "HybridMechanism",
    "KRandomizedResponse",
    "NarrowSquareWave",
    "NodeSum",
    "OptimizedLocalHashing",
    "PiecewiseMechanism",
    "PrefixExtending",
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
]


def randomizer_from_config(config: Mapping[str, object]) -> Randomizer:
    """Return the randomizer that :meth:`Randomizer.to_config` has described by plain values.

    Raise ValueError if the name is not in the registry or a parameter is missing, unknown, of
    the wrong type or outside its range.
    """
    if all(isinstance(value, int | float | str) for value in config.values()):
        return _kept(tuple((name, type(value), value) for name, value in config.items()))
    return _built(dict(config))


@lru_cache(maxsize=64)
def _kept(config: tuple[tuple[str, type, object], ...]) -> Randomizer:
    """Return a randomizer: the cached object with its tables, or a new one.

    Many messages in a row name the same randomizer. The types are part of the cache key, since
    1, 1.0 and True are equal.
    """
    return _built({name: value for name, _, value in config})


def _built(parameters: dict[str, object]) -> Randomizer:
    if parameters.get("name") != SampledCoordinate.__name__:
        return _single(parameters)
    prefix = "part/"
    part = {k.removeprefix(prefix): v for k, v in parameters.items() if k.startswith(prefix)}
    own = {name for name in parameters if not name.startswith(prefix)}
    dim = parameters.get("dim")
    if own != {"name", "dim"} or type(dim) is not int:
        raise ValueError(f"Expected name, an integer dim and a part, got {sorted(parameters)}.")
    return SampledCoordinate(_single(part), dim)


def _single(parameters: dict[str, object]) -> Randomizer:
    name = parameters.pop("name", None)
    if not isinstance(name, str) or name not in _REGISTRY:
        raise ValueError(f"Expected a randomizer in {sorted(_REGISTRY)}, got {name!r}.")
    return _REGISTRY[name].from_parameters(parameters)


# All mechanisms of ``__all__`` but SampledCoordinate, which is built with its part.
_REGISTRY: dict[str, type[Randomizer]] = {
    cls.__name__: cls
    for cls in (globals()[name] for name in __all__)
    if isclass(cls) and issubclass(cls, Randomizer) and not isabstract(cls)
    if cls is not SampledCoordinate
}
