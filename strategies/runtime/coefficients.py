"""Estimates with a number for each feature: results, their units, and bases of strategies."""

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self, TypeVar, get_args

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike, NDArray

from ldp_flower.data.schema import Categories, Numeric, Schema
from ldp_flower.presentation import charts
from ldp_flower.validation import Count, Floats, check_integer

from .base import LdpStrategy
from .result import NORMAL, Result, frame, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


def in_units(schema: Schema, coef: Floats, std_error: Floats) -> tuple[list[str], Floats, Floats]:
    """Return units, coefficients and standard errors as a table shows them.

    They are given for ``schema.features``, the intercept first, of standardised targets (of scale 1
    where the target is no number). Units are ``"target"``, or ``"target / column"`` for the slope
    of a column of numbers. The first coefficient is the prediction where all columns of numbers
    have their centres and categories are equally likely; without a standard error it is none.
    """
    centre, scale = _centre_and_scale(schema.bounds)
    units, sizes = units_of(schema, schema.target or "target")
    found, errors = scale * coef / sizes, scale * std_error / sizes
    found[0] = found[0] + centre if np.isfinite(errors[0]) else np.nan
    return units, found, errors


def units_of(schema: Schema, predicted: str) -> tuple[list[str], Floats]:
    """Return the units of the intercept and all slopes, and the size of each column's unit."""
    units, sizes = [predicted], [1.0]
    for name, kind in schema.columns.items():
        numeric = isinstance(kind, Numeric)
        units += [f"{predicted} / {name}" if numeric else predicted] * kind.width
        sizes += [_centre_and_scale(kind)[1]] * kind.width
    return units, np.array(sizes)


def contrasts(schema: Schema, coef: Floats) -> Floats:
    """Return the same model, with slopes of a column's categories that add up to 0.

    Indicators are centred, so that a number added to all of a column's slopes changes no
    prediction; without it each is the difference from an average category.
    """
    found = coef.copy()
    for name, kind in schema.columns.items():
        if isinstance(kind, Categories):
            own = schema.places(name)
            places = slice(own.start, own.stop)
            found[..., places] -= found[..., places].mean(axis=-1, keepdims=True)
    return found


def _centre_and_scale(kind: object) -> tuple[float, float]:
    if not isinstance(kind, Numeric):
        return 0.0, 1.0
    centre, one_more = kind.restore([0.0, 1.0])
    return float(centre), float(one_more - centre)


_NOISE = (
    "No coefficient is further from zero than {:.1f} standard errors, as the largest of {} may be "
    "by chance: this may be noise and nothing else. More users or a larger epsilon are needed."
)


_FEW, _DRAWN = 40, 20  # coefficients that a page shows in their order, and that a chart has


def as_rows(features: ArrayLike, dim: int) -> Floats:
    """Return rows of features, or one, as floats; raise ValueError if their width is another."""
    rows = np.asarray(features, np.float64)
    if rows.shape[-1:] != (dim,):
        raise ValueError(f"Expected features of shape (rows, {dim}), got {rows.shape}.")
    return rows


@dataclass(repr=False, kw_only=True)
class CoefficientResult(Result):
    """A result whose estimate is coefficients; a chart has the largest.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,) or (classes, dim)
        The estimate.
    """

    coef: Floats

    def __post_init__(self) -> None:
        self.arrays = ArrayRecord([self.coef])

    @property
    def names(self) -> list[str]:
        """Names of the features: the schema's, or their numbers."""
        if self.schema is not None and self.schema.num_features == self.coef.shape[-1]:
            return self.schema.names
        return [f"feature {number}" for number in range(self.coef.shape[-1])]

    @property
    def _order(self) -> NDArray[np.int64]:
        """Indices of the coefficients, the largest first."""
        return np.argsort(-np.abs(np.atleast_2d(self.coef)).max(axis=0), kind="stable")

    @property
    def _drawn(self) -> NDArray[np.int64]:
        """Indices of the coefficients that a chart shows, the largest first; no intercept."""
        order = self._order
        return order[order >= (self.names[0] == "intercept" and len(order) > 1)][:_DRAWN]

    @property
    def _height(self) -> float:
        return charts.height_of(len(self._drawn))

    def _shown(self, table: "DataFrame") -> "DataFrame":
        """Return the table with coefficients that stand out first, if they are many."""
        return table if len(table) <= _FEW else table.iloc[self._order]


