"""Old names of modules work for one version, with a warning that says the new one."""

import importlib

import pytest


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("guarantee.questions", "questions", "Mean"),
        ("iht", "questions.sparse", "keep_largest"),
        ("schema", "data.schema", "Schema"),
        ("sweep", "compare.sweep", "sweep"),
    ],
)
def test_an_old_name_gives_the_same_thing_and_warns(old, new, name):
    module = importlib.import_module(f"ldp_flower.{old}")
    with pytest.warns(DeprecationWarning, match=f"{old} is now ldp_flower.{new}\\."):
        found = getattr(module, name)
    assert found is getattr(importlib.import_module(f"ldp_flower.{new}"), name)
    with pytest.warns(DeprecationWarning), pytest.raises(AttributeError):
        module.unknown  # noqa: B018
