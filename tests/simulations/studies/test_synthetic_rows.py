"""The study of synthetic rows: its tables, its distances, and a run of it."""

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


@pytest.mark.slow
def test_a_run_is_kept_and_reported(tmp_path, capsys):
    from simulations.studies.synthetic_rows.__main__ import main

    rng = np.random.default_rng(0)
    distance, card = rng.uniform(0, 30, 4000), rng.random(4000) < 0.5
    rides = {
        "distance": distance,
        "passengers": rng.integers(1, 6, 4000),
        "tip": 3.0 * card,
        "color": rng.choice(["green", "yellow"], 4000),
        "payment": np.where(card, "card", "cash"),
        "fare": 3 + 2 * distance,
    }
    pd.DataFrame(rides).to_csv(tmp_path / "taxis.csv")
    own = ["--processes", "1", "--output", str(tmp_path), "--taxis", str(tmp_path / "taxis.csv")]
    main(["taxis", "--seeds", "1", "--epsilons", "2", *own])
    runs = pd.read_csv(tmp_path / "runs.csv").set_index("method")
    assert (runs["people"] == 3200).all()
    assert runs["score"]["without privacy"] == pytest.approx(1)
    assert runs["score"]["private model"] > 0.9 and runs["score"]["its rows"] > 0.6
    drawn = runs.loc["its rows"]
    assert 0 < drawn["one_way"] < drawn["two_way"] < 0.2
    assert "taxis" in capsys.readouterr().out


def test_people_are_held_out_and_refused_runs_are_shown():
    from simulations.studies.synthetic_rows.__main__ import report
    from simulations.studies.synthetic_rows.tables import split

    collected, held_out = split(pd.DataFrame({"x": range(100)}), 0)
    assert len(collected) == 80 and sorted([*collected["x"], *held_out["x"]]) == [*range(100)]
    run = {"table": "some", "epsilon": 1.0, "noise": "node", "people": 80}
    low = {f"{ways}_way{what}": 0.1 for ways in ("one", "two") for what in ("", "_stated", "_low")}
    high = {f"{ways}_way_high": 0.2 for ways in ("one", "two")}
    runs = [
        run | {"method": "private model", "score": np.nan},
        run | {"method": "its rows", "score": 0.5} | low | high,
    ]
    (line,) = report(pd.DataFrame(runs)).lines
    assert line[4:] == ["-", "-", "0.50", "0.100 (0.100)", "1 of 1", "0.100 (0.100)", "1 of 1"]
