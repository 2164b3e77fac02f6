"""Pages hold what they are told and nothing else: no markup of its own, no other file."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from ldp_flower.presentation import charts
from ldp_flower.presentation.page import Markup, Section, element, fragment, listed, page, table_of

EVIL = '<script>alert("1")</script> & <!-- $x^{2}$ -->'
VOID = {"meta"}


class Elements(HTMLParser):
    """Collects elements, texts and attributes, and checks that tags match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.attributes = [], set(), [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def evil_page():
    with charts.style():
        axes = charts.detached_axes(2.0)
        charts.intervals(
            axes, [EVIL, "$\\frac", "数", "y" * 99], [1.0, 2.0, 3.0, np.nan], [0.1] * 4
        )
        axes.set_title(charts.label(EVIL))
    table = pd.DataFrame({EVIL: [EVIL, 1], "x": [0.5, np.nan]})
    parts = [EVIL, table_of(table), listed([EVIL]), charts.svg(axes, EVIL)]
    return page(EVIL, [Section(EVIL, parts), Section("empty", ["", listed([])])])


def test_whatever_is_told_stays_text():
    found = Elements(evil_page())
    assert "script" not in found.tags and "alert" in "".join(found.texts)
    assert found.texts.count(EVIL) == 7  # title, h1, h2, p, th, td, li
    assert "empty" not in found.texts


def test_a_page_needs_no_other_file():
    text = evil_page()
    found = Elements(text)
    assert not found.tags & {"script", "link", "img", "iframe", "image", "object"}
    for name, value in found.attributes:
        assert not name.startswith("on")
        if name in ("src", "href", "xlink:href"):
            assert value.startswith("#")
    assert not re.search(r"@import|url\((?!#)", text)


def test_the_same_page_is_the_same_text(tmp_path):
    text = evil_page()
    assert text == evil_page()
    assert page("t", [Section("h", ["told"])], tmp_path / "page.html") == (
        tmp_path / "page.html"
    ).read_text("utf-8")


def test_a_notebooks_part_has_the_same_sections_and_styles_nothing_else():
    sections = [Section("h", ["told"])]
    assert fragment("t", sections) in page("t", sections)
    style = re.search("<style>(.*?)</style>", fragment("t", sections), re.DOTALL)[1]
    rules = re.findall(r"([^{}]+)\{", style)
    assert rules
    assert all(part.strip().startswith(".ldp-flower") for rule in rules for part in rule.split(","))


def test_a_figure_takes_the_colour_of_the_text_around_it():
    with charts.style():
        axes = charts.detached_axes(2.0)
        axes.plot([0, 1], color=charts.GREEN)
    drawn = charts.svg(axes, "a line")
    assert charts.INK not in drawn and "currentColor" in drawn
    assert f"var(--green, {charts.GREEN})" in drawn
    assert 'aria-label="a line"' in drawn
    assert "background" not in drawn and drawn.count("<svg") == 1


def test_drawing_changes_no_settings_and_knows_no_pyplot():
    import matplotlib

    before = dict(matplotlib.rcParams)
    with charts.style():
        axes = charts.new_axes(2.0)
    assert dict(matplotlib.rcParams) == before
    from matplotlib import pyplot

    assert axes.figure not in map(pyplot.figure, pyplot.get_fignums())


def test_a_notebooks_backend_keeps_what_it_sets_during_the_first_figure():
    import matplotlib

    before = matplotlib.is_interactive()
    try:
        with charts.style():
            matplotlib.interactive(not before)
        assert matplotlib.is_interactive() != before
    finally:
        matplotlib.interactive(before)


def test_a_long_table_says_how_much_is_left_out():
    table = pd.DataFrame({"a": range(50)})
    text = table_of(table, 10)
    assert text.count("<td") == 10 and "and 40 rows more" in text
    assert "more" not in table_of(table, 50)


@pytest.mark.parametrize("name", ["a", "class_", "aria_label"])
def test_attributes_are_escaped(name):
    (found,) = Elements(element("p", Markup("<b>x</b>"), **{name: '"><i>'})).attributes
    assert found == (name.rstrip("_").replace("_", "-"), '"><i>')
