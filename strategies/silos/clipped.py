"""What the protocols for silos share that clip features one by one and guess targets' scale."""

from dataclasses import dataclass
from typing import ClassVar

from ldp_flower.validation import check_integer, check_positive, check_unused

from .base import SiloRegression


@dataclass(kw_only=True, eq=False, repr=False)
class ClippedSilos(SiloRegression):
    """Base class: features within a box, residuals within a multiple of the targets' scale.

    Other parameters are those of :class:`~.base.SiloRegression`.

    Parameters
    ----------
    target_scale : float, optional
        Root mean square of the targets, a public guess, for the squared loss only, which needs
        it.
    feature_bound : float (default: 1.0)
        Features are clipped to ``[-feature_bound, feature_bound]``.
    """

    target_scale: float | None = None
    feature_bound: float = 1.0

    _prior: ClassVar[float] = 1.0  # the first bound on residuals, in scales of the targets

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("feature_bound", self.feature_bound)
        if self.link == "logistic":
            check_unused(self, "with link='logistic'", "target_scale")
        wanted = None if self.target_scale is None else self._prior * self.target_scale
        self._first_bound = self._score_bound(wanted, "target_scale")


@dataclass(kw_only=True, eq=False, repr=False)
class ShrinkingClip(ClippedSilos):
    """Base class: gradient steps, whose bound on residuals shrinks towards the noise.

    Other parameters are those of :class:`ClippedSilos`.

    Parameters
    ----------
    noise_scale : float, optional
        Standard deviation of the targets given the features, a public guess, for the squared
        loss only; by default half of ``target_scale``.
    feature_variance : float (default: 1.0)
        Mean square of a feature: 1 for signs, 1/3 for uniform features. Steps are its
        inverse, four times that for the logistic loss.
    num_steps : int
        Number of steps; every silo answers each.
    """

    noise_scale: float | None = None
    feature_variance: float = 1.0
    num_steps: int

    _shrinkage: ClassVar[float]  # of the bound on residuals, from step to step
    _floor: ClassVar[float]  # of that bound, in scales of the noise

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("num_steps", self.num_steps, 1)
        check_positive("feature_variance", self.feature_variance)
        if self.link == "logistic":
            check_unused(self, "with link='logistic'", "noise_scale")
        usual = self._first_bound / self._prior / 2
        self._noise_scale = usual if self.noise_scale is None else self.noise_scale
        check_positive("noise_scale", self._noise_scale)

    def residual_bounds(self) -> list[float]:
        """Return the bound on residuals of every step."""
        if self.link == "logistic":
            return [self._first_bound] * self.num_steps
        floor = min(self._floor * self._noise_scale, self._first_bound)
        return [max(self._first_bound * self._shrinkage**t, floor) for t in range(self.num_steps)]
