"""The command ``ldp-flower protocols``: what the protocols' cards say."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .console import console

if TYPE_CHECKING:
    from ..strategies import LdpStrategy

_MARGIN = 2


def protocols(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/protocols.md instead.")
    ] = False,
) -> None:
    """List the protocols: what they guarantee and cost, when to use them and when not."""
    # With them come SciPy and scikit-learn, which other commands need not wait for.
    from ..strategies.catalogue import PROTOCOLS

    if markdown:
        for line in table():
            typer.echo(line)
        return
    for name, protocol in PROTOCOLS.items():
        console.print(Text(name, "bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for label, text in _facts(protocol):
            grid.add_row(label, Text(text))
        console.print(Padding(grid, (0, 0, 1, _MARGIN), expand=False))


def _facts(protocol: "type[LdpStrategy[Any]]") -> Iterator[tuple[str, str]]:
    card = protocol.card
    yield "estimates", card.question
    yield "use it when", card.use_when
    yield "does not work", card.fails_when
    yield "protects", _protected(protocol)
    yield "rounds", card.rounds
    yield "bytes", card.report
    yield "measured", f"docs/{card.page}.md"


def _protected(protocol: "type[LdpStrategy[Any]]") -> str:
    return f"each {protocol.protects}: {protocol.card.guarantee}"


def table() -> Iterator[str]:
    """Yield the lines of the table of docs/protocols.md."""
    from ..strategies.catalogue import PROTOCOLS

    head = ("protocol", "estimates", "protects", "rounds", "bytes", "use it when; *does not work*")
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for name, protocol in PROTOCOLS.items():
        card = protocol.card
        cells = (
            f"[`{name}`]({card.page}.md)",
            card.question,
            _protected(protocol),
            card.rounds,
            card.report,
            f"{card.use_when}; *{card.fails_when}*",
        )
        yield f"| {' | '.join(cells)} |"
