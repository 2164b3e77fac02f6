"""A wrong kind of argument is refused by our own error, which names the argument and the value."""

import numpy as np
import pandas as pd
import pytest

from ldp_flower import Categories, Numeric, Schema, strategies

SCHEMA = Schema(
    {
        "x": Numeric(0, 1),
        "z": Numeric(0, 2),
        "sort": Categories([*"abc"]),
        "flag": Categories([0, 1]),
    }
)
RIGHT = {
    "Means": {"columns": "x", "by": "sort"},
    "Counts": {"column": "sort"},
    "TwoWay": {"row": "x", "column": "sort", "cells": 4},
    "Quantiles": {"column": "x", "levels": [0.5], "by": "sort"},
    "Distribution": {"column": "x", "by": "sort"},
    "Difference": {
        "column": "x",
        "by": "flag",
        "assigned": True,
        "allocation": 0.5,
        "window": True,
    },
    "Correlation": {"columns": ["x", "z"], "noise": "node", "delta": 1e-6},
    "Synthesize": {"columns": ["x", "z"]},
    "Describe": {"columns": ["x", "z"]},
    "HeavyHitters": {
        "domain_size": 64,
        "set_size": 1,
        "item": "random",
        "max_items": 64,
        "cutoff": "any",
        "false_alarm": 0.01,
        "backend": "auto",
    },
}
EVERYWHERE = ["epsilon", "min_reports", "noise", "delta", "honest"]
WRONG = {
    "list": ["nowhere"],
    "text": "nowhere",
    "empty text": "",
    "int": -3,
    "float": -1.5,
    "none": None,
    "frame": pd.DataFrame({"x": [1.0, 2.0]}),
    "array": np.array(["x", "nowhere"]),
    "empty": [],
    "twice": ["x", "x"],
    "lists": [["x"], ["z"]],
    "dict": {"x": 1, "z": 2},
    "numbers": [1, 2],
    "nones": [None, None],
    "set": {"x", "z"},
    "bytes": b"x",
    "generator": (name for name in "xz"),
}
#: What an argument allows although it is of another kind: by default, or in place of it.
ALLOWED = {
    ("by", "none"),
    ("columns", "none"),
    ("cells", "none"),
    ("honest", "none"),
    ("false_alarm", "none"),
}
NOT_ALLOWED = {("Means", "columns"), ("Difference", "by")}  # these have no default


@pytest.mark.parametrize("name", RIGHT)
def test_wrong_kinds_are_refused_by_our_own_errors(name):
    right = {"epsilon": 1.0, **RIGHT[name]}
    if name != "HeavyHitters":
        right["schema"] = SCHEMA
    kind = getattr(strategies, name)
    kind(**right)
    for argument in dict.fromkeys([*right, *EVERYWHERE]):
        for wrong, value in WRONG.items():
            if (argument, wrong) in ALLOWED and (name, argument) not in NOT_ALLOWED:
                kind(**{**right, argument: value})
                continue
            with pytest.raises((ValueError, TypeError)) as error:
                kind(**{**right, argument: value})
            text = str(error.value)
            assert text.startswith("Expected"), (argument, wrong, text)
            assert argument in text and "got" in text, (argument, wrong, text)


@pytest.mark.parametrize(
    "columns",
    [("x", "z"), np.array(["x", "z"]), pd.Index(["x", "z"]), pd.Series(["x", "z"])],
    ids=str,
)
def test_columns_are_named_by_any_sequence_of_texts(columns):
    assert strategies.Means(SCHEMA, columns, epsilon=1.0)._names == ["x", "z"]
    assert strategies.Correlation(SCHEMA, columns, epsilon=1.0)._columns == ["x", "z"]
