"""Results of table models: fits of regressions and classifiers."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray
from scipy.special import expit

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.presentation import charts
from ldp_flower.presentation.page import INTERVAL
from ldp_flower.validation import Floats

from ..runtime.coefficients import MOST_OF_R2, CoefficientResult
from ..runtime.result import HALF_WIDTH_95
from ..runtime.units import in_units, units_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False, kw_only=True)
class TableFit(CoefficientResult):
    """A model of a table with a score on held-out users."""

    _metric: ClassVar[str] = "R2"  #: Name of the score.
    _least: ClassVar[float] = -math.inf  #: Smallest possible score.

    score: float
    score_std_error: float
    method: str

    @property
    def score_interval(self) -> tuple[float, float]:
        """The two ends of the score's 95 % interval, cut to possible scores."""
        reach = HALF_WIDTH_95 * self.score_std_error
        return max(self.score - reach, self._least), min(self.score + reach, 1.0)

    def _evaluation(self) -> str:
        """Return the score with its interval, and on whose rows it was computed."""
        low, high = self.score_interval
        same = self.method == "sums of nodes"
        judges = "the people whom it was fitted to" if same else "people who had no part in it"
        return f"{self._metric} = {self.score:.2f} on {judges} ({low:.2f} to {high:.2f})"

    @property
    def _schema(self) -> Schema:
        if self.schema is None:
            raise ValueError("Expected a result with its schema, got none.")
        return self.schema


@dataclass(repr=False, kw_only=True)
class RegressionFit(TableFit):
    """A linear model of a table, with its R2 on held-out users.

    Attributes
    ----------
    coef : ndarray of float64, shape (num_features,)
        Coefficients for ``schema.features``, the intercept first, and for targets as
        ``schema.targets`` returns them. All slopes are 0 if the model is the mean. ``score``
        evaluates the model as a whole.
    score, score_std_error : float
        R2 on held-out users, and its standard error. R2 is the share of the targets' variance, over
        users, that predictions explain. Both are NaN if noise hides the targets' variance. If the
        model is the mean, the score is the R2 expected from the error of the mean, below 0.
    method : str
        Method of the fit: ``"one-stage"``, ``"two-stage"``, ``"public"``, ``"sums of nodes"``, or
        ``"constant"``.
    mean_std_error : float
        Standard error of the mean prediction as an estimate of the mean target, in the target's
        units. It includes the possible bias of clipping. NaN in results of older versions.
    interval : ndarray of float64, shape (num_features, 2), optional
        95 % intervals of the least squares coefficients, in units of ``coef``, if features are
        public, or if intervals were asked for with noise at the node. With public features the
        coefficients in ``coef`` are shrunk, which improves predictions. An interval is NaN if the
        rows do not identify the coefficient, or if noise hides how columns vary together. With
        noise at the user and private features there are no standard errors.
    """

    mean_std_error: float = math.nan
    interval: Floats | None = None

    def predict(self, table: Any) -> Floats:
        """Return predictions of the target, in its units, within its bounds.

        Parameters
        ----------
        table : mapping of str to array_like, or DataFrame
            Rows with all columns of the schema; the target is not needed.

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
            ``name``, ``unit`` and ``coefficient``, and :attr:`interval` if there is one. The
            intercept is the prediction for columns at their centres, by default the middles of
            their bounds. A slope is the change of the prediction for one more unit of its column,
            or for its category instead of an average one.
        """
        from pandas import DataFrame

        units, coef, _ = in_units(self._schema, self.coef, np.zeros_like(self.coef))
        columns = {"name": self._schema.names, "unit": units, "coefficient": coef}
        if self.interval is not None:
            for name, ends in zip(INTERVAL, self.interval.T, strict=True):
                columns[name] = in_units(self._schema, ends, np.zeros_like(ends))[1]
        return DataFrame(columns)

    def _draw(self, axes: "Axes") -> None:
        drawn, schema = self._drawn, self._schema
        names = [charts.label(schema.names[i]) for i in drawn]
        unit = float(np.ptp(schema.in_units(np.array([0.0, 1.0]))))
        sure = self.score_interval[0] > 0
        colour, fill = (charts.BLUE, 1.0) if sure else (charts.GREY, 0.4)
        axes.barh(names, unit * self.coef[drawn], color=colour, alpha=fill)
        if self.interval is not None:
            low, high = unit * self.interval[drawn].T
            middle, reach = (low + high) / 2, np.nan_to_num((high - low) / 2)
            axes.errorbar(middle, names, xerr=reach, fmt="none", ecolor=charts.GREY)
        axes.invert_yaxis()
        axes.axvline(0, color=charts.GREY, lw=1)
        axes.set_xlabel(f"{schema.target}, for a quarter of a column's range or for a category")
        axes.set_title(self._evaluation())

    def _evaluation(self) -> str:
        low, high = self.score_interval
        if np.isnan(low) or high - low > 2 * MOST_OF_R2:
            return "R2 is not known: noise hides how far the target varies"
        return super()._evaluation()

    def _findings(self) -> list[str]:
        found = "the mean" if self.method == "constant" else f"a linear model ({self.method})"
        return [f"{self._schema.target}: {found}, {self._evaluation()}"]


