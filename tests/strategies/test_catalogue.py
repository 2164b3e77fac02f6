"""Every public protocol carries a card and runs for the audit, and every list is made of them."""

import ast
import re
from pathlib import Path

import pytest

from ldp_flower import strategies
from ldp_flower.strategies.catalogue import PROTOCOLS

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d*\.\d+|\d[\d,]*\d|\d")
each = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)


def test_the_catalogue_has_every_public_strategy():
    """So one that lacks its line in ``strategies/__init__.py`` is found here."""
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "strategies").rglob("*.py")]
    named = {
        kind.name
        for tree in trees
        for kind in tree.body
        if isinstance(kind, ast.ClassDef)
        for each in kind.body
        if isinstance(each, ast.Assign | ast.AnnAssign) and each.value
        if ast.unparse(each).startswith(("card = ", "card: "))
    }
    assert named == set(PROTOCOLS) and len(named) > 20
    assert all(getattr(strategies, name) is protocol for name, protocol in PROTOCOLS.items())


def test_families_stay_together():
    families = [protocol.__module__.split(".")[-2] for protocol in PROTOCOLS.values()]
    runs = [a for a, b in zip(families, [*families[1:], None], strict=True) if a != b]
    assert len(runs) == len(set(families))


@each
def test_a_protocol_has_a_card_of_its_own(protocol):
    assert "card" in vars(protocol)
    for name, text in vars(protocol.card).items():
        assert text and text == text.strip() and "|" not in text and not text.endswith("."), name
    assert len(protocol.card.question) < 70


@each
def test_a_protocol_names_runs_of_its_own_for_the_audit(protocol):
    """But those whose clients take other messages: test_update_mod, test_network_records."""
    if protocol.__name__ == "RecordDpSgd":
        return
    runs = list(protocol.audit_runs(4, 2.0))
    assert {type(strategy) for strategy, _ in runs} == (
        set() if protocol.__name__ == "LdpFedAvg" else {protocol}
    )
    assert all(strategy.epsilon == 2.0 for strategy, _ in runs)


@each
def test_the_page_of_a_card_has_the_protocol_and_the_numbers_of_where_it_fails(protocol):
    page = (ROOT / "docs" / f"{protocol.card.page}.md").read_text("utf-8")
    assert re.search(rf"\b{protocol.__name__}\b", page), (
        f"Expected the name {protocol.__name__} on docs/{protocol.card.page}.md, its card's page."
    )
    numbers = NUMBER.findall(protocol.card.fails_when)
    assert numbers, "fails_when needs a number that stands on the page of the card, too"
    missing = [number for number in numbers if number not in page]
    assert not missing, f"Expected {missing} of fails_when on docs/{protocol.card.page}.md."


def test_the_table_of_the_docs_is_made_of_the_cards():
    text = (ROOT / "docs" / "protocols.md").read_text("utf-8")
    begins, ends = "<!-- made by `tests/strategies/test_catalogue.py` -->\n\n", "\n\n<!-- end -->"
    assert text.partition(begins)[2].partition(ends)[0].splitlines() == list(table())


_USUALLY = "each user: pure epsilon"  # as the page says above the table


def table():
    """Yield the lines of the table: what this test shows as missing goes into the page."""
    head = ("protocol", "estimates", "protects", "rounds", "bytes", "use it when; *does not work*")
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for name, protocol in PROTOCOLS.items():
        card = protocol.card
        protects = f"each {protocol.protects}: {card.guarantee}"
        cells = (
            f"[`{name}`]({card.page}.md)",
            card.question,
            "" if protects == _USUALLY else protects,
            card.rounds,
            card.report,
            f"{card.use_when}; *{card.fails_when}*",
        )
        yield f"| {' | '.join(cells)} |"


def test_a_family_that_is_not_named_comes_last():
    new = type("Anew", (), {"__module__": "ldp_flower.strategies.anew.anew"})
    place = strategies.catalogue._place
    assert sorted([new, *PROTOCOLS.values()], key=place)[-1] is new
