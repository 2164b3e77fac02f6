"""What a protocol returns."""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Self

import flwr.serverapp.strategy as flower
import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_NOISE = (
    "No coefficient is further from zero than {:.1f} standard errors, as the largest of {} may be "
    "by chance: this may be noise and nothing else. More users or a larger epsilon are needed."
)


@dataclass(frozen=True)
class Step:
    """What became of one question.

    Attributes
    ----------
    number : int
        From 1.
    statistic : str
        What was asked.
    mechanism : str
        The randomizer that answered.
    report_bytes : int
        Size of one user's report.
    asked : int
        Users in the cohort.
    reports : int
        Users whose report was used.
    errors : int
        Nodes that answered with an error.
    rejected : int
        Nodes whose answer could not come from the randomizer that was asked for.
    silent : int
        Nodes that did not answer in time.
    reasons : Counter of str
        The texts of the error replies.
    """

    number: int
    statistic: str
    mechanism: str
    report_bytes: int
    asked: int
    reports: int
    errors: int
    rejected: int
    silent: int
    reasons: Counter[str]

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        names = ("asked", "reports", "errors", "rejected", "silent")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        reasons = "".join(
            f"; {times} x {text.rstrip('.')}" for text, times in self.reasons.most_common(3)
        )
        return (
            f"Step {self.number} ({self.statistic}): {self.reports} of {self.asked} answered; "
            f"nodes: {self.errors} errors, {self.rejected} rejected, {self.silent} silent{reasons}"
        )


@dataclass(frozen=True)
class PrivacySpent:
    """What one user spent, at most, by answering this run.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee of everything that the run asked of one user.
    unit : str
        Who is protected.
    exact : bool
        Whether all mechanisms have finite outputs, free of floating-point caveats.
    seeded : bool
        Whether reports were drawn from a known seed: then nobody is protected, and
        the run is a simulation.
    """

    epsilon: float
    delta: float
    unit: str
    exact: bool
    seeded: bool

    def __str__(self) -> str:
        delta = f", delta = {self.delta:g}" if self.delta else ""
        return f"epsilon = {self.epsilon:g}{delta} per {self.unit}"


@dataclass(repr=False, kw_only=True)
class Result(flower.Result):
    """A Flower ``Result`` with how it came about; subclasses add the estimate.

    Attributes
    ----------
    privacy : PrivacySpent
        What each user spent at most.
    num_users : int
        Users in the census.
    num_reports : int
        Reports that were used.
    steps : list of Step
        Who was asked and who answered.
    notes : list of str
        What a user of the estimate should know.
    """

    privacy: PrivacySpent | None = None
    num_users: int = 0
    num_reports: int = 0
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def _findings(self) -> list[str]:
        """Return the lines that tell the estimate."""
        return []

    def __repr__(self) -> str:
        lines = [
            *self._findings(),
            f"{self.privacy}" + (" (seeded simulation)" if self.privacy.seeded else "")
            if self.privacy
            else "nothing spent",
            f"{self.num_reports} reports of {self.num_users} users in {len(self.steps)} steps",
        ]
        return "\n".join(lines + self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "privacy": None if self.privacy is None else vars(self.privacy),
            "num_users": self.num_users,
            "num_reports": self.num_reports,
            "steps": [vars(step) | {"reasons": dict(step.reasons)} for step in self.steps],
            "notes": self.notes,
        }


def as_rows(features: ArrayLike, dim: int) -> Floats:
    """Return rows of features, or one, as floats; raise ValueError if their width is another."""
    rows = np.asarray(features, np.float64)
    if rows.shape[-1:] != (dim,):
        raise ValueError(f"Expected features of shape (rows, {dim}), got {rows.shape}.")
    return rows


@dataclass(repr=False, kw_only=True)
class LinearResult(Result):
    """A result whose estimate is a vector of coefficients.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        The estimate.
    std_error : ndarray of float64, shape (dim,)
        Standard deviation of each coefficient given the support, from the
        randomizers' known noise or the spread of the reports; 0 outside the support.
        It leaves out the bias of clipping, thresholding and early stopping.
    """

    coef: Floats
    std_error: Floats

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.coef])

    def doubted(self) -> Self:
        """Return it with a note if nothing stands out of the noise, though something is told.

        All coefficients compete for being told, so that the largest is one of many.
        """
        chance = math.sqrt(2 * math.log(2 * max(len(self.coef), 4)))
        told = self.coef != 0
        if not told.any() or (np.abs(self.coef) > chance * self.std_error)[told].any():
            return self
        return replace(self, notes=[*self.notes, _NOISE.format(chance, len(self.coef))])

    @property
    def support(self) -> NDArray[np.int64]:
        """Indices of the coefficients that are not zero."""
        return np.flatnonzero(self.coef)

    def predict(self, features: ArrayLike) -> Floats:
        """Return the linear prediction for rows of features.

        Parameters
        ----------
        features : array_like, shape (rows, dim)
            Rows on the scale on which the clients computed.

        Raises
        ------
        ValueError
            If the rows are of another width.
        """
        return np.asarray(as_rows(features, len(self.coef)) @ self.coef)

    def _findings(self) -> list[str]:
        return [f"{len(self.support)} of {len(self.coef)} coefficients are not zero"]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "coef": self.coef.tolist(),
            "std_error": self.std_error.tolist(),
            "support": self.support.tolist(),
            **super().to_dict(),
        }
