"""Real tables with users: what is declared, how they are split, the table, the quick sweep."""

import csv
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

pytestmark = pytest.mark.usefixtures("repository_on_the_path")


def test_only_bounds_and_categories_are_declared():
    from simulations.studies.grouped_data.data import READERS
    from simulations.studies.grouped_data.schemas import ADULT_COLUMNS, DECLARED

    assert list(DECLARED) == list(READERS)
    for declared in DECLARED.values():
        plain = declared.schema.to_dict()
        for kind in (*plain["columns"].values(), plain["bounds"]):
            assert set(kind) in ({"low", "high"}, {"values"})
    assert sum(map(len, ADULT_COLUMNS.values())) == 123


def test_a_split_is_by_user_and_reproducible():
    from simulations.studies.grouped_data.data import split, table

    divided = split("synthetic", None, 1)
    training, held_out = divided.training, divided.held_out
    assert not set(training.user) & set(held_out.user)
    assert len(set(held_out.user)) == 300 and len(divided.users) == 1200
    assert np.abs(training.features).max() <= 2 and np.abs(training.targets).max() <= 2
    split.cache_clear()
    assert (split("synthetic", None, 1).held_out.user == held_out.user).all()
    assert set(split("synthetic", None, 2).held_out.user) != set(held_out.user)
    whole = table("synthetic", None)
    alike = whole.declared.schema.users(whole.frame, groups=whole.user)
    chosen = np.unique(training.user)
    assert np.array_equal(alike.take(chosen).features.astype(np.float32), divided.users.features)
    assert np.array_equal(alike.take(chosen).targets, divided.users.targets)


def test_files_have_to_be_given():
    from simulations.studies.grouped_data.data import split

    with pytest.raises(FileNotFoundError, match="--data"):
        split("wine", None, 0)


def test_scores_are_of_held_out_rows_in_units():
    from simulations.studies.grouped_data.data import split
    from simulations.studies.grouped_data.methods import METHODS, NO_PRIVACY

    divided = split("synthetic", None, 3)
    own, other = divided.training, divided.held_out
    fit = LinearRegression().fit(own.features[:, 1:], own.frame["wage"])
    expected = fit.score(other.features[:, 1:], other.frame["wage"])
    score, outcome = METHODS[NO_PRIVACY](divided, math.inf, 0)
    assert score == pytest.approx(expected, abs=1e-3) and not outcome
    targets = (other.frame["wage"] - 40) / 20  # bounds 0 and 80
    level = np.linalg.lstsq(other.features, targets, rcond=None)[0]
    assert divided.score_of(level) >= expected - 1e-3
    assert abs(divided.constant) < 0.05


def test_a_cell_tells_median_worst_and_what_became_of_runs():
    from simulations.studies.grouped_data.methods import OURS
    from simulations.studies.grouped_data.report import cells, table

    def rows(data, epsilon, method, scores, outcome=""):
        return [(data, epsilon, method, i, 900, score, outcome) for i, score in enumerate(scores)]

    runs = pd.DataFrame(
        [
            *rows("wages", 1.0, OURS, [0.3, 0.2, -0.2]),
            *rows("wages", 2.0, OURS, [0.1, 0.1, 0.4], "warning"),
            *rows("wages", 1.0, "LdpIht", [0.0, 0.0, 0.3], "refused"),
            *rows("wages", 2.0, "LdpIht", [-0.2, 0.0, 0.3], "constant"),
            *rows("union", 1.0, OURS, [0.45, 0.7, 0.6]),
            *rows("wages", math.inf, "no privacy", [0.5]),
        ],
        columns=["data", "epsilon", "method", "seed", "users", "score", "outcome"],
    )
    found = cells(runs)
    assert str(found["wages", 1.0, OURS]) == ".20 (-.20) 1b"
    assert str(found["wages", 2.0, OURS]) == ".10 (.10)"  # a warning is a word
    assert str(found["wages", 1.0, "LdpIht"]) == "refused"
    assert str(found["wages", 2.0, "LdpIht"]) == ".00 (-.20) 3c"
    assert str(found["union", 1.0, OURS]) == ".60 (.45) 1b"
    made = table(runs)
    assert made.lines[0][:6] == ["wages", "R2", "900", "5", ".50", "1"]
    assert "2 were bad without a word" in made.explanation
    assert "wages from epsilon 1 to 2 (.20 to .10)" in made.explanation


def test_the_quick_sweep_goes_on_where_it_was_and_writes_table_and_figure(tmp_path, capsys):
    from simulations.studies.grouped_data.__main__ import main
    from simulations.studies.grouped_data.methods import OURS

    for methods in ([OURS], [OURS, "LocalDpMod", "no privacy"]):
        arguments = ["--quick", "--processes", "1", "--output", str(tmp_path)]
        main([*arguments, "--epsilons", "2", "8", "--methods", *methods])
    rows = list(csv.DictReader((tmp_path / "runs.csv").open()))
    assert len(rows) == 2 * (2 + 2 + 1)
    ours = [
        float(row["score"]) for row in rows if row["method"] == OURS and row["epsilon"] == "8.0"
    ]
    assert min(ours) > 0.4  # of .74 without privacy
    assert "| synthetic | R2 | 1,200 |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "grouped-data.png").stat().st_size > 10_000
    assert "LocalDpMod" in capsys.readouterr().out
