"""A private classification as scikit-learn's classifier."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ..schema import Categories, Numeric, Schema
from ..strategies import LdpStrategy, PrivateClassification
from .base import LdpEstimator
from .public import decoded, labels_of


@dataclass(repr=False, eq=False, kw_only=True)
class LdpClassifier(ClassifierMixin, LdpEstimator):  # type: ignore[misc]
    """Private linear classification, simulated on a table in this process.

    ``fit`` runs :class:`~ldp_flower.strategies.PrivateClassification` as
    :func:`~ldp_flower.simulate` does, with the same seed to the same bits. It shows what a
    deployment would return; it protects nobody, for this process sees all rows. What goes into
    ``server_app.py`` is :attr:`strategy`.

    Parameters
    ----------
    schema : Schema, optional
        What is publicly known about the columns and the target. X may then be a DataFrame with
        these columns and others, or an array with them in their order. Neither bounds nor
        classes are then taken from the data.
    epsilon : float (default: 1.0)
        Privacy parameter of all that one user reports.
    bounds : array_like, shape (2,) or (n_features, 2), optional
        Without a schema: public bounds of all columns of numbers, or of each, in their units.
        By default (-3, 3), as of columns that are standardised. What is beyond counts as the
        bound, and is warned of.
    classes : sequence, optional
        Without a schema: all labels that there may be, public. By default those that y holds,
        with a warning: no deployment can look at them.
    rows_per_user : int, optional
        Typical number of rows of a user, public. By default users are asked.
    method : str (default: "auto")
        As of the strategy.
    on_refusal : {"raise", "constant"} (default: "raise")
        What happens where so few users, or such an epsilon, cannot give an answer: TooFewReports,
        which says what would do, or a warning and a model for which all classes are equally
        likely, so that a search or a cross-validation goes on.
    random_state : int, optional
        Seed of the run. By default the system's randomness, as in a deployment.

    Attributes
    ----------
    result_ : Result or None
        What the strategy returned: table, plot, HTML page, notes. None where it was refused.
    schema_ : Schema
        What was taken for public.
    classes_ : ndarray, shape (n_classes,)
        The labels, of the type that y has, sorted, as scikit-learn's scores take them to be; the
        result's own ``predict_proba`` has them in the schema's order.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Their names, if X had names.

    Notes
    -----
    A scaler before it in a pipeline learns from the rows what no deployment can: centres and
    spreads. Declare these in the schema instead, if they are known.
    """

    _y_numeric = False

    classes: Sequence[Any] | None = None

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest label of each row, shape (rows,)."""
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[likeliest])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the labels' probabilities, shape (rows, classes), in the order of ``classes_``."""
        table = self._fitted(X)
        if self.result_ is None:
            rows = len(next(iter(table.values())))
            return np.full((rows, len(self.classes_)), 1 / len(self.classes_))
        return np.asarray(self.result_.predict_proba(table))[:, self._order]

    def _strategy(self, schema: Schema) -> LdpStrategy[Any]:
        return PrivateClassification(
            schema, epsilon=self.epsilon, rows_per_user=self.rows_per_user, method=self.method
        )

    def _known_of(self, y: Any) -> Numeric | Categories:
        if self.classes is not None:
            return Categories(self.classes)
        check_classification_targets(y)
        found = np.unique(y)
        if len(found) < 2:
            raise ValueError(f"Expected two classes at least, got one class in y: {found[0]!r}.")
        warnings.warn(
            f"The classes {found.tolist()} are taken from y: declare them.",
            stacklevel=5,
        )
        return Categories(found.tolist())

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        if self.classes is not None:
            raise ValueError("Expected no classes with a schema, which has them.")
        if not isinstance(schema.bounds, Categories):
            raise ValueError("Expected a schema whose target is Categories; see LdpRegressor.")

    def _training(self, X: Any, y: Any) -> tuple[dict[str, Any], Any]:
        if str(getattr(y, "dtype", "")) == "boolean" and not y.isna().any():
            y = y.astype(bool)  # of which scikit-learn would make 0 and 1
        table, targets = super()._training(X, y)
        if (found := decoded(self.schema_, targets)) is not None:
            self._order = np.argsort(np.array(self.schema_.classes))
            self.classes_ = np.arange(len(self._order), dtype=targets.dtype)
            return table, found
        labels = labels_of(self.schema_, targets)
        self._order = np.argsort(labels)
        self.classes_ = labels[self._order]
        return table, targets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.classifier_tags.poor_score = True  # few rows are few users
        return tags
