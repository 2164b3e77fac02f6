"""What the commands share: the terminal, and how they fail."""

from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

#: Exit codes.
FAILED, USAGE = 1, 2

console = Console(highlight=False, soft_wrap=True)
errors = Console(highlight=False, soft_wrap=True, stderr=True)


def fail(message: str, code: int) -> NoReturn:
    """Print what went wrong and end the command with an exit code."""
    errors.print(Text.assemble(("Error: ", "bold red"), message))
    raise typer.Exit(code)
