"""CSV files, read so that a record is itself whatever the others hold.

pandas' reader lets one field decide about a file: a quote that is never closed swallows the lines
after it, one field too many fails all. Here what is no record costs its own line, and reading
goes on at the next.
"""

import csv
import re
from collections.abc import Iterator

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
