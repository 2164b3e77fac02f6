"""Private classification and regression as scikit-learn's estimators."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from ..data.schema import Categories, Numeric, Schema
from ..strategies import PrivateClassification, PrivateRegression
from .base import STANDARDISED, LdpEstimator


@dataclass(repr=False, eq=False, kw_only=True)
class LdpClassifier(ClassifierMixin, LdpEstimator):  # type: ignore[misc]
    """Private linear classification, simulated on a table in this process.

    The simulation protects no user, since this process sees all rows.

    It simulates :class:`~ldp_flower.strategies.PrivateClassification`. For parameters and
    attributes that are not listed here, see :class:`.LdpEstimator`.

    Parameters
    ----------
    classes : sequence, optional
        All possible labels, public; only without a schema. By default, they are the labels in y,
        with a warning, since a deployment cannot look at these.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The labels, of the type that y has, in sorted order, as scikit-learn's scores expect. The
        method ``predict_proba`` of the result has the labels in the schema's order.
    """

    _y_numeric, _protocol, _of_target = False, PrivateClassification, "classes"

    classes: Sequence[Any] | None = None

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest label of each row, shape (rows,)."""
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[likeliest])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the labels in ``classes_``, shape (rows, classes)."""
        table = self._fitted(X)
        if self.result_ is None:
            rows = len(next(iter(table.values())))
            return np.full((rows, len(self.classes_)), 1 / len(self.classes_))
        return np.asarray(self.result_.predict_proba(table))[:, self._order]

    def _known_of(self, y: Any) -> Numeric | Categories:
        if self.classes is not None:
            return Categories(self.classes)
        check_classification_targets(y)
        found = np.unique(y)
        if len(found) < 2:
            raise ValueError(f"Expected two classes at least, got one class in y: {found[0]!r}.")
        warnings.warn(f"The classes {found.tolist()} are taken from y: declare them.", stacklevel=5)
        return Categories(found.tolist())

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        if not isinstance(schema.bounds, Categories):
            raise ValueError("Expected a schema whose target is Categories; see LdpRegressor.")

    def _training(self, X: Any, y: Any) -> tuple[dict[str, Any], Any]:
        if str(getattr(y, "dtype", "")) == "boolean" and not y.isna().any():
            y = y.astype(bool)  # scikit-learn would convert "boolean" to 0 and 1
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
        tags.classifier_tags.poor_score = True  # few rows are few users
        return tags


@dataclass(repr=False, eq=False, kw_only=True)
class LdpRegressor(RegressorMixin, LdpEstimator):  # type: ignore[misc]
    """Private linear regression, simulated on a table in this process.

    The simulation protects no user, since this process sees all rows.

    It simulates :class:`~ldp_flower.strategies.PrivateRegression`. For parameters and attributes
    that are not listed here, see :class:`.LdpEstimator`.

    Parameters
    ----------
    target_bounds : tuple of float, optional
        Public bounds of the targets, with the same default as ``bounds``; only without a schema.
    """

    _y_numeric, _protocol, _of_target = True, PrivateRegression, "target_bounds"

    target_bounds: tuple[float, float] | None = None

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predictions in the units of the target, shape (rows,)."""
        table = self._fitted(X)
        assert isinstance(self.schema_.bounds, Numeric)
        if self.result_ is None:
            rows = len(next(iter(table.values())))
            return np.full(rows, float(self.schema_.bounds.restore(0.0)))
        return np.asarray(self.result_.predict(table))

    def _known_of(self, y: Any) -> Numeric | Categories:
        low, high = STANDARDISED if self.target_bounds is None else self.target_bounds
        return Numeric(low, high)

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        if not isinstance(schema.bounds, Numeric):
            raise ValueError("Expected a schema whose target is a number; see LdpClassifier.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # few rows are few users
        return tags


def decoded(schema: Schema, targets: NDArray[Any]) -> NDArray[Any] | None:
    """Return the labels of targets that scikit-learn has replaced by indices, or None.

    Cross-validated probabilities and stacking replace labels by their indices in sorted order, and
    expect the classes 0, 1, ... in the predictions. Targets are taken for indices if they are
    integers of at least 0, the largest of them is the index of the last class, and none of them is
    a label of the schema. Otherwise the result is None.
    """
    assert isinstance(schema.bounds, Categories)
    classes = np.sort(np.array(schema.classes))
    if targets.dtype.kind not in "iu" or not np.isnan(schema.bounds.coded(targets)).all():
        return None
    if targets.min() < 0 or targets.max() != len(classes) - 1:
        return None
    return np.asarray(classes[targets])


def labels_of(schema: Schema, targets: NDArray[Any]) -> NDArray[Any]:
    """Return the schema's classes, in the schema's order, as labels of the type of the targets.

    Raises ValueError if a target is not one of the classes.
    """
    assert isinstance(schema.bounds, Categories)
    distinct = np.unique(targets)
    places = schema.bounds.coded(distinct)
    if len(unknown := distinct[np.isnan(places)]):
        raise ValueError(
            f"Expected labels among {list(schema.classes)}, got {unknown[:3].tolist()}."
        )
    held = {int(place): label for place, label in zip(places, distinct.tolist(), strict=True)}
    # Labels of classes without rows are made from their texts, with the type of the others.
    made: dict[str, Callable[[str], object]] = {"i": int, "u": int, "f": float}
    made["b"] = lambda text: text == "1"
    labels = []
    for i, text in enumerate(schema.classes):
        if distinct.dtype.kind in made and i not in held:
            number = {"False": "0", "True": "1"}.get(text, text)
            labels.append(made[distinct.dtype.kind](number))
        else:
            labels.append(held.get(i, text))
    return np.array(labels, object if distinct.dtype.kind == "O" else None)
