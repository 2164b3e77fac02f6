"""Shared code of the commands: output, ``KEY=VALUE`` options, errors and their exit codes."""

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

Scalar = bool | int | float | str

#: Exit codes; ``REFUSED`` is a plan's answer that the run would be refused.
FAILED, USAGE, REFUSED, INTERRUPTED = 1, 2, 3, 130


def option(help: str, *names: str, default: str | None = None, **settings: Any) -> Any:
    """Declare an option of a command: its help, its names, and the limits of its value.

    Without ``names``, typer makes the name from the parameter's. ``default`` is the text that the
    help shows for the default, in place of the value.
    """
    return typer.Option(*names, help=help, show_default=default or True, **settings)


#: Settings of a Flower app that an option overrides.
AppSettings = Annotated[
    list[str] | None,
    option("Value for a setting of the app; repeatable.", "-c", "--config", metavar="KEY=VALUE"),
]
#: Output for programs; docs/command-line.md documents its keys.
AsJson = Annotated[bool, option("Print the result as JSON.", "--json")]

console = Console(highlight=False)
errors = Console(highlight=False, stderr=True)
for each in (console, errors):
    # On a terminal, lines are wrapped between words. In a file or a pipe, they are not wrapped.
    each.soft_wrap = not each.is_terminal


def command_group(purpose: str) -> typer.Typer:
    """Return a group without commands yet; ``purpose`` is the first sentence of its help."""
    # Typer need not suggest a command for a misspelt one, since click does.
    return typer.Typer(help=purpose, no_args_is_help=True, suggest_commands=False)


def pair(text: str, form: str = "KEY=VALUE") -> tuple[str, str]:
    """Return key and value of an option's text; raise ValueError if it is not of this ``form``."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"Expected {form}, got {text!r}.")
    return key, value


def scalar(text: str) -> Any:
    """Return the text parsed as a TOML value, or the text itself if it is not a TOML value."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def override(declared: Mapping[str, Scalar], key: str, text: str) -> Scalar:
    """Return the value of a setting from ``text``, in the type of the setting's default.

    Raises ValueError if the app does not declare the setting, or if the type differs. Flower
    refuses settings that the app does not declare, but does not check types.
    """
    if key not in declared:
        known = ", ".join(sorted(declared)) or "none"
        raise ValueError(
            f"The app has no setting {key!r}. Its settings ([tool.flwr.app.config] in "
            f"pyproject.toml): {known}."
        )
    value: Scalar = scalar(text)
    default = declared[key]
    if isinstance(default, str) and not isinstance(value, str):
        return text
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise ValueError(f"Expected {type(default).__name__} for {key!r}, got {text!r}.")
    return value


def overrides(declared: Mapping[str, Scalar], texts: Iterable[str]) -> dict[str, Scalar]:
    """Return settings from texts ``KEY=VALUE``, with values in the declared defaults' types."""
    return {key: override(declared, key, value) for key, value in map(pair, texts)}


def unknown(name: str, few: Iterable[str], known: Iterable[str]) -> str:
    """Return an error text for an unknown protocol, which suggests similar names.

    The text lists the ``few`` names in full, and refers to the list of protocols for the others.
    """
    few, plain = list(few), {each.lower(): each for each in [*few, *known]}
    near = [plain[each] for each in get_close_matches(name.lower(), plain, 3, 0.6)]
    hints = [f"Did you mean {' or '.join(near)}?"] if near else []
    hints += [f"Questions: {', '.join(few)}."] if few else []
    hints += ["All protocols: `ldp-flower protocols`."]
    return f"There is no {name!r}. {' '.join(hints)}"


def numeric(*heads: str) -> list[Column]:
    """Return columns of numbers for a table, by their heads; they are aligned at the right."""
    return [Column(head, justify="right") for head in heads]


def grid_of(facts: Iterable[tuple[str, str]]) -> Table:
    """Return facts, pairs of a label and a text, as a table without lines for the terminal."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, text in facts:
        grid.add_row(label, Text(text))
    return grid


def print_json(document: object) -> None:
    """Print a document as JSON, where NaN is null and an infinite number is ``"infinite"``."""
    typer.echo(json.dumps(_finite(document), indent=2, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "infinite"
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


@contextmanager
def failing(*errors: type[Exception], code: int = USAGE) -> Iterator[None]:
    """Print an error of these types that is raised in this context, and end with ``code``."""
    try:
        yield
    except errors as error:
        fail(str(error), code)


def fail(message: str, code: int) -> NoReturn:
    """Print an error for the user of a command, and end the command with an exit code."""
    errors.print(Text.assemble(("Error: ", "bold red"), message))
    raise typer.Exit(code)
