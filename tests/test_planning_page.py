"""The page on plans, and its picture, say what the study's files hold."""

import runpy
from pathlib import Path

import numpy as np

from ldp_flower.strategies.catalogue import PROTOCOLS

DOCS = Path(__file__).parents[1] / "docs"
DRAWN = runpy.run_path(str(DOCS / "figures" / "planning.py"))


def test_the_table_is_that_of_the_files():
    begins, ends = "<!-- made by `python docs/figures/planning.py` -->\n\n", "\n\n<!-- end -->"
    page = (DOCS / "planning.md").read_text("utf-8")
    assert page.partition(begins)[2].partition(ends)[0].splitlines() == list(DRAWN["lines"]())
    named = page.partition(begins)[2]
    for family in DRAWN["FAMILIES"]:
        for protocol, (planned, measured) in DRAWN["runs"](family).items():
            if f"`{protocol}`" not in named:  # as the sentence after the table says
                assert DRAWN["near"](protocol, planned, measured, 2).all()


def test_every_protocol_with_a_plan_was_compared():
    """But RecordDpSgd, whose plan tells noise that a test of it draws."""
    compared = {name for family in DRAWN["FAMILIES"] for name in DRAWN["runs"](family)}
    planned = {name for name, kind in PROTOCOLS.items() if not kind.no_plan}
    assert compared == planned - {"RecordDpSgd"}, (
        "Expected runs of each protocol with a plan in simulations/studies/planning/, or no_plan "
        "on its class."
    )


def test_near_is_a_factor_either_way():
    planned, measured = np.array([1.0, 1.0, 1.0, 2.0]), np.array([1.2, 1.3, 0.79, 2.0])
    near = DRAWN["near"]("Means", planned, measured, 1.25)
    assert near.tolist() == [True, False, False, True]
