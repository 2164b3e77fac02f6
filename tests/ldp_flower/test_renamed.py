"""Old names work for one version, with a warning that says the new one."""

import importlib
import warnings

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
    with pytest.warns(DeprecationWarning, match=f"{old}.{name} is now ldp_flower.{new}.{name}\\."):
        found = getattr(module, name)
    assert found is getattr(importlib.import_module(f"ldp_flower.{new}"), name)
    with pytest.warns(DeprecationWarning), pytest.raises(AttributeError):
        module.unknown  # noqa: B018


@pytest.mark.parametrize("name", ["dp_fedavg", "local_dp_mod", "local_dp_multiplier"])
def test_names_that_left_a_module_give_the_same_thing_and_warn(name):
    accounting = importlib.import_module("ldp_flower.accounting")
    text = f"accounting.{name} is now ldp_flower.compare.{name}\\."
    with pytest.warns(DeprecationWarning, match=text):
        found = getattr(accounting, name)
    assert found is getattr(importlib.import_module("ldp_flower.compare"), name)
    with warnings.catch_warnings(), pytest.raises(AttributeError, match=r"accounting.*unknown"):
        warnings.simplefilter("error")
        accounting.unknown  # noqa: B018
