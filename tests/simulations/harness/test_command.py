"""The command line of all studies, and what it does with a file of runs."""

from dataclasses import dataclass

import pandas as pd
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def command(**options):
    from simulations.harness.command import StudyCommand

    made = StudyCommand("simulations.studies.area", "First line.\n\nMore.", seeds=5, **options)
    made.choose("--methods", ["one", "two"])
    return made


def test_seeds_are_a_range_which_a_quick_run_shortens(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    asked = command(quick="less").options
    assert asked([]).seeds == range(5) and asked(["--quick"]).seeds == range(2)
    assert asked(["--quick", "--seeds", "3", "--first-seed", "4"]).seeds == range(4, 7)
    assert asked([]).methods == ["one", "two"] and asked(["--methods", "two"]).methods == ["two"]
    assert asked([]).output.as_posix() == "results/area"
    assert not command().options([]).quick


@pytest.mark.parametrize("arguments", [["--methods", "three"], ["--methods"], ["--speed", "1"]])
def test_what_is_not_known_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        command().options(arguments)
    shown = capsys.readouterr().err
    assert "python -m simulations.studies.area" in shown
    if arguments[-1] == "three":
        assert "Expected one of one, two, got three." in shown


def test_the_names_of_a_positional_argument_are_all_by_default(capsys):
    from simulations.harness.command import Command

    asked = Command("simulations.benchmarks.accuracy", "Doc.")
    asked.choose("tables", ["one", "two"])
    assert asked.parse_args([]).tables == ["one", "two"]
    assert asked.parse_args(["two"]).tables == ["two"]
    with pytest.raises(SystemExit):
        asked.parse_args(["three"])
    assert "Expected one of one, two" in capsys.readouterr().err


@dataclass(frozen=True)
class Setting:
    side: int


def area(task):
    return {"error": task.setting.side**2 + task.seed}


def test_table_and_figure_are_of_the_file_however_it_came_about(tmp_path, monkeypatch):
    """One reading of one file: both get the same numbers, and the picture says which file."""
    from simulations.harness.command import carry_out
    from simulations.harness.figures import digest, plt, source_of
    from simulations.harness.runs import Task, sweep_of
    from simulations.harness.tables import Table

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    seen = []

    def table(runs):
        seen.append(runs)
        return Table("Areas", ["side", "error"], [[str(v) for v in runs["error"]]])

    def draw(runs):
        seen.append(runs)
        figure, axes = plt.subplots()
        axes.plot(runs["side"], runs["error"])
        return {"area.png": figure}

    sweep = sweep_of(Setting, ["error"], area)
    tasks = [Task(Setting(side), "only", 1) for side in (2, 3)]
    arguments = ["--processes", "1", "--output", str(tmp_path)]
    carry_out(command().options(arguments), sweep, tasks, table, draw)
    path = tmp_path / "runs.csv"
    written = pd.read_csv(path)
    assert list(written) == ["side", "method", "seed", "error", "seconds"]
    assert list(written["error"]) == [5, 10] and seen[0] is seen[1]
    assert source_of(tmp_path / "area.png") == digest(path)
    before = path.read_text()
    path.write_text(before.replace(",5,", ",6,"))
    assert source_of(tmp_path / "area.png") != digest(path)  # it is older than its table
    tasks.append(Task(Setting(9), "only", 1))
    options = command().options([*arguments, "--only-report"])
    carry_out(options, sweep, tasks, table, draw)
    assert list(seen[2]["error"]) == [6, 10] and seen[2] is seen[3]
    assert source_of(tmp_path / "area.png") == digest(path)
