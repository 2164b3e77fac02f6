"""What PrivateRegression returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ldp_flower.presentation import charts
from ldp_flower.schema import Numeric
from ldp_flower.validation import Floats

from ..runtime.coefficients import in_units
from .table_fit import TableFit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class RegressionFit(TableFit):
    """A linear model of a table, and how well it predicts users who had no part in it.

    Attributes
    ----------
    coef : ndarray of float64, shape (num_features,)
        For ``schema.features``, the intercept first, of targets as ``schema.targets`` has them.
        All slopes are 0 where the model is the mean. Normalised steps leave no textbook
        standard errors, so none are reported: ``score`` evaluates the model as a whole.
    score, score_std_error : float
        R2 by users who had no part in the fit, and its standard deviation: the share of the
        targets' variance, over users, that predictions explain. Both are NaN where noise hides
        how far the targets vary. For the mean it is what not knowing it better is expected to cost.
    method : str
        How it was found: ``"walk"``, ``"two-stage"``, or ``"constant"``.
    """

    score: float
    score_std_error: float
    method: str

    def predict(self, table: Any) -> Floats:
        """Return predictions of the target, in its units, within its bounds.

        Parameters
        ----------
        table : mapping of str to array_like, or DataFrame
            Has all columns of the schema; the target need not be among them.

        Raises
        ------
        ValueError
            If a column is missing or columns differ in length.
        """
        schema = self._schema
        predicted = schema.in_units(schema.features(table) @ self.coef)
        assert isinstance(schema.bounds, Numeric)  # whose units these are
        return np.asarray(np.clip(predicted, schema.bounds.low, schema.bounds.high))

    def table(self) -> "DataFrame":
        """Return the coefficients by name, in units of the table.

        Returns
        -------
        DataFrame
            ``name``, ``unit`` and ``coefficient``. The intercept is the prediction where all
            columns have their centres; a slope is the change for one more of its column's unit, or
            for the category instead of an average one.
        """
        from pandas import DataFrame

        units, coef, _ = in_units(self._schema, self.coef, np.zeros_like(self.coef))
        return DataFrame({"name": self._schema.names, "unit": units, "coefficient": coef})

    def _draw(self, axes: "Axes") -> None:
        drawn, schema = self._drawn, self._schema
        names = [charts.label(schema.names[i]) for i in drawn]
        unit = float(np.ptp(schema.in_units(np.array([0.0, 1.0]))))
        sure = self.score_interval[0] > 0
        colour, fill = (charts.BLUE, 1.0) if sure else (charts.GREY, 0.4)
        axes.barh(names, unit * self.coef[drawn], color=colour, alpha=fill)
        axes.invert_yaxis()
        axes.axvline(0, color=charts.GREY, lw=1)
        axes.set_xlabel(f"{schema.target}, for a quarter of a column's range or for a category")
        axes.set_title(self._evaluation())

    def _evaluation(self) -> str:
        low, high = self.score_interval
        if np.isnan(low):
            return "R2 is not known: noise hides how far the target varies"
        return f"R2 = {self.score:.2f} on people who had no part in it ({low:.2f} to {high:.2f})"

    def _findings(self) -> list[str]:
        found = "the mean" if self.method == "constant" else f"a linear model ({self.method})"
        return [f"{self._schema.target}: {found}, {self._evaluation()}"]
