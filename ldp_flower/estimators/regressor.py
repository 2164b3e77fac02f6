"""A private regression as scikit-learn's regressor."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from ..schema import Categories, Numeric, Schema
from ..strategies import LdpStrategy, PrivateRegression
from .base import LdpEstimator
from .public import STANDARDISED


@dataclass(repr=False, eq=False, kw_only=True)
class LdpRegressor(RegressorMixin, LdpEstimator):  # type: ignore[misc]
    """Private linear regression, simulated on a table in this process.

    ``fit`` runs :class:`~ldp_flower.strategies.PrivateRegression` as
    :func:`~ldp_flower.simulate` does, with the same seed to the same bits. It shows what a
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

    target_bounds: tuple[float, float] | None = None

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
