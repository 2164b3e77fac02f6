"""The study of series: populations are what they say, and its table is made of its runs."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ldp_flower.strategies import LdpStrategy

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def test_populations_are_what_they_say():
    from simulations.studies.recurring.populations import SHAPES

    found = {}
    for name, draw in SHAPES.items():
        people = draw(np.random.default_rng(1), 52, 4000)
        assert people.held.shape == (52, 4000)
        found[name] = truth = people.truth
        assert np.isfinite(truth).all()
        people.schema.users(people.table(51))
        assert truth.shape[0] == 52 and isinstance(people.strategy(4.0), LdpStrategy)
    assert found["drift"][-1, 0] - found["drift"][0, 0] > 0.08
    assert found["step"][26, 0] - found["step"][25, 0] > 0.08
    assert 1.5 < found["skewed"][-1, 0] / found["skewed"][0, 0] < 2.5
    assert found["kinds"].shape == (52, 12)
    np.testing.assert_allclose(found["kinds"].sum(axis=1), 1)
    grown = found["kinds"][-1] - found["kinds"][0]
    assert (grown[10:] > 0.04).all() and (grown[:2] < 0).all()
    assert 0.18 < found["epidemic"][:, 1].max() < 0.24
    assert (np.diff(found["quantiles"]) > 0).all()
    np.testing.assert_allclose(found["pairs"].sum(axis=1), 1)
    assert found["evaluation"][0] > 0.8 > 0.7 > found["evaluation"][-1]
    gone = np.isnan(SHAPES["leaving"](np.random.default_rng(1), 52, 4000).held).mean(axis=1)
    assert 0.35 < gone[-1] < 0.55 and (np.diff(gone) >= 0).all()


def test_a_run_is_kept_and_reported(tmp_path, capsys):
    from simulations.studies.recurring.__main__ import main, table

    arguments = ["drift", "--users", "600", "--weeks", "4", "--epsilons", "4", "--seeds", "1"]
    main([*arguments, "--processes", "1", "--output", str(tmp_path)])
    runs = pd.read_csv(tmp_path / "runs.csv")
    assert len(runs) == 1 and 0 < runs["past_error"][0] < 0.1
    assert "drift" in capsys.readouterr().out
    assert table(runs).title == "Levels"


@pytest.mark.long
@pytest.mark.parametrize(
    ("row", "more"), [("panels", []), ("noise at ten nodes", ["--nodes", "10"])]
)
def test_the_published_errors_at_nodes_are_what_the_code_gives(row, more, tmp_path):
    from simulations.studies.recurring import __main__ as study

    given = "drift --users 4000 --weeks 12 --epsilons 2 --seeds 12 --first-seed 2000 --processes 1"
    study.main([*given.split(), *more, "--output", str(tmp_path)])
    (found,) = pd.read_csv(tmp_path / "table.csv", dtype=str).to_dict("records")
    today, past = (f"{found[k][1:]} ({found[f'{k} missed, %']})" for k in ("today", "past"))
    page = Path(study.__file__).with_name("README.md").read_text("utf-8")
    assert f"\n|{row}|{found['raw'][1:]}|{today}|{past}|\n" in page
