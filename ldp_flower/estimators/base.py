"""Base class of the estimators: it makes a table of X and y, and simulates a run on it."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_consistent_length, estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.entries import Column, columns_of, entries, has
from ..data.numbers import dense, number_of
from ..data.schema import Categories, Numeric, Schema
from ..data.tables import check_rows, collected, column_of
from ..simulation.run import simulate
from ..strategies import LdpStrategy, TooFewReports
from ..validation import check_choice, check_seed

#: Default bounds of columns and targets, which are suitable for standardised numbers.
STANDARDISED = (-3.0, 3.0)
TARGET = "target"
_SAYS = (
    "Simulated in this process, which sees all rows: nobody is protected yet. In a deployment "
    "estimator.strategy goes into server_app.py, and rows stay with the clients."
)
# A missing number is replaced by the typical value, as everywhere with a schema.
_ROWS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}


@dataclass(repr=False, eq=False)
class LdpEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators, whose ``fit`` simulates a protocol on a table in this process.

    The estimator runs the strategy as :func:`~ldp_flower.simulate` does. The same seed gives the
    same result, bit by bit. The result shows what a deployment would return. The estimator itself
    protects no user, since this process sees all rows. Use :attr:`strategy` in ``server_app.py``
    for a deployment.

    Parameters
    ----------
    schema : Schema, optional
        Public facts about the columns and the target. With a schema, X may be a DataFrame that
        contains these columns, or an array with exactly these columns in order. Neither bounds
        nor classes are then taken from the data.
    epsilon : float (default: 1.0)
        Privacy parameter of all reports of one user together.
    bounds : array_like, shape (2,) or (n_features, 2), optional
        Public bounds of all columns, or of each column, in their units; only without a schema.
        The default (-3, 3) is for standardised columns. A number beyond the bounds is clipped to
        them, and this is logged.
    rows_per_user : int, optional
        Typical number of rows of a user, public. By default, a classifier asks the users for it,
        and in a regression each user uses its actual number of rows.
    method : str (default: "auto")
        The strategy's parameter of this name.
    on_refusal : {"raise", "constant"} (default: "raise")
        Treatment of a run with too few users, or too small an epsilon, for a result. "raise"
        raises TooFewReports, whose message says what would suffice. "constant" warns and gives a
        model that predicts a public constant, so that a search or a cross-validation continues:
        equally likely classes, or the typical value that the target's bounds declare.
    random_state : int, optional
        Seed of the run. By default, the system's randomness is used, as in a deployment.

    Attributes
    ----------
    result_ : Result or None
        The strategy's result, with table, plot, HTML page and notes. None if it was refused.
    schema_ : Schema
        The facts that were treated as public.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if X had names.

    Notes
    -----
    A scaler before the estimator in a pipeline learns centres and spreads from the rows, which no
    deployment can do. Declare centres and spreads in the schema instead, if they are known.
    """

    # The users of the rows (groups) are passed along with the rows, wherever metadata are routed.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    _y_numeric: ClassVar[bool]
    _protocol: ClassVar[Any]  # class of the strategy for tables
    _of_target: ClassVar[str]  # name of the argument on the target, without a schema

    schema: Schema | None = None
    _: KW_ONLY
    epsilon: float = 1.0
    bounds: ArrayLike | None = None
    rows_per_user: int | None = None
    method: str = "auto"
    on_refusal: Literal["raise", "constant"] = "raise"
    random_state: int | None = None

    def _known_of(self, y: Any) -> Numeric | Categories:
        """Return the declaration of the target that is made of ``y`` if there is no schema."""
        raise NotImplementedError

    @property
    def strategy(self) -> LdpStrategy[Any]:
        """Strategy that :meth:`fit` simulates, for use in ``server_app.py``.

        Raises NotFittedError before a fit if there is no schema, since columns are then unknown.
        """
        schema = getattr(self, "schema_", None) if self.schema is None else self.schema
        if schema is None:
            raise NotFittedError(
                f"This {type(self).__name__} has no schema: give it one, or call fit first."
            )
        found: LdpStrategy[Any] = self._protocol(
            schema, epsilon=self.epsilon, rows_per_user=self.rows_per_user, method=self.method
        )
        return found

    def fit(self, X: Any, y: Any, groups: str | Column | None = None, **others: Any) -> Self:
        """Simulate the protocol on users with these rows.

        Parameters
        ----------
        X : DataFrame, or array_like or sparse matrix of shape (rows, columns)
            The columns of the schema, or numbers. Missing values are replaced by typical ones.
        y : array_like, shape (rows,)
            The labels of a classifier, or the targets of a regressor in their units.
        groups : str or array_like, shape (rows,), optional
            The user of each row, or the name of the column of X with the users. By default,
            each row belongs to a different user.
        **others
            Other arguments are refused, with an error that says what to do instead. An example is
            ``sample_weight``, since all users count the same.

        Raises
        ------
        ValueError
            If X, y or groups are not as described, a label is not one of the classes, or an
            argument has no effect.
        TooFewReports
            If the run is refused, unless ``on_refusal`` is ``"constant"``.
        """
        if others:
            raise ValueError(
                f"Expected X, y and groups, got {', '.join(others)}. All users count the same, so "
                "there is no sample_weight. Within a user repeat rows (groups=...), and keep each "
                "user with a probability that is proportional to its weight."
            )
        check_choice("on_refusal", self.on_refusal, ("raise", "constant"))
        check_seed("random_state", self.random_state)
        X = in_memory(X)
        who = column_of(X, groups) if isinstance(groups, str) else groups
        check_rows(X, who)
        table, targets = self._training(X, y)
        assert self.schema_.target is not None
        users = self.schema_.users({**table, self.schema_.target: targets}, groups=who)
        try:
            self.result_ = simulate(self.strategy, users, seed=self.random_state)
        except TooFewReports as refusal:
            if self.on_refusal == "raise":
                raise
            self.result_ = None
            warnings.warn(
                f"{type(self).__name__} predicts a public constant: {refusal}", stacklevel=2
            )
        return self

    def _training(self, X: Any, y: Any) -> tuple[dict[str, Any], Any]:
        """Return the training data: columns by name, and targets. Set ``schema_``."""
        if self.schema is None:
            check_numbers(X)
            rows, targets = validate_data(self, X, y, y_numeric=self._y_numeric, **_ROWS)
            table = self._named(rows)
            columns, target = numeric_columns(list(table), self.bounds), TARGET
            while target in columns:
                target += "_"
            self.schema_ = Schema(columns, target, self._known_of(targets))
            return table, targets
        self._check_schema(self.schema)
        self.schema_ = self.schema
        targets = validate_data(self, y=y, y_numeric=self._y_numeric)
        table = self._table(X, reset=True)
        check_consistent_length(*table.values(), targets)
        return table, targets

    def _check_schema(self, schema: Schema) -> None:
        """Raise ValueError if the schema cannot be used, or if an argument has no effect."""
        if not isinstance(schema, Schema):
            raise ValueError(f"Expected a Schema, got {schema!r}.")
        for name in ("bounds", self._of_target):
            if getattr(self, name) is not None:
                raise ValueError(f"Expected no {name} with a schema, which has them.")
        if schema.target is None:
            raise ValueError("Expected a schema with a target, got one without.")

    def _table(self, X: Any, reset: bool = False) -> dict[str, Any]:
        """Return the columns of X by name; the schema or the first fit gives the names."""
        if self.schema is None:
            return self._named(validate_data(self, X, reset=False, **_ROWS))
        frame = named_columns(X, list(self.schema.columns))
        validate_data(self, frame, reset=reset, skip_check_array=True)
        return {name: frame[name] for name in self.schema.columns}

    def _named(self, rows: Any) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(rows.shape[1])])
        return dict(zip(names, rows.T, strict=True))

    def _fitted(self, X: Any) -> dict[str, Any]:
        """Return the columns, by name, of rows to predict for; the estimator must be fitted."""
        check_is_fitted(self)
        return self._table(in_memory(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    def _html_repr(self) -> str:
        """Return HTML with scikit-learn's diagram, the result (if there is one) and a note."""
        result = getattr(self, "result_", None)
        shown = "" if result is None else result._repr_html_()
        return f"{estimator_html_repr(self)}{shown}<p>{_SAYS}</p>"


def numeric_columns(names: Sequence[str], bounds: ArrayLike | None) -> dict[str, Numeric]:
    """Return the schema's entries for columns of numbers within public bounds.

    Bounds, shape (2,) or (columns, 2), are the lowest and highest number of all columns or of
    each column. The default is :data:`STANDARDISED`. Raises ValueError if bounds have another
    shape, or are not finite and in order.
    """
    pairs = np.asarray(STANDARDISED if bounds is None else bounds, np.float64)
    if pairs.shape not in ((2,), (len(names), 2)):
        raise ValueError(
            f"Expected bounds as (low, high) or one pair for each of {len(names)} columns, "
            f"got shape {pairs.shape}."
        )
    pairs = np.broadcast_to(pairs, (len(names), 2))
    return {
        name: Numeric(float(low), float(high))
        for name, (low, high) in zip(names, pairs, strict=True)
    }


def in_memory(X: Any) -> Any:
    """Return X as rows in memory: run queries, and convert Arrow and sparse tables to dense ones.

    Anything else is returned unchanged.
    """
    X = dense(collected(X))
    if has(X, "to_pylist"):
        return _framed(
            {name: entries(each, f"column {name!r}") for name, each in columns_of(X) or ()}
        )
    return X


def check_numbers(X: Any) -> None:
    """Raise ValueError, which names column and entry, if a named column contains a text.

    Without a schema, all columns must be numbers. Entries may be missing, but they may not be texts
    that are not numbers.
    """
    if not hasattr(X, "columns"):
        return
    for name in X.columns:
        for value in entries(X[name]):
            if isinstance(value, str) and np.isnan(number_of(value)):
                raise ValueError(
                    f"Expected numbers in column {name!r}, got {value!r}: declare its categories "
                    "in a schema."
                )


def named_columns(X: Any, names: Sequence[str]) -> pd.DataFrame:
    """Return the columns of a schema, from a table by name or from an array by position.

    Raises ValueError if a table lacks a column or has it twice, or if an array has another number
    of columns.
    """
    if isinstance(X, Mapping) or hasattr(X, "columns"):
        return _framed({name: column_of(X, name) for name in names})
    rows = check_array(X, dtype=None, ensure_all_finite=False)
    if rows.shape[1] != len(names):
        raise ValueError(
            f"Expected {len(names)} columns, those of the schema in their order, in an array "
            f"without column names, got {rows.shape[1]}."
        )
    return pd.DataFrame({name: rows[:, i] for i, name in enumerate(names)})


def _framed(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a DataFrame of columns whose entries keep their types, even beside missing ones."""
    return pd.DataFrame(
        {
            name: pd.Series(column, dtype=object) if isinstance(column, list) else column
            for name, column in columns.items()
        }
    )
