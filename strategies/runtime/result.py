"""What a protocol returns."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import flwr.serverapp.strategy as flower
import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import ArrayLike, NDArray

from ldp_flower.presentation import charts, page
from ldp_flower.schema import Schema
from ldp_flower.validation import Floats

from .facts import PrivacySpent, Step
from .plain import made, to_plain
from .result_page import sections_of, title_of
from .units import in_units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


_NOISE = (
    "No coefficient is further from zero than {:.1f} standard errors, as the largest of {} may be "
    "by chance: this may be noise and nothing else. More users or a larger epsilon are needed."
)


_NORMAL = 1.96  # standard errors that 95 % are within


def frame(columns: Mapping[str, object]) -> "DataFrame":
    """Return a table of columns by name; pandas is imported when there is one to make."""
    from pandas import DataFrame

    return DataFrame(columns)


def interval(values: Floats, std_errors: Floats) -> dict[str, Floats]:
    """Return the columns of intervals of 95 %."""
    reach = _NORMAL * std_errors
    return {"95 % from": values - reach, "95 % to": values + reach}


class Estimates(NamedTuple):
    """Numbers by name, each with the standard error that it has for the population."""

    names: list[str]
    values: Floats
    std_errors: Floats


@dataclass(repr=False, kw_only=True)
class Result(flower.Result):
    """A Flower ``Result`` with how it came about; subclasses add the estimate.

    Their fields are what :meth:`to_dict` returns, so they are numbers, texts, NumPy arrays of
    numbers, Flower's records, a schema, dataclasses, and lists, tuples and mappings of these. A
    subclass writes :meth:`table` and ``_draw(axes)``, and says in ``_findings`` what a
    representation shows first.

    Attributes
    ----------
    strategy, question : str
        Name of the strategy that asked, and what it estimates.
    schema : Schema, optional
        What is publicly known about the users' tables, where the strategy was given it.
    privacy : PrivacySpent
        What each user spent at most.
    num_users : int
        Users in the census.
    num_reports : int
        Reports that were used.
    no_budget : int
        Users who were asked and had no budget left.
    ended_early : bool
        Whether the run ended before its last step, for lack of answers; the notes say why.
    steps : list of Step
        Who was asked and who answered.
    notes : list of str
        What a user of the estimate should know.
    """

    #: Properties that :meth:`to_dict` returns beside the fields.
    _derived: ClassVar[tuple[str, ...]] = ()
    #: Whether it is about the schema's target, which a page then names.
    _predicts: ClassVar[bool] = True
    #: Who answers: users, after a census, or silos.
    _answerers: ClassVar[str] = "users"

    strategy: str = ""
    question: str = ""
    schema: Schema | None = None
    privacy: PrivacySpent | None = None
    num_users: int = 0
    num_reports: int = 0
    no_budget: int = 0
    ended_early: bool = False
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def table(self) -> "DataFrame":
        """Return the estimate as a table; where a class has none, its numbers or its arrays.

        Returns
        -------
        DataFrame
            Names come first, then numbers in the units that the names state.
        """
        if own := self._own_numbers():
            return frame({"name": list(own), "value": list(own.values())})
        arrays = {name: array.numpy() for name, array in self.arrays.items()}
        return frame(
            {
                "array": list(arrays),
                "shape": [" x ".join(map(str, each.shape)) for each in arrays.values()],
                "numbers": [each.size for each in arrays.values()],
                "root mean square": [_root_mean_square(each) for each in arrays.values()],
            }
        )

    def estimates(self) -> Estimates:
        """Return the numbers that a series of collections follows, with their standard errors.

        Raises
        ------
        NotImplementedError
            If a class has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no estimates to follow.")

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the estimate.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure, ``plot().figure``. No window opens.
        """
        with charts.style():
            axes = charts.new_axes(self._height) if axes is None else axes
            self._draw(axes)
        return axes

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a page for a reviewer, and write it if a path is given.

        It states the question, the guarantee in words, the result with its figure, the notes, and
        who answered. It needs no other file, and can be read in light and dark and printed.
        """
        return page.page(title_of(self), sections_of(self), path)

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return page.fragment(title_of(self), sections_of(self))

    @property
    def _height(self) -> float:
        """Inches that a figure of its own is high."""
        return 3.6

    def _draw(self, axes: "Axes") -> None:
        """Draw the estimate on some axes."""
        table = Result.table(self)
        names, values = table.columns[0], table.columns[-1]
        axes.barh(list(map(charts.label, table[names])), table[values], color=charts.BLUE)
        axes.invert_yaxis()
        axes.set_xlabel(values)

    def _own_numbers(self) -> dict[str, float]:
        """Return the numbers among the fields of a class that has no arrays."""
        if len(self.arrays):
            return {}
        known = {each.name for each in fields(Result)}
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in known}
        return {name: value for name, value in own.items() if isinstance(value, int | float)}

    def _shown(self, table: "DataFrame") -> "DataFrame":
        """Return the rows of a table in an order in which the first ones are worth showing."""
        return table

    def _headline(self) -> list[str]:
        """Return what a page begins with: nothing, or a line that says it all."""
        return self._findings()[:1]

    def _findings(self) -> list[str]:
        """Return the lines that state the estimate."""
        return []

    def _statement(self) -> list[str]:
        """Return what a page says of the guarantee, beside epsilon in words."""
        return []

    def __repr__(self) -> str:
        spent = f"; {self.no_budget:,} had no budget left" if self.no_budget else ""
        lines = [
            *self._findings(),
            f"{self.privacy}" + (" (seeded simulation)" if self.privacy.seeded else "")
            if self.privacy
            else "nothing spent",
            f"{self.num_reports} reports of {self.num_users} {self._answerers} in "
            f"{len(self.steps)} steps" + spent,
        ]
        return "\n".join(lines + self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON; see :meth:`from_dict`."""
        # Where a class makes ``arrays`` of other fields, these stand for them.
        made_of_others = hasattr(self, "__post_init__")
        names = (each.name for each in fields(self) if each.name != "arrays" or not made_of_others)
        plain = {name: to_plain(getattr(self, name)) for name in names}
        derived = {name: to_plain(getattr(self, name)) for name in self._derived}
        return {"kind": type(self).__name__, **plain, **derived}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the result that :meth:`to_dict` gave, of this class or one made from it.

        Raises
        ------
        ValueError
            If it is no such dict: of no known kind, or with a value missing, unknown or of
            another type. Nothing but results is made of it, wherever it comes from.
        """
        family: list[type[Result]] = [*_family(cls), cls]
        kinds = {kind.__name__: kind for kind in family}
        name = plain.get("kind") if isinstance(plain, Mapping) else None
        if not isinstance(name, str) or name not in kinds:
            known = ", ".join(sorted(kinds))
            raise ValueError(f"Expected a result as to_dict gives it ({known}), got kind {name!r}.")
        kind = kinds[name]
        values = {k: v for k, v in plain.items() if k not in ("kind", *kind._derived)}
        try:
            found: Self = made(kind, values)
        except ValueError as error:
            raise ValueError(f"Expected a {name} as to_dict gives it. {error}") from None
        return found


def _family(kind: type[Result]) -> Iterator[type[Result]]:
    for each in kind.__subclasses__():
        yield each
        yield from _family(each)


def _root_mean_square(array: NDArray[Any]) -> float:
    numbers = np.asarray(array, np.float64)
    return float(np.sqrt(np.mean(numbers**2))) if numbers.size else 0.0


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
        Standard deviation of each coefficient given the support, from the randomizers' known noise
        or the spread of the reports; 0 outside the support. It leaves out the bias of clipping,
        thresholding and early stopping, and is NaN where that is most of the error.
    """

    _derived = ("support",)

    std_error: Floats

    def doubted(self) -> Self:
        """Return it, with a note if no reported coefficient stands out of the noise.

        All coefficients compete for being reported, so that the largest is one of many.
        """
        chance = math.sqrt(2 * math.log(2 * max(len(self.coef), 4)))
        nonzero = self.coef != 0
        if not nonzero.any() or (np.abs(self.coef) > chance * self.std_error)[nonzero].any():
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
        return [f"{len(self.support)} of {len(self.coef)} coefficients are not zero"]
