"""Tables on disk, in which no entry depends on another.

pandas' reader of CSV files lets one field decide about a file: a quote that is never closed
swallows the lines after it, one field too many fails all. Here what is no record costs its own
line, and reading goes on at the next.
"""

import csv
import logging
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

from .entries import entries


def read_table(
    path: str | Path, columns: Sequence[str], *, quoted: bool = True
) -> dict[str, list[Any]]:
    """Return some columns of a CSV or Parquet file, in which no entry depends on another.

    pandas' readers give a column one type, which a single missing entry or text changes for all,
    and a stray quote or comma in a CSV file changes or fails other rows.

    Parameters
    ----------
    path : str or Path
        A ``.csv`` file in UTF-8, whose first line names the columns, or a ``.parquet`` file.
    columns : sequence of str
        Names of the columns to read.
    quoted : bool (default: True)
        Whether fields of a CSV file may be in quotes, as in RFC 4180 (pandas, R, Excel and
        databases write such files). False, for a file that was written without: quotes are
        characters like any other, and each line is a record.

    Returns
    -------
    dict of str to list
        The entries of each column: texts of a CSV file, Python's own values of a Parquet file.
        Lines of a CSV file that are no record (more or fewer fields than the first line, quotes
        that do not close) are left out, and logged.

    Raises
    ------
    ValueError
        If the file is neither, cannot be read, or lacks columns or has several of one name.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise ValueError(f"Expected a table in a .csv or .parquet file, got {path}.")
    if kind == ".parquet" and not quoted:
        raise ValueError(f"Expected quoted=False for a CSV file only, got {path}.")
    return _of_parquet(path, columns) if kind == ".parquet" else _of_csv(path, columns, quoted)


def _of_csv(path: Path, columns: Sequence[str], quoted: bool) -> dict[str, list[Any]]:
    found = records(_text(path), quoted)
    _, names = next(found, (0, None))
    if names is None:
        raise ValueError(f"Expected names of columns in the first line of {path}, got none.")
    _check_columns(path, columns, names)
    chosen = itemgetter(*[names.index(name) for name in columns], 0)  # one more: a tuple always
    rows, left_out = [], []
    for number, fields in found:
        if fields is None:
            left_out.append(number)
        else:
            rows.append(chosen(fields))
    if left_out:
        logging.getLogger(__name__).warning(
            "%d lines of %s are left out, of which the first is line %d: more or fewer fields than "
            "the first line has, or quotes that do not close. Was it written without quotes? Then "
            "say so (--unquoted, or quoted=False).",
            *(len(left_out), path, left_out[0]),
        )
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


def _text(path: Path) -> str:
    """Return what a file holds; a byte that is no UTF-8 costs its field alone."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"The table {path} cannot be read: {error}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        logging.getLogger(__name__).warning(
            "%s is not UTF-8, first on line %d: what is not is no number and none of the "
            "categories.",
            *(path, error.object.count(b"\n", 0, error.start) + 1),
        )
        return content.decode("utf-8-sig", "surrogateescape")


def _of_parquet(path: Path, columns: Sequence[str]) -> dict[str, list[Any]]:
    if find_spec("pyarrow") is None:
        raise ValueError('Parquet needs pyarrow: pip install "ldp-flower[parquet]"')
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            _check_columns(path, columns, file.schema_arrow.names)
            table = file.read(list(columns))
            return {name: entries(table[name], f"column {name!r}") for name in columns}
    except (OSError, ArrowException) as error:
        raise ValueError(f"The table {path} cannot be read: {error}") from error


def _check_columns(path: Path, columns: Sequence[str], found: list[str]) -> None:
    if lacking := [name for name in columns if name not in found]:
        raise ValueError(f"Expected the columns {lacking} in {path}, got {found}.")
    if several := [name for name in columns if found.count(name) > 1]:
        raise ValueError(f"Expected one column of each name in {path}, got more of {several}.")


def names_in(path: Path) -> list[str]:
    """Return the names in a text file, one a line; ValueError if it cannot be read."""
    try:
        return [line for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"The file {path} cannot be read: {error}") from error


# A field in quotes, which are doubled within it, or one without; and what ends it.
_FIELD = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"(,|\r?\n|\r?\Z)|((?!")[^,\n]*+)(,|\n|\Z)')


def records(text: str, quoted: bool = True) -> Iterator[tuple[int, list[str] | None]]:
    """Yield on which line each record begins, and its fields; None for a line that is no record.

    The first record, the header, decides how many fields all have. A line is no record if it has
    more or fewer fields, or quotes that do not close before a comma or newline. Empty lines are
    passed over.

    If ``quoted``, fields may be in quotes as in RFC 4180, within which commas and newlines are text
    and quotes are doubled. If not, a quote is a character like any other, and each line is a
    record.

    In a file that was written with quotes no field affects another record. In one that was
    written without, but is read with them, a field that begins with a quote hides the records up
    to a field that ends with one, if as many fields as the header's remain.
    """
    lines = text.split("\n")
    width = place = at = 0
    while place < len(lines):
        line = lines[place].removesuffix("\r")
        fields: list[str] | None
        fields, taken = line.split(","), 1
        if quoted and '"' in line:
            fields = _in_line(line)
            if fields is None and (several := _over_lines(text, at, width)):
                fields, taken = several
        if line:
            width = width or len(fields or ())
            if fields is None or len(fields) != width:
                fields, taken = None, 1
            yield place + 1, fields
        at += sum(map(len, lines[place : place + taken])) + taken
        place += taken


def _in_line(line: str) -> list[str] | None:
    """Return the fields of a record of one line; None if it is none."""
    try:
        return next(csv.reader((line,), strict=True))
    except csv.Error:
        return None


def _over_lines(text: str, start: int, width: int) -> tuple[list[str], int] | None:
    """Return the fields of the record that begins here, and its lines; None if it is none.

    Not more than ``width`` fields are looked for, 0 for any number: a file of nothing but stray
    quotes is read as fast as others.
    """
    fields: list[str] = []
    place = start
    while not width or len(fields) < width:
        if not (field := _FIELD.match(text, place)):
            return None
        within, ends, plain, plain_ends = field.groups()
        fields.append(plain if within is None else within.replace('""', '"'))
        place = field.end()
        ending = plain_ends if within is None else ends
        if ending != ",":
            fields[-1] = fields[-1] if within is not None else plain.removesuffix("\r")
            return fields, text.count("\n", start, place) + (not ending.endswith("\n"))
    return None
