"""What the docs state about code holds."""

import re
from pathlib import Path

import pytest

from ldp_flower import randomizers

DOCS = Path(__file__).parents[1] / "docs"


def test_the_accounting_example():
    example = re.search(r"```python\n(.*?)```", (DOCS / "accounting.md").read_text(), re.DOTALL)
    lines = example[1].strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines[:-1]), names)
    assert 1 < eval(lines[-1].split("#")[0], names) < 10


def test_the_heavy_hitters_example(capsys):
    example = re.search(r"```python\n(.*?)```", (DOCS / "heavy-hitters.md").read_text(), re.DOTALL)
    exec(example[1], {})
    assert capsys.readouterr().out.startswith("{'ATL': ")


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_every_mechanism_is_on_the_page():
    text = (DOCS / "randomizers.md").read_text("utf-8")
    classes = [
        name
        for name in randomizers.__all__
        if isinstance(getattr(randomizers, name), type)
        and issubclass(getattr(randomizers, name), randomizers.Randomizer)
    ]
    for name in set(classes) - {"Randomizer", "FrequencyOracle"}:
        assert f"`{name}`" in text, name
