"""A CSV file's records: as they were written, and none changed by another."""

import csv
import io
import random

import pytest

from ldp_flower.data.table_file import records

HEADER = "name,person,age"
PARTS = ["a", '"', ",", "\n", "\r", '""', "x y", "\u00e9", "\u2028", "\0", "\udce9", ""]


def fields(text, quoted=True):
    return [found for _, found in records(text, quoted)]


def written(rows, **options):
    file = io.StringIO()
    csv.writer(file, **options).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
def test_what_was_written_is_read(ending, quoting):
    rng = random.Random(0)
    # Python's own writer leaves a carriage return without quotes, unless it quotes all.
    parts = PARTS if quoting == csv.QUOTE_ALL else [part for part in PARTS if part != "\r"]
    for _ in range(1000):
        width = rng.randint(1, 4)
        rows = [[str(i) for i in range(width)]]
        for _ in range(5):
            rows.append(["".join(rng.choices(parts, k=rng.randint(0, 5))) for _ in range(width)])
        text = written(rows, lineterminator=ending, quoting=quoting)
        assert fields(text) == rows
        assert fields(text.removesuffix(ending)) == rows


def test_records_know_their_lines():
    text = 'a,b\n"1\n2",3\n\n4,5\n6\n7,8'
    assert [*records(text)] == [
        (1, ["a", "b"]),
        (2, ["1\n2", "3"]),
        (5, ["4", "5"]),
        (6, None),
        (7, ["7", "8"]),
    ]
    assert fields("") == []
    assert fields('a,b\n1,"2\n3"') == [["a", "b"], ["1", "2\n3"]]
    assert fields('a,b\n1,"2\n3"\r') == [["a", "b"], ["1", "2\n3"]]


STRAY = ['"Bob', '"', '""Bob', '"Bob" B', '"""', "x,y", 'x,"y', '"x",y', '",', ',"', '","', '\0"']


@pytest.mark.parametrize("stray", STRAY)
@pytest.mark.parametrize("quoted", [True, False])
def test_a_stray_quote_or_comma_costs_its_own_line(stray, quoted):
    others = [["Ann", "1", "30"], ["5' 7", "2", "40"], ["", "3", ""], ['Zoe "Z" Z', "4", "50"]]
    for place in range(5):
        for cell in range(3):
            odd = ["Bob", "9", "60"]
            odd[cell] = stray
            lines = [",".join(row) for row in others]
            lines.insert(place, ",".join(odd))
            found = fields("\n".join([HEADER, *lines]), quoted)[1:]
            own = found.pop(place)
            assert found == others
            if not quoted:
                assert own == (odd if stray.count(",") == 0 else None)


def test_files_without_quotes_are_read_as_such():
    """Between two stray quotes, which only these files have."""
    text = HEADER + '\n"Bob,1,30\nAnn,2,40\nAl",3,50\n'
    rows = [['"Bob', "1", "30"], ["Ann", "2", "40"], ['Al"', "3", "50"]]
    assert fields(text, quoted=False)[1:] == rows
    assert fields(text)[1:] == [["Bob,1,30\nAnn,2,40\nAl", "3", "50"]]


@pytest.mark.parametrize("line", ['"a,1,2', 'a,1,"', '",1,2', '"a,1,2\n"b,3,4', '"a","'])
def test_stray_quotes_take_no_time_of_their_own(line, monkeypatch):
    """How much is looked at grows with the file, not with its square."""
    looked = 0

    class Field:
        def match(self, text, place):
            nonlocal looked
            if found := real.match(text, place):
                looked += found.end() - found.start()
            return found

    real = __import__("ldp_flower.data.table_file", fromlist=["_FIELD"])._FIELD
    monkeypatch.setattr("ldp_flower.data.table_file._FIELD", Field())
    text = "x,y,z\n" + f"{line}\n" * 2000
    assert len(fields(text)) > 500
    assert looked < 10 * len(text)