@dataclass(repr=False, kw_only=True)
class ClassificationFit(TableFit):
    """A logistic model of a table, with its AUC on held-out users.

    Attributes
    ----------
    coef : ndarray of float64, shape (num_features,) or (classes, num_features)
        Coefficients for ``schema.features``, the intercept first. They give the logit of the second
        of two classes, or, with more classes, of each class against all others. All slopes are 0 if
        the model is the classes' shares. Normalised steps do not allow standard errors, so
        ``score`` evaluates the model as a whole.
    shares, shares_std_error : ndarray of float64, shape (classes,)
        Each class's share of users' rows, and its standard error.
    score, score_std_error : float
        AUC on held-out users, and its standard error. AUC is the probability that a row of the
        second class scores above one of the first. With more than two classes it is the mean
        weighted by their shares; if the model is the shares, it is .5. With noise at the user, it
        is estimated as if the scores of both classes were normal, and the error counts that they
        need not be. With sums of nodes, it is that of the users whom the model was fitted to, from
        several points of the ROC curve.
    method : str
        Method of the fit: ``"directions"``, ``"lengths"``, ``"sums of nodes"``, or ``"shares"``.
    """

    _metric, _least = "AUC", 0.0

    shares: Floats
    shares_std_error: Floats

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.coef, self.shares])

    @property
    def classes(self) -> NDArray[Any]:
        """The categories as they were declared, in the schema's order."""
        bounds = self._schema.bounds
        assert isinstance(bounds, Categories)  # of which the target is one
        return np.array(bounds.declared)

    def predict_proba(self, table: Any) -> Floats:
        """Return the classes' probabilities for rows of a table.

        Parameters
        ----------
        table : mapping of str to array_like, or DataFrame
            Rows with all columns of the schema; the target is not needed.

        Returns
        -------
        ndarray of float64, shape (rows, classes)
            Probabilities in the order of the categories; each row sums to 1.

        Raises
        ------
        ValueError
            If a column is missing or columns differ in length.
        """
        own = expit(self._schema.features(table) @ np.atleast_2d(self.coef).T)
        if self.coef.ndim == 1:
            return np.hstack([1 - own, own])
        own = np.maximum(own, np.finfo(float).tiny)
        return np.asarray(own / own.sum(axis=1, keepdims=True))

    def predict(self, table: Any) -> NDArray[Any]:
        """Return each row's most probable class, one of :attr:`classes`.

        Parameters and errors are those of :meth:`predict_proba`.
        """
        return np.asarray(self.classes[self.predict_proba(table).argmax(axis=1)])

    def table(self) -> "DataFrame":
        """Return the coefficients by name, in units of the table.

        Returns
        -------
        DataFrame
            ``name``, ``unit``, and a column of coefficients for the logit of the second of two
            classes, or of each of more than two. The intercept is the logit for columns at their
            centres, by default the middles of their bounds. A slope is the change of the logit for
            one more unit of its column, or for its category instead of an average one.
        """
        from pandas import DataFrame

        units, sizes = units_of(self._schema, "log odds")
        rows = dict(zip(self._logit_classes, np.atleast_2d(self.coef) / sizes, strict=True))
        return DataFrame({"name": self._schema.names, "unit": units, **rows})

    @property
    def _logit_classes(self) -> list[str]:
        """Names of the classes whose logits the rows of ``coef`` predict, in their order."""
        names = [f"{self._schema.target}={value}" for value in self._schema.classes]
        return names if self.coef.ndim == 2 else names[1:]

    def _draw(self, axes: "Axes") -> None:
        drawn = self._drawn
        names = [charts.label(self._schema.names[i]) for i in drawn]
        rows = np.atleast_2d(self.coef)
        if len(rows) == 1:
            axes.barh(names, rows[0, drawn], color=charts.BLUE)
        else:
            for name, row in zip(self._logit_classes, rows, strict=True):
                axes.plot(row[drawn], names, "o", label=charts.label(name))
            axes.legend()
        axes.invert_yaxis()
        axes.axvline(0, color=charts.GREY, lw=1)
        axes.set_xlabel("log odds, for a quarter of a column's range or for a category")
        axes.set_title(self._evaluation())

    def _findings(self) -> list[str]:
        found = "the shares" if self.method == "shares" else f"a logistic model ({self.method})"
        shares = ", ".join(
            f"{value} {100 * share:.0f} %"
            for value, share in zip(self._schema.classes, self.shares, strict=True)
        )
        return [f"{self._schema.target}: {found}, {self._evaluation()}; {shares}"]
