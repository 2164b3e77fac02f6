"""PeelingTransfer: each silo's own teacher, trained under the privacy of its records."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ldp_flower.iht import keep_largest
from ldp_flower.presentation import charts
from ldp_flower.validation import Floats

from ..runtime.base import Card
from ..runtime.coefficients import LinearResult
from ..runtime.run import Protocol, Run, TooFewReports
from .peeling_dp_iht import PeelingDpIht

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class TransferResult(LinearResult):
    """A student, whose coefficients are ``coef``, and its teachers.

    Attributes
    ----------
    teachers : ndarray of float64, shape (silos, dim)
        The silos' models, in the random order in which they were trained.
    """

    teachers: Floats

    def table(self) -> "DataFrame":
        """Return the student's coefficients by name, with the mean and spread of the teachers'."""
        table = super().table()
        table["teachers' mean"] = self.teachers.mean(axis=0)
        table["teachers' standard deviation"] = self.teachers.std(axis=0)
        return table

    def _draw(self, axes: "Axes") -> None:
        super()._draw(axes)
        drawn = self._drawn
        for teacher in self.teachers:
            axes.plot(teacher[drawn], range(len(drawn)), ".", color=charts.GREY, alpha=0.4, ms=3)


@dataclass(kw_only=True, eq=False, repr=False)
class PeelingTransfer(PeelingDpIht):
    """A sparse student of a few silos' teachers, each trained with its records protected.

    Every silo is one user of a node. One silo after the other trains a teacher of its own by
    private hard thresholding, as in :class:`PeelingDpIht` with that silo alone. The
    student keeps the coefficients that the teachers together find largest, each the
    average over the teachers that have it. For silos that may differ, or where each silo's own
    model is wanted; for one model of all see :class:`PeelingDpIht`, with fewer rounds.

    Parameters are those of :class:`PeelingDpIht`, for each silo's teacher.

    Notes
    -----
    Source: the setting is that of Wang & Gu, "A Knowledge Transfer Framework for
    Differentially Private Sparse Learning", AAAI 2020, for several silos, with the guarantee of
    peeling in the place of theirs, which is false in general
    (``docs/silos.md``). The bounded quantity is the same as theirs: one
    record's gradient in each coordinate.

    There are ``num_steps`` rounds for each silo. The result, a :class:`TransferResult`, has the
    silos' models as ``teachers``.

    Guarantee
    ---------
    1. That of :class:`DpIht`: (``epsilon``, ``delta``) for each record and the whole run.
    2. A silo's steps are one plan of its ledger, paid as a whole with the first: see
       :class:`ldp_flower.randomizers.RecordPeeling` for the composition. The student is
       computed from the teachers.
    """

    card = Card(
        question="a sparse model of silos' own models",
        guarantee="(epsilon, delta)",
        rounds="5 for each silo",
        report="8 a coefficient",
        use_when="silos are few, and their records are protected one by one",
        fails_when="with few records: 800 in one silo leave a relative error of .26 at epsilon 2; "
        "choices do not average out, and 20 such silos leave .11",
        page="silos",
    )
    no_plan = (
        "The student is as good as the silos' own models let it be, and how good these "
        "are no public number shows: simulate it with silos of synthetic records."
    )

    def _refusal(self, num_users: int) -> str:
        """Say that a step asks one silo, however many there are."""
        if self.min_reports == 1:
            return super()._refusal(num_users)
        return f"Every step asks one silo: min_reports = {self.min_reports} cannot be reached."

    def protocol(self, run: Run) -> Protocol:
        """Train one teacher a silo, then the student."""
        found: list[Floats] = []
        noises: list[float] = []
        for silo in run.cohorts([1] * run.num_users):
            try:
                teacher, noise = yield from self.descend(silo)
            except TooFewReports:
                continue  # the student has the other silos' teachers
            found.append(teacher)
            noises.append(noise)
        if not found:
            raise TooFewReports("No silo has answered.")
        teachers = np.array(found)
        # A teacher's noise is inversely proportional to its silo's number of records.
        weights = 1 / np.array(noises)[:, None]
        kept = teachers != 0
        total, weight = (weights * teachers).sum(axis=0), (weights * kept).sum(axis=0)
        student = keep_largest(total, self.sparsity) / np.maximum(weight, weights.min())
        # Each kept coefficient's noise has variance 1 once it is weighted.
        spread = np.sqrt(kept.sum(axis=0)) / np.maximum(weight, weights.min())
        std_error = np.where(student != 0, spread, 0.0)
        return TransferResult(coef=student, std_error=std_error, teachers=teachers)
