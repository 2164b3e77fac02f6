"""Sweeps: every point once, whatever interrupts them."""

import warnings

import pytest
from rich.console import Console

from ldp_flower.compare.sweep import rows_of, sweep

GRID = {"x": [1, 2], "name": ["a", "b"]}


def area(x, name, seed):
    return {"area": x * (seed + 1), "text": f"{name}, {x}"}


def test_every_point_of_the_grid_is_a_row(tmp_path):
    rows = sweep(area, GRID, seeds=2, path=tmp_path / "new" / "runs.csv")
    assert len(rows) == 8
    assert rows[0] == {"x": "1", "name": "a", "seed": "0", "area": "1", "text": "a, 1"}
    assert rows[7] == {"x": "2", "name": "b", "seed": "1", "area": "4", "text": "b, 2"}


@pytest.mark.slow
def test_several_processes_give_the_same_rows(tmp_path):
    one, two = (sweep(dict, GRID, seeds=2, path=tmp_path / f"{n}.csv", processes=n) for n in (1, 2))
    assert one == two and len(two) == 8


def test_a_notebook_shows_no_progress(tmp_path, monkeypatch):
    monkeypatch.setattr("ldp_flower.compare.sweep.get_console", lambda: Console(force_jupyter=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(sweep(area, GRID, seeds=1, path=tmp_path / "runs.csv")) == 4


def test_what_the_file_holds_is_not_run_again(tmp_path):
    path = tmp_path / "runs.csv"
    ran = []

    def failing(x, name, seed):
        if len(ran) == 3:
            raise RuntimeError("interrupted")
        ran.append((x, name, seed))
        return area(x, name, seed)

    with pytest.raises(RuntimeError, match="interrupted"):
        sweep(failing, GRID, seeds=1, path=path)
    assert len(rows_of(path)) == 3

    def counting(x, name, seed):
        ran.append((x, name, seed))
        return area(x, name, seed)

    sweep(counting, GRID, seeds=2, path=path)
    assert len(ran) == len(set(ran)) == 8
    part = sweep(counting, {"x": [2], "name": ["a"]}, seeds=2, path=path)
    assert len(ran) == 8 and [row["area"] for row in part] == ["2", "4"]


def test_bad_arguments_and_files_of_other_grids(tmp_path):
    path = tmp_path / "runs.csv"
    sweep(area, GRID, seeds=1, path=path)
    with pytest.raises(ValueError, match=r"Expected a file of \['x', 'seed'\], got .*runs.csv"):
        sweep(area, {"x": [1]}, seeds=1, path=path)
    with pytest.raises(ValueError, match="seeds"):
        sweep(area, GRID, seeds=0, path=path)
    with pytest.raises(ValueError, match="processes"):
        sweep(area, GRID, seeds=1, path=path, processes=0)


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_line_that_was_half_written_is_run_again(tmp_path, kept):
    """A writer that is killed leaves whole lines and a part of one, also of the first."""
    path = tmp_path / "runs.csv"
    whole = sweep(area, GRID, seeds=1, path=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]) + lines[kept][:4])
    assert len(rows_of(path)) == max(0, kept - 1)
    assert sorted(map(str, sweep(area, GRID, seeds=1, path=path))) == sorted(map(str, whole))
    assert len(path.read_bytes().splitlines()) == 5
