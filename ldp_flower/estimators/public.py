"""What is public about arrays without a schema, and what happens to entries beyond it."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from ..schema import Categories, Numeric, Schema, Table, collected
from ..values.entries import as_numbers, entries, number_of

#: Bounds of columns and targets that nobody gave any: those of standardised numbers.
STANDARDISED = (-3.0, 3.0)
TARGET = "target"
_CLIPPED = 0.01  # share of a column's entries, above which a note names it


def target_name(columns: Collection[str]) -> str:
    """Return a name for the target that no column has."""
    name = TARGET
    while name in columns:
        name += "_"
    return name


def numeric_columns(names: Sequence[str], bounds: ArrayLike | None) -> dict[str, Numeric]:
    """Return columns of numbers within public bounds.

    Bounds, shape (2,) or (columns, 2), are the lowest and highest number, of all columns or of
    each; :data:`STANDARDISED` by default. Raises ValueError if they have another shape, or are not
    finite and in order.
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


def warn_of_clipping(schema: Schema, table: Table) -> None:
    """Warn of columns with entries beyond their public bounds: these count as the bounds.

    Who simulates has the table before them, and this is about it; clients in a deployment report
    nobody.
    """
    shares = {name: _beyond(schema.kind(name), table[name]) for name in schema.columns_read}
    clipped = [f"{share:.0%} of {name!r}" for name, share in shares.items() if share > _CLIPPED]
    if clipped:
        shown = ", ".join(clipped[:5]) + (
            f" and of {len(clipped) - 5} more columns" * (len(clipped) > 5)
        )
        warnings.warn(
            f"Entries beyond the public bounds count as the bound: {shown}. Declare bounds that "
            "hold the column, in its own units, from what is known without the data.",
            UserWarning,
            stacklevel=3,
        )


def _beyond(kind: Numeric | Categories, values: object) -> float:
    if isinstance(kind, Categories):
        return 0.0
    numbers = as_numbers(values)
    known = numbers[np.isfinite(numbers)]
    return float(np.mean((known < kind.low) | (known > kind.high))) if len(known) else 0.0


def in_memory(X: Any) -> Any:
    """Run what is a query, and return a pyarrow Table as a DataFrame; anything else as it is."""
    X = collected(X)
    if hasattr(X, "to_pylist") and hasattr(X, "column_names"):
        return pd.DataFrame({name: X.column(name).to_pylist() for name in X.column_names})
    return X


def check_numbers(X: Any) -> None:
    """Raise ValueError with the column and the entry if a named column has texts in it.

    Without a schema all columns are numbers; what is no number may be missing, but no text.
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
    """Return the columns of a schema: by name, or those of an array in their order.

    Raises ValueError if a table lacks some or has some twice, or an array has another number of
    columns.
    """
    if isinstance(X, Mapping) or hasattr(X, "columns"):
        known = list(X) if isinstance(X, Mapping) else list(X.columns)
        if absent := [name for name in names if name not in known]:
            raise ValueError(f"Expected the columns {names} in the table, {absent} are missing.")
        if twice := [name for name in names if known.count(name) > 1]:
            raise ValueError(f"Expected each column once in the table, got {twice} more often.")
        return pd.DataFrame({name: X[name] for name in names})
    rows = check_array(X, dtype=None, ensure_all_finite=False)
    if rows.shape[1] != len(names):
        raise ValueError(
            f"Expected {len(names)} columns, those of the schema in their order, "
            f"got {rows.shape[1]}."
        )
    return pd.DataFrame({name: rows[:, i] for i, name in enumerate(names)})


def decoded(schema: Schema, targets: NDArray[Any]) -> NDArray[Any] | None:
    """Return the labels that scikit-learn has numbered, None where targets are no such numbers.

    Cross-validated probabilities and stacking replace labels by their places among the sorted
    labels, and expect classes 0, 1, ... back. If the last class is there, all are taken to be.
    """
    assert isinstance(schema.bounds, Categories)
    classes = np.sort(np.array(schema.classes))
    if targets.dtype.kind not in "iu" or not np.isnan(schema.bounds.coded(targets)).all():
        return None
    if targets.min() < 0 or targets.max() != len(classes) - 1:
        return None
    return np.asarray(classes[targets])


def labels_of(schema: Schema, targets: NDArray[Any]) -> NDArray[Any]:
    """Return the schema's classes, in its order, as entries of the type that targets have.

    Raises ValueError if a target is none of them.
    """
    assert isinstance(schema.bounds, Categories)
    distinct = np.unique(targets)
    places = schema.bounds.coded(distinct)
    if len(unknown := distinct[np.isnan(places)]):
        raise ValueError(
            f"Expected labels among {list(schema.classes)}, got {unknown[:3].tolist()}."
        )
    held = {int(place): label for place, label in zip(places, distinct.tolist(), strict=True)}
    # Classes that nobody has: their text, as what the others are.
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
