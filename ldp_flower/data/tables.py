"""Tables of any library: their columns, and the queries that are run to get them."""

from typing import Any, Protocol

from .entries import has
from .numbers import as_column


class Table(Protocol):
    """A mapping of column names to columns, or a pandas DataFrame."""

    def __getitem__(self, name: str, /) -> Any:
        """Return one column, with one value per row."""


def check_rows(table: object, groups: object) -> None:
    """Raise ValueError if groups have the same length as the table but another index.

    Groups or tables without an index are accepted. A later error reports different lengths.
    """
    rows: Any = getattr(table, "index", None)
    named: Any = getattr(groups, "index", None)
    indexed = hasattr(rows, "equals") and hasattr(named, "equals")
    # For other lengths, a later error states both numbers.
    if indexed and len(rows) == len(named) and not rows.equals(named):
        raise ValueError(
            "Expected groups with the index of the table, got groups with another index. Name a "
            "column of the table, or give groups.to_numpy() if they are in the order of its rows."
        )


def collected(table: Any) -> Any:
    """Return the table of a query or of a data set, once it is run or loaded.

    Such queries and data sets are a polars ``LazyFrame``, a pyarrow ``Dataset`` and a relation of
    DuckDB. Any other value is returned unchanged.
    """
    if has(table, "collect") and not has(table, "__array__"):
        return table.collect()
    if has(table, "to_arrow_table"):
        return table.to_arrow_table()
    return table.to_table() if has(table, "scanner") else table


def column_of(table: Table, name: str, numbers: bool = False) -> Any:
    """Return a column of a table, with one entry per row.

    ``numbers`` is True if only numbers count in it; see
    :func:`~ldp_flower.data.numbers.as_column`. Raise ValueError if the table has no column or two
    columns of this name.
    """
    try:
        values = table[name]
    except (IndexError, TypeError):  # arrays and lists raise these
        raise ValueError(
            "Expected a table with named columns, a DataFrame or a mapping of names to columns, "
            f"got {type(table).__name__}."
        ) from None
    except Exception:  # polars raises another error than KeyError
        raise ValueError(f"Expected a column {name!r} in the table, got none.") from None
    if getattr(values, "ndim", 1) == 2 and hasattr(table, "columns"):
        raise ValueError(f"Expected one column {name!r} in the table, got {values.shape[1]}.")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"Expected one value a row in {name!r}, got {values.ndim} dimensions.")
    if isinstance(values, str | bytes):
        raise ValueError(f"Expected a column {name!r}, one entry a row, got {values!r:.40}.")
    return as_column(values, f"column {name!r}", numbers)
