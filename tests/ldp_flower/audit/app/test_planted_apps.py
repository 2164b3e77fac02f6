"""Planted faults in strangers' apps, all of which the audit finds; honest apps, in which none."""

import sys

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
#: The others take minutes together.
FEW_FAULTY = ["fedavg", "noise_of_all_nodes_the_same"]
FEW_HONEST = ["gaussian", "constants_everywhere"]
FEW = {*FEW_FAULTY, *FEW_HONEST}


def audited(app, name, folder):
    kept, modules = list(sys.path), set(sys.modules)
    seconds = 2.0 if name in FEW else app.seconds  # of CPU, for the noise
    root, rows = written(app, name, folder)
    options = Options(sample=rows, claim=app.claim, delta=app.delta, unit=app.unit, seconds=seconds)
    try:
        return audit_app(root, options)
    finally:
        sys.path[:] = kept
        for module in set(sys.modules) - modules:
            if module.split(".")[0] == name:
                del sys.modules[module]


def few(table, names):
    return [pytest.param(n, marks=[] if n in names else pytest.mark.long) for n in table]


@pytest.mark.parametrize("name", few(ALL_FAULTY, FEW_FAULTY))
def test_a_planted_fault_is_found(name, tmp_path):
    assert audited(ALL_FAULTY[name], name, tmp_path).found


@pytest.mark.parametrize("name", few(ALL_HONEST, FEW_HONEST))
def test_nothing_is_found_in_an_honest_app(name, tmp_path):
    assert not audited(ALL_HONEST[name], name, tmp_path).found
