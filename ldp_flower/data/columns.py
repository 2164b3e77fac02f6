"""Columns: public facts about a column, and the standardisation that follows from them."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..validation import Floats, PlainFields, Positive, own_number, plain
from .entries import entries, is_blank, is_missing, of_entry
from .merged import exact_in, is_merged
from .numbers import as_numbers

_TRUTHS = ("0", "1"), ("False", "True")  # two spellings of the same two categories
_MAX_COLUMNS_NAMED = 5  # largest number of columns that the log of a table names
_MAX_TYPES_NAMED = 3  # largest number of types that the log names if no entry can be used


@dataclass(frozen=True)
class Numeric(PlainFields):
    """A column of numbers: ``(x - centre) / scale``, after clipping to the bounds.

    Parameters
    ----------
    low, high : float
        Public bounds, finite, in the column's units. A number beyond a bound counts as the bound.
    centre : float, optional
        A typical value within the bounds, by default their middle.
    scale : float, optional
        A typical distance from the centre, above 0. The default is a quarter of the distance
        between the bounds. A column centred in the middle then lies in [-2, 2].

    Raises
    ------
    ValueError
        If a number is not as described.
    """

    low: float
    high: float
    centre: float | None = None
    scale: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"Expected finite low < high, got {self.low} and {self.high}.")
        if self.centre is not None and not self.low <= self.centre <= self.high:
            raise ValueError(
                f"Expected centre within [{self.low}, {self.high}], got {self.centre}."
            )
        if not (
            math.isfinite(self._centre)
            and self._scale > 0
            and math.isfinite((self.high - self.low) / self._scale)
        ):
            raise ValueError(
                "Expected bounds whose middle and whose distance in units of the scale are finite, "
                f"and a scale above 0, got low {self.low} and high {self.high} with scale "
                f"{self._scale}."
            )

    @property
    def width(self) -> int:
        """Number of features: 1."""
        return 1

    def names(self, column: str) -> list[str]:
        """Return the names of the features: the column's name."""
        return [column]

    def coded(self, values: object) -> Floats:
        """Return standardised numbers, shape (rows,), with NaN for entries that are not numbers.

        They are the targets, which have to show what is missing. Features are those of
        :meth:`standardise`.
        """
        numbers = as_numbers(values)
        return np.asarray((np.clip(numbers, self.low, self.high) - self._centre) / self._scale)

    @property
    def ends(self) -> tuple[float, float]:
        """Both bounds of the column, after standardisation: the range of :meth:`coded`."""
        low, high = self.coded([self.low, self.high]).tolist()
        return low, high

    def standardise(self, values: object) -> Floats:
        """Return standardised numbers, shape (rows, 1), with 0 for entries that are not numbers."""
        return np.nan_to_num(self.coded(values))[:, None]

    def restore(self, standardised: ArrayLike) -> Floats:
        """Return standardised numbers in the column's units, unclipped."""
        return np.asarray(np.asarray(standardised, np.float64) * self._scale + self._centre)

    @property
    def _centre(self) -> float:
        return (self.low + self.high) / 2 if self.centre is None else self.centre

    @property
    def _scale(self) -> float:
        return (self.high - self.low) / 4 if self.scale is None else self.scale


@dataclass(frozen=True)
class Categories(PlainFields):
    """A column of categories: one indicator for each, minus one over the number of categories.

    Parameters
    ----------
    values : sequence of str, int or bool
        All categories, public, at least two, in a fixed order. A number and its decimal text are
        the same category. So are 0 and False, and 1 and True, if only one of the two pairs is
        listed. A row with no listed category has zeros, as if all categories were equally likely.
    other : str, optional
        The category for all values that are not listed. It is added as the last category if it is
        not listed. By default values that are not listed count as missing. The following always
        count as missing: missing entries, empty texts that are not listed, and whole floats from
        2**53 on (2**24 in NumPy's floats of four bytes, 2**11 in two). pandas makes floats of
        integers beside a missing entry, and such a float may stand for several categories.

    Raises
    ------
    ValueError
        If there are fewer than two categories, if two are equal, if one is None, NaN or a float
        that may stand for several integers, or if ``values`` is a set.
    """

    values: Sequence[object]
    other: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.values, set | frozenset):
            raise ValueError(f"Expected categories in an order, got a set: {self.values!r}.")
        if any(map(is_missing, self.values)):
            raise ValueError(f"Expected categories without missing entries, got {self.values!r}.")
        if any(map(is_merged, self.values)):
            raise ValueError(
                "Expected integers or texts for categories from 2**53 on (2**24 in floats of four "
                f"bytes, 2**11 in two), got {self.values!r}: floats do not tell them apart."
            )
        declared = [plain(value) for value in self.values]
        labels: tuple[str | None, ...] = tuple(map(_label, declared))
        if self.other is not None:
            if not isinstance(self.other, str):
                raise ValueError(f"Expected other to be a text, got {self.other!r}.")
            if self.other not in labels:
                labels, declared = (*labels, self.other), [*declared, self.other]
        distinct = set(labels) - {None}
        if isinstance(self.values, str) or not 2 <= len(labels) == len(distinct):
            raise ValueError(f"Expected at least two distinct categories, got {self.values!r}.")
        object.__setattr__(self, "values", labels)
        object.__setattr__(self, "_declared", tuple(declared))

    @property
    def declared(self) -> tuple[object, ...]:
        """The categories in their given types (7 or "7"), of which ``values`` has the texts."""
        return self._declared  # type: ignore[attr-defined, no-any-return]

    @property
    def width(self) -> int:
        """Number of features: one per category."""
        return len(self.values)

    def names(self, column: str) -> list[str]:
        """Return the names of the features: ``column=value`` for each category."""
        return [f"{column}={value}" for value in self.values]

    def coded(self, values: object) -> Floats:
        """Return category indices 0, 1, ..., shape (rows,), with NaN for other values.

        They are the targets, which have to show what is missing. Features are those of
        :meth:`standardise`.
        """
        place = {label: float(i) for i, label in enumerate(self.values)}
        for one, other in (_TRUTHS, _TRUTHS[::-1]):
            if set(one) <= set(place) and not set(other) & set(place):
                place |= {same: place[label] for label, same in zip(one, other, strict=True)}
        found, exact = entries(values), exact_in(values)
        rest = np.nan if self.other is None else place[self.other]
        place = {"": np.nan} | place  # an empty text in a CSV file is a missing value
        return np.array(
            [
                place.get(value, rest)
                if type(value) is str
                else np.nan
                if is_missing(value) or is_merged(value, exact)
                else place.get(of_entry(_text, value, None), rest)
                for value in found
            ],
            np.float64,
        )

    def standardise(self, values: object) -> Floats:
        """Return the centred indicators, shape (rows, categories)."""
        codes = np.nan_to_num(self.coded(values), nan=self.width).astype(np.int64)
        indicators = np.eye(self.width) - 1 / self.width
        return np.vstack([indicators, np.zeros(self.width)])[codes]


