"""What PeelingTransfer returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ldp_flower.presentation import charts
from ldp_flower.validation import Floats

from ..runtime.result import LinearResult

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
