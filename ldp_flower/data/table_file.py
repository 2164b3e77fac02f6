"""Readers of tables on disk, in which no entry depends on another.

In pandas' reader of CSV files, one field can affect the whole file: a quote that is never closed
swallows the following lines, and one field too many makes the whole file fail. This reader drops a
line that is not a record, and goes on with the next line.
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

    pandas' readers give a column one type, and a single missing entry or text changes this type for
    all entries. A stray quote or comma in a CSV file changes other rows or makes them fail.

    Parameters
    ----------
    path : str or Path
        A ``.csv`` file in UTF-8, whose first line names the columns, or a ``.parquet`` file.
    columns : sequence of str
        Names of the columns to read.
    quoted : bool (default: True)
        True if fields of a CSV file may be in quotes, as in RFC 4180 (pandas, R, Excel and
        databases write such files). False is for a file that was written without quotes: a quote is
        then a character like any other, and each line is a record.

    Returns
    -------
    dict of str to list
        The entries of each column: texts from a CSV file, Python's built-in types from a Parquet
        file. Lines of a CSV file that are not a record (they have more or fewer fields than the
        first line, or quotes that do not close) are left out, and their number is logged.

    Raises
    ------
    ValueError
        If the file is neither CSV nor Parquet, if it cannot be read, if a column is missing, or if
        several columns have one name.
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
    chosen = itemgetter(*[names.index(name) for name in columns], 0)  # 0 makes it return a tuple
    rows, left_out = [], []
    for number, fields in found:
        if fields is None:
            left_out.append(number)
        else:
            rows.append(chosen(fields))
    if left_out:
        logging.getLogger(__name__).warning(
            "%d lines of %s are left out, of which the first is line %d: they have more or fewer "
            "fields than the first line, or quotes that do not close. If the file was written "
            "without quotes, say so (--unquoted, or quoted=False).",
            *(len(left_out), path, left_out[0]),
        )
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


def _text(path: Path) -> str:
    """Return the text of a file; bytes that are not UTF-8 affect only their own field."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"The table {path} cannot be read: {error}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        logging.getLogger(__name__).warning(
            "%s is not UTF-8, first on line %d: a field that is not UTF-8 is neither a number nor "
            "one of the categories.",
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
    """Return the users' names in a text file, one per line.

    Raise ValueError if it cannot be read.
    """
    try:
        return [line for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"The file {path} cannot be read: {error}") from error


# A field with or without quotes (doubled inside a quoted field), and the separator that ends it.
_FIELD = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"(,|\r?\n|\r?\Z)|((?!")[^,\n]*+)(,|\n|\Z)')


def records(text: str, quoted: bool = True) -> Iterator[tuple[int, list[str] | None]]:
    """Yield the line number on which each record begins, and the record's fields.

    The first record, the header, sets the number of fields of all records. A line is not a record
    if it has more or fewer fields, or quotes that do not close before a comma or newline. Its
    fields are None. Empty lines are skipped.

    If ``quoted``, fields may be in quotes, as in RFC 4180: inside quotes, commas and newlines are
    text and quotes are doubled. If not, a quote is a character like any other, and each line is a
    record.

    In a file that was written with quotes, no field affects another record. A file that was written
    without quotes may be read as quoted by mistake. Then a field that begins with a quote hides the
    records up to a field that ends with a quote, if the number of fields still equals the header's.
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
    """Return the fields of a record of one line; None if the line is not a record."""
    try:
        return next(csv.reader((line,), strict=True))
    except csv.Error:
        return None


def _over_lines(text: str, start: int, width: int) -> tuple[list[str], int] | None:
    """Return the fields of the record that begins at ``start``, and its number of lines.

    Return None if there is no record. The search stops after ``width`` fields (0: no limit), so
    that a file with many stray quotes is read as fast as others.
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
