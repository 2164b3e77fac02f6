"""What the commands share: the terminal, and how they fail."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
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


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Return an error about arguments of a function, of the form "Expected ...", in options.

    Parameters
    ----------
    text : str
        The error.
    options : mapping of str to str
        Arguments, each with its option.
    """
    if not text.startswith("Expected "):
        return text
    names = "|".join(options)
    named = re.sub(rf"(?<![\w-])(?:{names})\b(?!-)", lambda found: options[found[0]], text)
    return re.sub(r"got None\b", "got none", named)


def unknown(name: str, few: Iterable[str], known: Iterable[str]) -> str:
    """Return what to say of a protocol that there is none of: first what may have been meant.

    Parameters
    ----------
    name : str
        What was asked for.
    few : iterable of str
        Short names, which are listed.
    known : iterable of str
        All other names, which are in the list of protocols.
    """
    few, plain = list(few), {each.lower(): each for each in [*few, *known]}
    near = [plain[each] for each in get_close_matches(name.lower(), plain, 3, 0.6)]
    hints = [f"Did you mean {' or '.join(near)}?"] if near else []
    hints += [f"Questions: {', '.join(few)}."] if few else []
    hints += ["All protocols: `ldp-flower protocols`."]
    return f"There is no {name!r}. {' '.join(hints)}"


def fail(message: str, code: int) -> NoReturn:
    """Print what went wrong and end the command with an exit code."""
    errors.print(Text.assemble(("Error: ", "bold red"), message))
    raise typer.Exit(code)