@dataclass(repr=False, kw_only=True)
class LinearResult(CoefficientResult):
    """A result whose estimate is a vector of coefficients.

    Attributes
    ----------
    coef : ndarray of float64, shape (dim,)
        The estimate.
    std_error : ndarray of float64, shape (dim,)
        How far each coefficient may be off, as one standard deviation; NaN where that is not known.
        Where a protocol leaves coefficients out, its page says whether theirs is 0, given the
        support, or how large they may be all the same.
    intercept : float
        Prediction of a row of zeros.
    r2 : float, optional
        What share of the targets' variance predictions explain, by users who had no part in them.
    r2_error : float, optional
        Its standard error.
    """

    _derived = ("support",)

    std_error: Floats
    intercept: float = 0.0
    r2: float | None = None
    r2_error: float | None = None

    def doubted(self) -> Self:
        """Return it, with a note if no reported coefficient exceeds the significance threshold.

        All coefficients compete for being reported, so that the largest is one of many.
        """
        chance = math.sqrt(2 * math.log(2 * max(len(self.coef), 4)))
        nonzero = self.coef != 0
        if not nonzero.any() or (np.abs(self.coef) > chance * self.std_error)[nonzero].any():
            return self
        return replace(self, notes=[*self.notes, _NOISE.format(chance, len(self.coef))])

    def with_doubts_of_support(self, sparsity: int) -> Self:
        """Return it, with a note if not so many coefficients surely differ from zero."""
        found = self.support
        clear = np.abs(self.coef[found]) / self.std_error[found]
        if not len(found) or np.isnan(clear).any():
            return self  # which has a note of its own
        if len(found) < sparsity:
            note = _FEWER.format(len(found), sparsity)
        elif clear.min() > _NOTED:
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
            If the rows are of another width.
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
            ``name``, with a schema ``unit``, then ``coefficient``, ``standard error`` and an
            interval of 95 % that leaves out bias, as the error does. With a schema the
            coefficients are in units of the table: the intercept is the prediction where all
            columns have their centres, a slope the change for one more of its column's
            unit, or for the category instead of an average one. An error that is not known,
            as of coefficients that are left out, is not a number.
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
            reach = NORMAL * self.r2_error
            found.append(f"R2 {self.r2:.2f}, give or take {reach:.2f}, by other users")
        return found


R = TypeVar("R", bound=Result)

#: How a protocol asks: in this library's way, or as its paper prints it, corrected.
Method = Literal["auto", "paper"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureStrategy(LdpStrategy[R]):
    """Base class: users hold rows of so many features.

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
        """The ``dim``."""
        return self.dim


@dataclass(kw_only=True, eq=False, repr=False)
class SparseStrategy(FeatureStrategy[LinearResult]):
    """Base class: few of the features matter, and it is known how many at most.

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


# Standard errors from zero of a support's weakest coefficient, and more of it than of the next one.
_NOTED, _NEAR = 4.5, 1.5
_WEAKEST = (
    "The support is not certain: of the coefficients that are kept the weakest is {:.1f} standard "
    "errors from zero."
)
_FEWER = "The support is not certain: of {1} coefficients only {0} clear the noise."
_SUPPORT = (
    "The support is not certain: of the coefficients that are kept the weakest is {:.1f} standard "
    "errors from zero, of those that are left out the clearest {:.1f}."
)


def support_doubts(clear: Floats, sparsity: int) -> list[str]:
    """Return what to say of a support of the clearest coefficients, by their standard errors."""
    ordered = np.append(np.sort(np.abs(clear))[::-1], 0.0)
    weakest, following = ordered[sparsity - 1 : sparsity + 1]
    sure = weakest > max(_NOTED, following + _NEAR)
    return [] if sure else [_SUPPORT.format(weakest, following)]
