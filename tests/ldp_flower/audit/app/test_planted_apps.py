"""Planted faults in apps, which the audit finds but for those that it gives up; honest apps."""

import sys
from pathlib import Path

import pytest
from faulty import FAULTY
from flowers_mods import FLOWER_FAULTY
from honest import HONEST
from own_data import OWN_DATA_FAULTY, OWN_DATA_HONEST
from strangers import written
from torch_apps import TORCH_FAULTY, TORCH_HONEST

from ldp_flower.audit.app import Options, audit_app

ALL_FAULTY = FAULTY | FLOWER_FAULTY | TORCH_FAULTY | OWN_DATA_FAULTY
ALL_HONEST = HONEST | TORCH_HONEST | OWN_DATA_HONEST
#: Not found, with the words of docs/accounting.md.
GIVEN_UP = {
    "noise_of_one_clip_not_two": "two or three times too small",
    "noise_for_one_mean_not_four": "two or three times too small",
    "private_records_of_too_little_noise": "slow training",
    "noise_in_whole_numbers_on_a_mean": "in steps between data whose difference is whole",
    "text_of_a_range_check": "whole numbers out of their range",
    "smallest_type_that_holds_all": "whole numbers out of their range",
    "a_text_with_noise_and_a_number": "beside noise in the same text",
    "an_array_as_bytes": "beside noise in the same text",
}
#: The others take minutes together.
FEW = ("fedavg", "noise_again_after_a_restart", "too_little_noise", "gaussian_1_round", "constants")


def audited(app, name, folder):
    kept, modules = list(sys.path), set(sys.modules)
    root, rows = written(app, name, folder)
    data = {"data-path": str(rows)} if rows else None
    options = Options(None, None, data, None, app.claim, app.delta, app.unit, app.seconds)
    try:
        return audit_app(root, options)
    finally:
        sys.path[:] = kept
        for module in set(sys.modules) - modules:
            if module.split(".")[0] == name:
                del sys.modules[module]


def few(names):
    return [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", few(n for n in ALL_FAULTY if n not in GIVEN_UP))
def test_a_planted_fault_is_found(name, tmp_path):
    assert audited(ALL_FAULTY[name], name, tmp_path).found


@pytest.mark.parametrize("name", few(GIVEN_UP))
def test_a_fault_that_the_page_gives_up_is_not_found(name, tmp_path):
    page = Path(__file__).parents[4] / "docs" / "accounting.md"
    assert GIVEN_UP[name] in " ".join(page.read_text("utf-8").split())
    assert not audited(ALL_FAULTY[name], name, tmp_path).found


@pytest.mark.parametrize("name", few(ALL_HONEST))
def test_nothing_is_found_in_an_honest_app(name, tmp_path):
    assert not audited(ALL_HONEST[name], name, tmp_path).found
