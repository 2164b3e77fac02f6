"""What the commands share: the terminal, and how they fail."""

from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

#: Exit codes.
FAILED, USAGE = 1, 2

console = Console(highlight=False)
errors = Console(highlight=False, stderr=True)
for each in (console, errors):
    # On a terminal lines end between words; a file or a pipe gets them whole.
    each.soft_wrap = not each.is_terminal


def fail(message: str, code: int) -> NoReturn:
    """Print what went wrong and end the command with an exit code."""
    errors.print(Text.assemble(("Error: ", "bold red"), message))
    raise typer.Exit(code)