def check_kind(what: str, kind: object) -> None:
    """Raise ValueError unless ``kind`` is the declaration of a column."""
    if not isinstance(kind, Numeric | Categories):
        raise ValueError(
            f"Expected {what} to be Numeric(low, high) or Categories([...]), got {kind!r}."
        )


def log_mismatches(table: Mapping[str, tuple[Numeric | Categories, object]]) -> None:
    """Log for the worst columns how many entries do not match the column's declaration.

    The log is on the machine with the table, and shows that a bound or a category may be wrong.
    ``table`` has the declaration and the entries of each column, by name.
    """
    found = [each for name, (kind, values) in table.items() for each in _faults(name, kind, values)]
    worst = sorted(sorted(found, key=lambda each: -each[0])[:_MAX_COLUMNS_NAMED], key=found.index)
    logger = logging.getLogger(__name__)
    for _, warning in worst:
        logger.warning("%s", warning)
    if len(found) > len(worst):
        logger.warning("%d more columns have fewer such entries.", len(found) - len(worst))


def _faults(name: str, kind: Numeric | Categories, values: object) -> Iterator[tuple[int, str]]:
    """Yield pairs: how many entries do not match the column's declaration, and a warning."""
    if isinstance(kind, Numeric):
        numbers = as_numbers(values)
        if beyond := int(((numbers < kind.low) | (numbers > kind.high)).sum()):
            where = f"outside [{kind.low:g}, {kind.high:g}] and count as the bound"
            yield beyond, f"{beyond} of {len(numbers)} numbers in column {name!r} are {where}."
    nowhere = np.isnan(numbers if isinstance(kind, Numeric) else kind.coded(values))
    if not nowhere.any():
        return
    found, exact = entries(values), exact_in(values)
    unknown = [found[i] for i in np.flatnonzero(nowhere) if not is_blank(found[i])]
    if not unknown:
        return
    what = "not numbers" if isinstance(kind, Numeric) else "none of its categories"
    text = (
        f"{len(unknown)} of {len(found)} entries in column {name!r} are {what} and count as missing"
    )
    if isinstance(kind, Categories) and any(is_merged(value, exact) for value in unknown):
        text += (
            f". Whole floats from 2**{exact.bit_length() - 1} on are among them, as pandas makes "
            "of integers beside a missing entry, and do not tell these apart: read the column as "
            'text, or as "Int64"'
        )
    elif nowhere.all():
        types = sorted({of_entry(lambda each: str(type(each).__name__), u, "?") for u in unknown})
        text += f": none can be used. They are of type {', '.join(types[:_MAX_TYPES_NAMED])}"
    yield len(unknown), f"{text}."


def plain_of(kind: Numeric | Categories) -> dict[str, Any]:
    """Return a column's declaration as plain values, for JSON; :func:`kind_of` reads them."""
    if isinstance(kind, Categories):
        values = [
            value if type(value) in (bool, int, str) else label
            for value, label in zip(kind.declared, kind.values, strict=True)
        ]
        return {"values": values} | ({} if kind.other is None else {"other": kind.other})
    return {name: value for name, value in vars(kind).items() if value is not None}


def exact_of(kind: Numeric | Categories) -> object:
    """Return a column's declaration as plain values for :meth:`.Schema.digests`.

    Declarations with the same features have the same values: 1 and 1.0 as a bound, 7 and "7" as a
    category.
    """
    if isinstance(kind, Categories):
        return [list(kind.values), kind.other]
    return {name: float(value) for name, value in plain_of(kind).items()}


def kind_of(name: str, plain: Mapping[str, Any]) -> Numeric | Categories:
    """Return the declaration of a column from the plain values of :func:`plain_of`.

    Raise ValueError, with the column's name, if it has other keys than such values.
    """
    try:
        return Categories(**plain) if "values" in plain else Numeric(**plain)
    except TypeError:
        raise ValueError(
            f'Expected {name!r} as {{"low": 0, "high": 100}} or {{"values": ["a", "b"]}}, '
            f"got {plain!r:.200}."
        ) from None


def _label(value: object) -> str | None:
    """Return the text of a category; None if the value has no text.

    7, 7.0 and "7" have the same text, since libraries turn 7 into a float beside a missing value.
    """
    return value if type(value) is str else of_entry(_text, value, None)


def _text(value: Any) -> str:
    value = own_number(value)
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    return str.__str__(str(value))
