"""The docs as one reads them: how pages open, and what the site is made of."""

import ast
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
ASIDE = {"repository", "upstream"}  # copies that a build makes; drafts for other projects
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if not ASIDE & {*page.parts})
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_opens_with_what_it_answers(page):
    """But the first page, which is README's."""
    if page.name == "index.md":
        assert page.read_text("utf-8").startswith("<!-- README.md -->")
    else:
        title, opening = page.read_text("utf-8").split("\n\n")[:2]
        assert title.startswith("# ") and "?" in opening, opening


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: page.stem)
def test_every_page_is_in_the_index(page):
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
    assert name == "index" or re.search(rf"^{name}$", index, re.MULTILINE)


def test_no_line_is_a_comment_to_the_site():
    """A line that begins with a percent sign is left out of a page, in the middle of a sentence."""
    for page in [*PAGES, *(ROOT / "simulations").rglob("*.md")]:
        assert not re.search(r"^ {0,3}%", page.read_text("utf-8"), re.MULTILINE), page


def test_words_of_the_search_are_of_pages():
    conf = (ROOT / "docs" / "conf.py").read_text("utf-8")
    found = {
        target.id: each.value
        for each in ast.parse(conf).body
        if isinstance(each, ast.Assign)
        for target in each.targets
    }
    searched = ast.literal_eval(found["SEARCHED"])
    assert searched.keys() <= {page.stem for page in PAGES}
    words = [word.strip() for each in searched.values() for word in each.split(";")]
    assert len(words) == len(set(words))
    assert {"federated analytics", "private mean", "how many users", "pandas"} <= {*words}


def test_the_table_of_epsilons_is_that_of_the_formulas():
    drawn = runpy.run_path(str(ROOT / "docs" / "figures" / "concepts.py"))
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    for epsilon in drawn["EPSILONS"]:
        odds = np.exp(epsilon)
        sure = [f"{100 * drawn['believed'](prior, epsilon):.1f} %" for prior in (0.1, 0.5)]
        users = f"{(drawn['share_error'](epsilon, 1) / 0.01) ** 2:,.0f}"
        often = f"{odds:.1f}" if odds < 100 else f"{odds:,.0f}"
        assert f"| {epsilon:g} | {often} | {' | '.join(sure)} | {users} |\n" in page
