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
#: Here what is wrong, or right, shows in few runs.
FEW = {"fedavg", "too_little_noise", "gaussian_1_round", "constants"}
#: One of a kind: what shows in metrics, forms, texts, clocks, other handlers, rare records or the
#: last bits; noise that is known or kept; other libraries. All others take more than
#: half an hour, and are run by hand (``-m long``).
SLOW = {
    *("train_loss", "order_of_keys", "text_of_an_exception", "time_to_live", "query"),
    *("one_label_only", "last_bits", "noise_again_after_a_restart", "noise_seeded_by_the_message"),
    *("state_of_the_round_before", "torch_fedavg", "legacy_client"),
}
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


def marked(names):
    kinds = {**dict.fromkeys(SLOW, pytest.mark.slow), **dict.fromkeys(FEW, ())}
    return [pytest.param(name, marks=kinds.get(name, pytest.mark.long)) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", marked(n for n in ALL_FAULTY if n not in GIVEN_UP))
def test_a_planted_fault_is_found(name, tmp_path):
    assert audited(ALL_FAULTY[name], name, tmp_path).found


def test_the_page_names_what_is_given_up_and_counts_the_others():
    assert {*ALL_FAULTY, *ALL_HONEST} >= FEW | SLOW
    page = (Path(__file__).parents[4] / "docs" / "accounting.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in GIVEN_UP) and set(ALL_FAULTY) >= GIVEN_UP
    assert f"Of {len(ALL_FAULTY)} planted faults" in page
    assert f"it finds {len(ALL_FAULTY) - len(GIVEN_UP)}, " in page
    assert f"nothing in {len(ALL_HONEST)} honest ones" in page


@pytest.mark.parametrize("name", marked(ALL_HONEST))
def test_nothing_is_found_in_an_honest_app(name, tmp_path):
    assert not audited(ALL_HONEST[name], name, tmp_path).found
