"""Results and base classes of strategies that estimate one coefficient per feature."""

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar, get_args

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike, NDArray

from ldp_flower.data.schema import Schema
from ldp_flower.presentation import charts
from ldp_flower.validation import Count, Floats, check_integer

from .base import LdpStrategy
from .result import HALF_WIDTH_95, Result, frame, interval
from .units import in_units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

MOST_OF_R2 = 2.0  #: Half-width of an interval of R2 from which on R2 counts as not known.
_NOISE = (
    "No coefficient is more than {:.1f} standard errors from zero, as far as the largest of {} may "
    "be by chance: the estimate may be noise alone. More users or a larger epsilon are needed."
)


# Largest number of coefficients that a page shows in the order of the features, and that a chart
# shows.
_FEW, _DRAWN = 40, 20


def as_rows(features: ArrayLike, dim: int) -> Floats:
    """Return one or more rows of features as floats.

    Raise ValueError if a row does not have ``dim`` features.
    """
    rows = np.asarray(features, np.float64)
    if rows.shape[-1:] != (dim,):
        raise ValueError(f"Expected features of shape (rows, {dim}) or ({dim},), got {rows.shape}.")
    return rows


@dataclass(repr=False, kw_only=True)
class CoefficientResult(Result):
    """A result whose estimate is coefficients; its chart shows the largest ones.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,) or (classes, dim)
        The estimate.
    """

    _predicts: ClassVar[bool] = True

    coef: Floats

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.coef])

    @property
    def names(self) -> list[str]:
        """Names of the features from the schema, or else their numbers."""
        if self.schema is not None and self.schema.num_features == self.coef.shape[-1]:
            return self.schema.names
        return [f"feature {number}" for number in range(self.coef.shape[-1])]

    @property
    def _order(self) -> NDArray[np.int64]:
        """Indices of the coefficients, those of the largest absolute values first."""
        return np.argsort(-np.abs(np.atleast_2d(self.coef)).max(axis=0), kind="stable")

    @property
    def _drawn(self) -> NDArray[np.int64]:
        """Indices of the coefficients in a chart, largest first and without the intercept."""
        order = self._order
        return order[order >= (self.names[0] == "intercept" and len(order) > 1)][:_DRAWN]

    @property
    def _height(self) -> float:
        return charts.height_of(len(self._drawn))

    def _shown(self, table: "DataFrame") -> "DataFrame":
        """Return the table, sorted with the largest coefficients first if there are over 40."""
        return table if len(table) <= _FEW else table.iloc[self._order]


