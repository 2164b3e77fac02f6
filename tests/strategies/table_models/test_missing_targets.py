"""People without a target: they answer like all others, and do not count as typical."""

import numpy as np
import pandas as pd
import pytest

from ldp_flower import Categories, Numeric, Schema, simulate
from ldp_flower.strategies import PrivateClassification, PrivateRegression

COLUMNS = {f"x{place}": Numeric(-1, 1) for place in range(3)}


def table(target, missing, seed):
    """Return people of one row each, of whom some have no target."""
    rng, people = np.random.default_rng(seed), 20_000 if target == "number" else 6000
    rows = pd.DataFrame({name: rng.uniform(-1, 1, people) for name in COLUMNS})
    score = 2 * rows.x0 - 1.5 * rows.x1 + rng.normal(0, 1, people)
    rows["y"] = score if target == "number" else np.where(score > 0.5, "yes", "no")
    rows["y"] = rows.y.astype(object).where(rng.random(people) >= missing, None)
    if target == "number":
        rows["y"] = rows.y.astype(float)
    return rows


def fit(target, missing, seed=0):
    bounds = Numeric(-12, 6) if target == "number" else Categories(["no", "yes"])
    protocol = PrivateRegression if target == "number" else PrivateClassification
    schema = Schema(COLUMNS, "y", bounds)
    users = schema.users(table(target, missing, seed))
    return simulate(protocol(schema, epsilon=8.0), users, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["number", "class"])
def test_many_missing_targets_are_said_and_do_not_flatter_the_score(target):
    """The truth is an R2 of .68 and an AUC of .92; five standard errors are never left."""
    whole, half = fit(target, 0.0), fit(target, 0.5)
    assert not [note for note in whole.notes if "no row with a target" in note]
    (said,) = (note for note in half.notes if "no row with a target" in note)
    assert 35 <= int(said.split()[1]) <= 65
    truth = 0.68 if target == "number" else 0.92
    for found in (whole, half):
        assert found.score_std_error < 0.5
        assert abs(found.score - truth) < 5 * found.score_std_error
    if target == "number":  # the level is theirs who have a target: 0, and the middle is -3
        assert abs(half.predict(table(target, 0, 1)).mean()) < 1
