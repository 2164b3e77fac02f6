"""KnowledgeTransfer: a strategy that averages private reports of silos' own models."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ldp_flower.data.users import Users
from ldp_flower.questions import LocalCoefficients, Teacher
from ldp_flower.questions.public_maps import synthetic_features
from ldp_flower.questions.sparse import iht, keep_largest, project_on_ball
from ldp_flower.randomizers import Estimate, Randomizer, ball_codebook
from ldp_flower.validation import (
    Count,
    Positive,
    check_choice,
    check_integer,
    check_positive,
    check_unused,
)

from ..forecasts.populations import normal_users
from ..numerics.denoising import keep_above
from ..runtime import (
    Ask,
    Card,
    Cohort,
    LinearResult,
    Protocol,
    Run,
    ask_on,
    guarantees,
)
from ..runtime.coefficients import SparseStrategy
from .base import NO_PLAN_OF_TEACHERS

_MIN_BOUND = 0.1  # smallest bound on a teacher's difference from the student, over the radius
# Shares of the silos that have no teacher and check the student: for a rough and a final answer.
_COMPARED = 0.05, 0.1
_RIDGE = 0.1  # penalty of the regressions in these silos, in units of the features' mean square
_NOTED = 0.2  # teachers' error, over the student's norm, above which a note is added
_BIASED = (
    "Teachers are biased: {} silos without a teacher, which regress the student's residuals on its "
    "features, find coefficients that differ from its own by {:.0%} of their length. Silos with "
    "more records, a larger radius or another sparsity are needed."
)
_NOTHING = (
    "No coefficient exceeds the noise: all are returned as 0. More silos, a larger epsilon or a "
    "smaller radius would help."
)


@dataclass(kw_only=True, eq=False, repr=False)
class KnowledgeTransfer(SparseStrategy):
    """Strategy that trains a sparse student model from the models (teachers) of many silos.

    Every silo (for example a hospital) is one user of a node, and is protected as a whole. It
    trains a sparse teacher on all its records, by iterative hard thresholding, and reports the
    coefficients as a vector in a ball. The server averages the reports and keeps the largest
    coefficients. In later waves silos report the difference between their teacher and the current
    student, in a smaller ball, which requires less noise.

    Other parameters are those of :class:`~..runtime.coefficients.SparseStrategy`.

    Parameters
    ----------
    radius : float
        Bound on the Euclidean norm of a teacher's coefficients, a public guess.
    link : {"identity", "logistic"} (default: "identity")
        Loss of the teachers: the squared loss, or the logistic loss for targets 0 and 1.
    ridge : float (default: 0.0)
        Weight of half the squared norm of a teacher's coefficients in its loss.
    num_waves : int (default: 3)
        Number of waves into which silos with a teacher are split. The paper has 1.
    num_answers : int, optional
        Number of public synthetic rows, at most ``dim``. As in the paper, silos release their
        teacher's answers on these rows, and the student is trained on them by iterative hard
        thresholding. With more rows, coefficients interfere less with each other. By default silos
        release the coefficients instead.
    synthetic_seed : int, optional
        Public seed of the synthetic rows, by default 1.
    min_reports : int (default: 10)
        Smallest number of silos with which a wave goes on.

    Notes
    -----
    Source: the setting is that of Wang & Gu, "A Knowledge Transfer Framework for
    Differentially Private Sparse Learning", AAAI 2020. Their guarantee is false in general
    (``docs/silos.md``), and this is a different algorithm. Theirs scales the noise to an assumed
    stability of the training. Here the noise hides any teacher in the ball, so no assumption is
    needed. The price is that many silos are needed: some 3,000 at epsilon 2 for 10 of 1,000
    coefficients.

    Some silos have no teacher and regress the student's residuals on its features. ``std_error``
    covers the error of the teachers that they find, or the precision with which they could find
    one, as well as noise and differences between silos. It does not cover the selection of
    coefficients. It is NaN for classes.
    """

    guarantee = (
        "Protected: all records of a silo at once, their number included, against any others "
        "(user-level local differential privacy of the silo), at pure ``epsilon``. How a teacher "
        "is trained plays no part.",
        guarantees.ASKED_ONCE,
        "A person with records in several silos is protected less: by the sum of their epsilons.",
        guarantees.ENFORCED,
    )
    card = Card(
        question="a sparse model of silos' own models",
        guarantee="pure epsilon",
        rounds="5 (waves of silos)",
        report="1",
        use_when="silos are some 1,000 or more, each protected as a whole",
        fails_when="with fewer than some 1,000 silos at epsilon 2 (300 at 4) and 1,000 features",
        page="silos",
    )
    no_plan = NO_PLAN_OF_TEACHERS

    protects = "silo"

    radius: Positive
    link: str = "identity"
    ridge: float = 0.0
    num_waves: Count = 3
    num_answers: int | None = None
    synthetic_seed: int | None = None
    min_reports: Count = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("link", self.link, Teacher.links)
        if self.ridge != 0:
            check_positive("ridge", self.ridge)
        # Significance threshold for coefficients, in standard deviations of the noise.
        self._cutoff = math.sqrt(2 * math.log(self.dim))
        self._synthetic_seed = 1 if self.synthetic_seed is None else self.synthetic_seed
        check_integer("synthetic_seed", self._synthetic_seed, 1, 1 << 53)
        if self.num_answers is not None:
            check_integer("num_answers", self.num_answers, 1, self.dim)
        else:
            check_unused(self, "without num_answers", "synthetic_seed")
        self.randomizer(self.radius)  # raises an error now if epsilon is invalid

    def randomizer(self, bound: float) -> Randomizer:
        """Return the mechanism of teachers, which are within ``bound`` of the student."""
        width = self.num_answers or self.dim
        if self.num_answers:
            bound *= 1 + 2 / math.sqrt(width)  # the norm of answers seldom exceeds this
        return ball_codebook(self.epsilon, width, bound)

    @classmethod
    def audit_runs(cls, dim: int, epsilon: float) -> Iterator[tuple[Self, Users]]:
        """Yield strategies with users, for an audit: on coefficients, and on answers."""
        users = normal_users(dim, 2).partition(0, 100)
        both: tuple[dict[str, Any], ...] = (
            {"link": "identity", "num_waves": 2},
            {"link": "logistic", "ridge": 0.1, "num_waves": 1, "num_answers": dim},
        )
        for options in both:
            yield cls(dim, sparsity=1, epsilon=epsilon, radius=1.0, **options), users

    def protocol(self, run: Run) -> Protocol:
        """Query silos for teachers, in waves, and return the student that learns from them."""
        sizes = [max(int(share * run.num_users), self.min_reports) for share in _COMPARED]
        without = run.cohorts(sizes) if self.link == "identity" else []
        student, bound = np.zeros(self.dim), self.radius
        rows, seed = self.num_answers, self._synthetic_seed
        features = synthetic_features(seed, rows, self.dim) if rows else None
        pooled, precision = np.zeros(rows or self.dim), 0.0
        for left in range(self.num_waves, 0, -1):
            (cohort,) = run.cohorts([run.num_unasked // left])
            question = Teacher(
                *(student, self.sparsity, self.radius, self.ridge or None, rows),
                *(seed if rows else None, self.link),
            )
            answer = yield from ask_on(Ask(cohort, question, self.randomizer(bound)), precision > 0)
            if answer is None:
                break
            known = student if features is None else features @ student
            gained = 1 / float(np.mean(answer.std_error**2))
            pooled = (precision * pooled + gained * (known + answer.mean)) / (precision + gained)
            precision += gained
            noise = 1 / math.sqrt(precision)
            found = pooled
            if features is not None:
                found = iht(features, pooled, self.sparsity, radius=self.radius)
            found = keep_above(found, self._cutoff * noise)  # drops insignificant coefficients
            student = project_on_ball(keep_largest(found, self.sparsity), self.radius)
            wrong = math.sqrt(self.sparsity) * (1 + self._cutoff) * noise
            bound = min(bound, max(wrong, _MIN_BOUND * self.radius))
        notes = [] if student.any() else [_NOTHING]
        std_error = np.where(student != 0, noise, 0.0)
        result = LinearResult(coef=student, std_error=std_error, notes=notes)
        return (yield from self._compared(without, result))

    def _compared(
        self, cohorts: list[Cohort], result: LinearResult
    ) -> Generator[Ask, Estimate, LinearResult]:
        """Return the result with errors that are measured by silos without a teacher."""
        support, radius = result.support, self.radius
        unknown = replace(result, std_error=np.where(result.coef != 0, np.nan, 0.0))
        if not cohorts or not len(support):
            return unknown
        question = LocalCoefficients(result.coef, 0.0, _RIDGE, 1.0, support)
        for silos in cohorts:
            mechanism = ball_codebook(self.epsilon, len(support) + 1, radius)
            answer = yield from ask_on(Ask(silos, question, mechanism), True)
            if answer is None:
                return unknown
            off, errors = np.abs(answer.mean[:-1]), answer.std_error[:-1]
            rough = float(np.linalg.norm(answer.mean) + np.linalg.norm(answer.std_error))
            radius = min(max(rough, _MIN_BOUND * self.radius), self.radius)
        std_error = result.std_error.copy()
        std_error[support] = np.hypot(std_error[support], np.maximum(off, errors))
        surely = np.linalg.norm(np.maximum(off - 2 * errors, 0.0))
        share, notes = float(surely / np.linalg.norm(result.coef)), result.notes
        if share > _NOTED:
            notes = [*notes, _BIASED.format(answer.count, share)]
        result = replace(result, std_error=std_error, notes=notes)
        return result.with_support_note(self.sparsity)