@dataclass(repr=False, kw_only=True)
class LinearResult(CoefficientResult):
    """A result whose estimate is a vector of coefficients.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        The estimate.
    std_error : ndarray of float64, shape (dim,)
        Standard error of each coefficient; NaN if it is not known. For coefficients that a protocol
        leaves out, the protocol's page says whether the standard error is 0, given the support, or
        how large such coefficients may be.
    intercept : float
        Prediction of a row of zeros.
    r2 : float, optional
        Share of the targets' variance that the predictions explain, on held-out users;
        with noise at the node on all users, and NaN if noise hides how far the target varies.
    r2_error : float, optional
        Standard error of ``r2``, or NaN.
    """

    _derived = ("support",)

    std_error: Floats
    intercept: float = 0.0
    r2: float | None = None
    r2_error: float | None = None

    def with_significance_note(self) -> Self:
        """Return the result, with a note if no coefficient exceeds the significance threshold.

        The threshold accounts for the number of coefficients, since the largest of many estimates
        exceeds a given bound more easily than a single one.
        """
        chance = math.sqrt(2 * math.log(2 * max(len(self.coef), 4)))
        nonzero = self.coef != 0
        if not nonzero.any() or (np.abs(self.coef) > chance * self.std_error)[nonzero].any():
            return self
        return replace(self, notes=[*self.notes, _NOISE.format(chance, len(self.coef))])

    def with_support_note(self, sparsity: int) -> Self:
        """Return the result, with a note if the support is not certain.

        The support is not certain if it has fewer than ``sparsity`` coefficients, or if its weakest
        coefficient is at most 4.5 standard errors from zero.
        """
        found = self.support
        clear = np.abs(self.coef[found]) / self.std_error[found]
        if not len(found) or np.isnan(clear).any():
            return self  # the result has another note for this case
        if len(found) < sparsity:
            note = _FEWER.format(len(found), sparsity)
        elif clear.min() > _WEAKEST_Z:
            return self
        else:
            note = _WEAKEST.format(clear.min())
        return replace(self, notes=[*self.notes, note])

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
            If the rows have another number of features.
        """
        return np.asarray(as_rows(features, len(self.coef)) @ self.coef + self.intercept)

    @property
    def _drawn(self) -> NDArray[np.int64]:
        drawn = super()._drawn
        return drawn[self.coef[drawn] != 0] if len(self.coef) > _DRAWN else drawn

    def table(self) -> "DataFrame":
        """Return the coefficients by name.

        Returns
        -------
        DataFrame
            ``name``, ``unit`` if there is a schema, ``coefficient``, ``standard error`` and a 95 %
            interval. Neither the standard error nor the interval includes bias. With a schema the
            coefficients are in units of the table. The intercept is then the prediction for columns
            at their centres. A slope is the change of the prediction for one more unit of its
            column, or for its category instead of an average one. A standard error that is not
            known, for example of a coefficient that is left out, is NaN.
        """
        coef, errors = self.coef, np.where(self.std_error > 0, self.std_error, np.nan)
        columns: dict[str, object] = {"name": self.names}
        if self.schema is not None and self.schema.num_features == len(coef):
            columns["unit"], coef, errors = in_units(self.schema, coef, errors)
        columns |= {"coefficient": coef, "standard error": errors}
        return frame({**columns, **interval(coef, errors)})

    def _draw(self, axes: "Axes") -> None:
        drawn = self._drawn
        names = [self.names[i] for i in drawn]
        charts.intervals(axes, names, self.coef[drawn], self.std_error[drawn])
        scaled = "as computed" if self.schema is None else "of standardised columns"
        intervals = "" if np.isnan(self.std_error).all() else ", with 95 % intervals"
        axes.set_xlabel(f"coefficient {scaled}{intervals}")
        if len(self.coef) > _DRAWN:
            axes.set_title(f"the {len(drawn)} largest of {len(self.coef):,} coefficients")

    def _findings(self) -> list[str]:
        found = [f"{len(self.support)} of {len(self.coef)} coefficients are not zero"]
        if self.r2 is not None and self.r2_error is not None:
            reach = HALF_WIDTH_95 * self.r2_error
            same = self.privacy is not None and self.privacy.noise != "user"
            judges = "by the same users" if same else "by other users"
            known = f"R2 {self.r2:z.2f}, give or take {reach:.2f}, {judges}"
            found.append(known if reach < MOST_OF_R2 else "R2 is not known")
        return found


R = TypeVar("R", bound=Result)

#: The variant of a protocol: this library's (``"auto"``), or the paper's with corrections.
Method = Literal["auto", "paper"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureStrategy(LdpStrategy[R]):
    """Base class of strategies whose users hold rows of ``dim`` features.

    Other parameters are those of :class:`~.base.LdpStrategy`.

    Parameters
    ----------
    dim : int
        Number of features.
    """

    dim: Count = field(kw_only=False)

    def __post_init__(self) -> None:
        if isinstance(self.dim, Schema):
            raise ValueError(
                "Expected an integer dim >= 1, got a Schema. Models of a table are "
                "PrivateRegression(schema, ...) and PrivateClassification(schema, ...), its means "
                "Means(schema, ...)."
            )
        super().__post_init__()

    @property
    def row_features(self) -> int:
        """Number of features that users' rows need to have: ``dim``."""
        return self.dim


@dataclass(kw_only=True, eq=False, repr=False)
class SparseStrategy(FeatureStrategy[LinearResult]):
    """Base class of strategies for sparse models with a known largest number of coefficients.

    Other parameters are those of :class:`FeatureStrategy`.

    Parameters
    ----------
    sparsity : int
        Number of coefficients that may differ from zero.
    """

    sparsity: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("sparsity", self.sparsity, 1, self.dim)


# A support is certain if its weakest coefficient is more than _WEAKEST_Z standard errors from zero,
# and more than _GAP_Z standard errors further from zero than the next coefficient.
_WEAKEST_Z, _GAP_Z = 4.5, 1.5
_WEAKEST = (
    "The support is not certain: of the coefficients that are kept the weakest is {:.1f} standard "
    "errors from zero."
)
_FEWER = "The support is not certain: of {1} coefficients only {0} exceed the noise."
_SUPPORT = (
    "The support is not certain: of the coefficients that are kept the weakest is {:.1f} standard "
    "errors from zero, of those that are left out the clearest {:.1f}."
)


def support_notes(clear: Floats, sparsity: int) -> list[str]:
    """Return a note, in a list, if the support of the clearest coefficients is not certain.

    ``clear`` has all coefficients in units of their standard errors.
    """
    ordered = np.append(np.sort(np.abs(clear))[::-1], 0.0)
    weakest, following = ordered[sparsity - 1 : sparsity + 1]
    sure = weakest > max(_WEAKEST_Z, following + _GAP_Z)
    return [] if sure else [_SUPPORT.format(weakest, following)]
