"""The command ``ldp-flower protocols``, which prints the cards of the protocols."""

from rich.padding import Padding
from rich.text import Text

from .console import AsJson, console, grid_of, print_json

_MARGIN = 2


def protocols(as_json: AsJson = False) -> None:
    """List the protocols with their guarantees, their costs, and when to use them."""
    from ..strategies.catalogue import PROTOCOLS

    if as_json:
        print_json(
            [
                {"name": name, "protects": protocol.protects, **vars(protocol.card)}
                for name, protocol in PROTOCOLS.items()
            ]
        )
        return
    for name, protocol in PROTOCOLS.items():
        card = protocol.card
        facts = {
            "estimates": card.question,
            "use it when": card.use_when,
            "does not work": card.fails_when,
            "protects": f"each {protocol.protects}: {card.guarantee}",
            "rounds": card.rounds,
            "bytes": card.report,
            "measured": f"docs/{card.page}.md",
        }
        console.print(Text(name, "bold"))
        console.print(Padding(grid_of(facts.items()), (0, 0, 1, _MARGIN), expand=False))
