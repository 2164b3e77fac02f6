"""TwoRoundRegression: users vote for variables, others average their least squares."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp_flower.guarantee.questions import ResidualCoefficients
from ldp_flower.validation import Floats

from ..numerics.denoising import ridge_moments, shrink
from ..runtime import Ask, Card, Run, ask_on, guarantees
from ..subprotocols.coordinate_mean import CoordinateMean
from .base import Integers, SelectedRegression

_RIDGE = {"auto": 0.3, "paper": 1e-3}  # of the local regressions; 0 would be least squares
_WAVES = (0.3, 0.3, 0.4)  # shares of the users that estimate
_MIN_RESIDUAL = 0.25  # share of the targets' variance that always counts as unexplained


@dataclass(kw_only=True, eq=False, repr=False)
class TwoRoundRegression(SelectedRegression):
    """Sparse linear regression: a vote for variables, then the mean of local coefficients.

    Half of the users vote, each for the variables that a local selector ranks highest.
    The others regress their targets on the selected variables and report the
    coefficients, in units of the targets' scale.

    With ``method="paper"`` a user votes for one variable, and one rotated coordinate of
    the coefficients is reported: as a bin by half of the users, which gives the range,
    as a number within it by the others. With ``method="auto"`` a vote is for a set of
    variables, more variables than wanted are kept at first, and coefficients are
    reported as vectors in a ball, in three waves: later users subtract what is known
    already. See :class:`~.base.SelectedRegression` for the parameters.

    Notes
    -----
    Source: Ma, Jia & Yang, "Better Locally Private Sparse Estimation Given Multiple Samples Per
    User", ICML 2024, Algorithm 1. Changes for ``method="paper"``: every user sends one report of
    the whole ``epsilon``; values are clipped to the range before they are randomised; nobody is
    left out because of its data. The range needs no guess: standardised targets have coefficients
    of length at most 1 (unit, uncorrelated features), and these vary by ``sqrt(k / (m - k - 1))``
    among users at most. A tiny ridge makes least squares defined for users with few rows.
    """

    guarantee = guarantees.PER_USER
    card = Card(
        question="sparse linear regression of known sparsity",
        guarantee="pure epsilon",
        rounds="up to 7; paper: a vote, then 2",
        report="1; votes a bit a feature at most",
        use_when="Ma, Jia & Yang (2024) are to be compared with; users have many records",
        fails_when="at epsilon 1 with 400 users of 100 records: the error (.66) is above that of "
        "returning zero (.566)",
        page="user-level-mean",
    )

    def _regress(
        self, run: Run, selected: Integers, scale: float, notes: list[str]
    ) -> Generator[Ask, Any, tuple[Floats, Floats]]:
        if self.method == "paper":
            return (yield from self._by_coordinates(run, selected, notes))
        return (yield from self._by_waves(run, selected))

    def _question(self, selected: Integers, theta: Floats) -> ResidualCoefficients:
        ridge = _RIDGE[self.method]
        return ResidualCoefficients(theta, np.ones(len(selected)), ridge, selected)

    def _by_coordinates(
        self, run: Run, selected: Integers, notes: list[str]
    ) -> Generator[Ask, Any, tuple[Floats, Floats]]:
        size = len(selected)
        spread = math.sqrt(size / max(self.samples_per_user - size - 1, 1))
        estimator = CoordinateMean(self.epsilon, size, 1.0, spread)
        notes += estimator.doubts(run.num_unasked)
        cohorts = run.cohorts(estimator.sizes(run.num_unasked))
        question = self._question(selected, np.zeros(self.dim))
        found = yield from estimator.estimate(cohorts, question, run.salt)
        return found.mean, found.std_error

    def _by_waves(self, run: Run, selected: Integers) -> Generator[Ask, Any, tuple[Floats, Floats]]:
        size, rows = len(selected), self.samples_per_user
        factor, noise = ridge_moments(size / rows, _RIDGE["auto"])
        users = run.num_unasked
        sizes = [int(share * users) for share in _WAVES[:-1]]
        total, precision, square = np.zeros(size), 0.0, np.zeros(size)
        for cohort in run.cohorts([*sizes, users - sum(sizes)]):
            # Before the first wave it is only known that the length is at most 1.
            centre, error = np.zeros(size), 1.0
            if precision:
                centre = shrink(total / precision, 1 / precision)
                error = min(size / precision, 1.0)
            residual = max(1 - float(centre @ centre), _MIN_RESIDUAL)
            length = size * noise / rows + factor**2 * min(error / residual, 1.0)
            mechanism = self.randomizer(size, self._quantile(size) * math.sqrt(length))
            theta = np.zeros(self.dim)
            theta[selected] = centre
            ask = Ask(cohort, self._question(selected, theta), mechanism)
            answer = yield from ask_on(ask, precision > 0)
            if answer is None:
                break
            unit = math.sqrt(residual) / factor
            weight = answer.count / (unit**2 * (mechanism.variance + noise / rows))
            total += weight * (centre + unit * answer.mean)
            square += (weight * unit * answer.std_error) ** 2
            precision += weight
        return total / precision, np.sqrt(square) / precision
