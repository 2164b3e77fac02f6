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
#: As docs/accounting.md says.
GIVEN_UP = {
    "noise_of_one_clip_not_two",
    "noise_for_one_mean_not_four",
    "noise_as_large_as_what_a_column_says",
    "private_records_of_too_little_noise",
    "private_records_of_people_with_thirty",
    "noise_in_whole_numbers_on_a_mean",
    "text_of_a_range_check",
    "smallest_type_that_holds_all",
    "a_text_with_noise_and_a_number",
    "an_array_as_bytes",
}
#: Ten seconds to minutes each, as the classifier needs many runs: by hand (``-m long``).
LONG = (
    *(
        "noise_that_three_rounds_take_back",
        "torch_too_little_noise",
        "noise_as_large_as_the_update",
    ),
    *("noise_of_the_sign_only", "noise_in_whole_numbers", "length_of_a_list"),
    *("accuracy_of_little_noise", "noise_that_sums_to_nothing", "uniform_noise"),
    *("answers_seldom_if_few", "torch_localdp_tiny_sensitivity", "localdp_20_rounds"),
)
LONG_HONEST = (
    *("our_user_update_mod", "private_records_of_this_library", "localdp_and_an_empty_evaluation"),
    *("localdp_10_rounds_clip_a_tenth", "laplace", "gaussian_of_few_coordinates", "gaussian"),
    *("randomised_signs", "gaussian_of_the_system", "noise_alone", "localdp_4_rounds"),
    *("our_user_level_mean", "gaussian_in_a_text", "gaussian_of_a_sample", "our_ldp_iht"),
    *("how_long_it_took", "histogram_of_records", "localdp_of_a_sample", "records_drawn_in_secret"),
    *("gaussian_and_public_facts", "gaussian_of_half_precision", "gaussian_of_four_bytes"),
    *("randomised_response_of_much_epsilon", "randomised_response_of_a_class", "torch_localdp"),
    *("the_time_in_seconds", "the_time_in_a_text", "legacy_client_of_enough_noise"),
    *("clipped_before_noise", "fixed_text_of_a_range_check", "whole_numbers_of_a_mean"),
)
#: The others but these take minutes together. What is wrong with these shows in few runs.
FEW = ("fedavg", "too_little_noise", "gaussian_1_round", "constants")
FEW_RUNS = 150


def audited(app, name, folder):
    kept, modules = list(sys.path), set(sys.modules)
    root, rows = written(app, name, folder)
    data = {"data-path": str(rows)} if rows else None
    claimed = {"claim": app.claim, "delta": app.delta, "unit": app.unit}
    runs = FEW_RUNS if name in FEW else app.runs
    options = Options(node_config=data, runs=runs, **claimed)
    try:
        return audit_app(root, options)
    finally:
        sys.path[:] = kept
        for module in set(sys.modules) - modules:
            if module.split(".")[0] == name:
                del sys.modules[module]


def few(names):
    marks = {**dict.fromkeys(FEW, ()), **dict.fromkeys(LONG + LONG_HONEST, pytest.mark.long)}
    return [pytest.param(name, marks=marks.get(name, pytest.mark.slow)) for name in names]


@pytest.mark.parametrize("name", few(n for n in ALL_FAULTY if n not in GIVEN_UP))
def test_a_planted_fault_is_found(name, tmp_path):
    assert audited(ALL_FAULTY[name], name, tmp_path).found


def test_the_page_names_what_is_given_up_and_counts_the_others():
    page = (Path(__file__).parents[4] / "docs" / "accounting.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in GIVEN_UP) and set(ALL_FAULTY) >= GIVEN_UP
    assert f"Of {len(ALL_FAULTY)} planted faults" in page
    assert f"it finds {len(ALL_FAULTY) - len(GIVEN_UP)}, " in page
    assert f"nothing in {len(ALL_HONEST)} honest ones" in page


@pytest.mark.parametrize("name", few(ALL_HONEST))
def test_nothing_is_found_in_an_honest_app(name, tmp_path):
    assert not audited(ALL_HONEST[name], name, tmp_path).found
