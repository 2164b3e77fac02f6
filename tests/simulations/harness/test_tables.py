"""One table, on the screen and in two files."""

import csv

import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def made(**options):
    from simulations.harness.tables import Table

    lines = [["a", "x, y", "0.5 [3]"], ["a", "z", "1"], ["b", "z", ""]]
    return Table("Title", ["problem", "method", "error"], lines, ["problem", "method"], **options)


def test_both_files_hold_the_same_cells(tmp_path):
    table = made(explanation="What it is.")
    table.write(tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert text == (
        "| problem | method | error |\n| --- | --- | --: |\n| a | x, y | 0.5 [3] |\n"
        "| a | z | 1 |\n| b | z |  |\n\nWhat it is.\n"
    )
    with (tmp_path / "table.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [table.head, *table.lines]
    assert made().markdown().endswith("| b | z |  |\n")


@pytest.mark.parametrize("apart", [False, True])
def test_the_screen_shows_cells_as_they_are(capsys, apart):
    made(apart=apart, explanation="What [it] is.").show()
    shown = capsys.readouterr().out
    assert "0.5 [3]" in shown and "What [it] is." in shown
    assert shown.count("method") == (2 if apart else 1)
    assert ("problem" in shown) == ("Title" in shown) == (not apart)
