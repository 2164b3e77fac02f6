"""Changes of data that depend on where numbers stand: alone, in a wide array, in a table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

#: From a column or an array with records along its first axis to another one.
Alter = Callable[[NDArray[Any]], NDArray[Any]]


def unchanged(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as it is."""
    return array


@dataclass(frozen=True)
class Placed:
    """A change that is not the same everywhere.

    Attributes
    ----------
    alone : callable
        What is done with arrays of one dimension that are no columns of a table.
    wide : callable
        What is done with arrays of more.
    column : callable
        From the number of a table's column, and how many it has, to what is done with it.
    """

    alone: Alter = unchanged
    wide: Alter = unchanged
    column: Callable[[int, int], Alter] = lambda number, count: unchanged

    def __call__(self, array: NDArray[Any]) -> NDArray[Any]:
        """Change an array that is no column of a table."""
        return self.alone(array) if array.ndim == 1 else self.wide(array)


def in_column(alter: Alter, number: int, count: int) -> Alter:
    """Return what a change does with a column of a table."""
    return alter.column(number, count) if isinstance(alter, Placed) else alter


def one_column(alter: Alter, which: int) -> Placed:
    """Return a change of the first column (0), or of the last (-1), and of nothing else."""

    def changed(array: NDArray[Any]) -> NDArray[Any]:
        if array.ndim != 2 or not array.shape[1]:
            return array
        made = array.copy()
        made[:, which] = alter(array[:, which])
        return made

    return Placed(wide=changed, column=lambda i, n: alter if i == which % n else unchanged)


def in_tables(alter: Alter) -> Placed:
    """Return a change of columns, in tables and in wide arrays."""
    return Placed(wide=alter, column=lambda number, count: alter)
