"""A private regression as scikit-learn's regressor."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ..schema import Categories, Numeric, Schema
from ..strategies import LdpStrategy, PrivateRegression
from ..values.entries import Column
from .base import LdpEstimator
from .public import STANDARDISED


class LdpRegressor(RegressorMixin, LdpEstimator):  # type: ignore[misc]
    """Private linear regression, simulated on a table in this process.

    ``fit`` runs :class:`~ldp_flower.strategies.PrivateRegression` as
    :func:`~ldp_flower.simulate` does, with the same seed to the same bits. It tells what a
    deployment would return; it protects nobody, for this process sees all rows. What goes into
    ``server_app.py`` is :attr:`strategy`.

    Parameters
    ----------
    schema : Schema, optional
        What is publicly known about the columns and the target. X may then be a DataFrame with
        these columns and others, or an array with them in their order. Bounds are never taken
        from the data.
    epsilon : float (default: 1.0)
        Privacy parameter of all that one user reports.
    bounds : array_like, shape (2,) or (n_features, 2), optional
        Without a schema: public bounds of all columns of numbers, or of each, in their units.
        By default (-3, 3), as of columns that are standardised. What is beyond counts as the
        bound, and is warned of.
    target_bounds : tuple of float, optional
        Likewise of the targets.
    rows_per_user : int, optional
        As of the strategy; by default each user goes by its own number of rows.
    method : str (default: "auto")
        As of the strategy.
    on_refusal : {"raise", "constant"} (default: "raise")
        What happens where so few users, or such an epsilon, cannot give an answer: TooFewReports,
        which says what would do, or a warning and a model that predicts a public constant, the
        typical value that the target's bounds declare, so that a search or a
        cross-validation goes on.
    random_state : int, optional
        Seed of the run. By default the system's randomness, as in a deployment.

    Attributes
    ----------
    result_ : Result or None
        What the strategy returned: table, plot, HTML page, notes. None where it was refused.
    schema_ : Schema
        What was taken for public.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had names.

    Notes
    -----
    A scaler before it in a pipeline learns from the rows what no deployment can: centres and
    spreads. Declare these in the schema instead, if they are known.
    """

    _y_numeric = True

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        epsilon: float = 1.0,
        bounds: ArrayLike | None = None,
        target_bounds: tuple[float, float] | None = None,
        rows_per_user: int | None = None,
        method: str = "auto",
        on_refusal: Literal["raise", "constant"] = "raise",
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            schema,
            epsilon=epsilon,
            bounds=bounds,
            rows_per_user=rows_per_user,
            method=method,
            on_refusal=on_refusal,
            random_state=random_state,
        )
        self.target_bounds = target_bounds

    def fit(self, X: Any, y: Any, groups: str | Column | None = None) -> Self:
        """Simulate the protocol on users with these rows.

        Parameters
        ----------
        X : DataFrame, or array_like of shape (rows, columns)
            The columns of the schema, or numbers. What is missing counts as typical.
        y : array_like, shape (rows,)
            The targets, in their units.
        groups : str or array_like, shape (rows,), optional
            The user of each row, or the name of the column of X that tells it. By default each
            row is a user of its own.

        Raises
        ------
        ValueError
            If X, y or groups are not as described, or an argument has no effect.
        TooFewReports
            If the run is refused, unless ``on_refusal`` is ``"constant"``.
        """
        self._run(X, y, groups)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predictions in the units of the target, shape (rows,)."""
        table = self._fitted(X)
        assert isinstance(self.schema_.bounds, Numeric)
        if self.result_ is None:
            rows = len(next(iter(table.values())))
            return np.full(rows, float(self.schema_.bounds.restore(0.0)))
        return np.asarray(self.result_.predict(table))

    def _strategy(self, schema: Schema) -> LdpStrategy[Any]:
        return PrivateRegression(
            schema, epsilon=self.epsilon, rows_per_user=self.rows_per_user, method=self.method
        )

    def _known_of(self, y: Any) -> Numeric | Categories:
        low, high = STANDARDISED if self.target_bounds is None else self.target_bounds
        return Numeric(low, high)

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        if self.target_bounds is not None:
            raise ValueError("Expected no target_bounds with a schema, which has them.")
        if not isinstance(schema.bounds, Numeric):
            raise ValueError("Expected a schema whose target is a number; see LdpClassifier.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.regressor_tags.poor_score = True  # few rows are few users
        return tags
