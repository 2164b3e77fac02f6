"""The tables of docs/wire-format.md: ``python -m simulations.wire_client.tables`` prints them."""

from collections.abc import Iterator
from dataclasses import fields

from ldp_flower import randomizers
from ldp_flower.questions import WIRE_TYPES, TransformedQuestion, slots
from ldp_flower.randomizers import Randomizer


def questions() -> Iterator[str]:
    """Yield the lines of the table of questions: each class once, with its links."""
    yield "| name | numbers (`param.`) | arrays |"
    yield "|---|---|---|"
    for name, form in WIRE_TYPES.items():
        if len(form.kinds) > 1 or form.link != "identity":
            continue
        (kind,) = form.kinds
        numbers = [_named(s.wire, s.required) for s in slots(kind) if s.per is None]
        arrays = [_named(s.wire, s.required) for s in slots(kind) if s.per is not None]
        links = "".join(f", `{link}_{name}`" for link in kind.links if link != "identity")
        cells = (f"`{name}`{links}", ", ".join(numbers), ", ".join(arrays))
        yield f"| {' | '.join(cells)} |"


def transformations() -> Iterator[str]:
    """Yield the lines of the table of transformations around questions."""
    yield "| begins with | numbers | arrays | around |"
    yield "|---|---|---|---|"
    for kind in _transformations():
        numbers = [_named(s.wire, s.required) for s in slots(kind) if s.per is None]
        arrays = [_named(s.wire, s.required) for s in slots(kind) if s.per is not None]
        inners = sorted({path[-1].stem for path in kind.inners})
        begins = f"`{kind.stem}`" + (f", ends with `{kind.suffix}`" if kind.suffix else "")
        around = ", ".join(f"`{inner}`" for inner in inners)
        cells = (begins, ", ".join(numbers), ", ".join(arrays), around)
        yield f"| {' | '.join(cells)} |"


def mechanisms() -> Iterator[str]:
    """Yield the lines of the table of mechanisms."""
    yield "| `randomizer.name` | its fields (`randomizer.`) |"
    yield "|---|---|"
    for name in sorted(randomizers.__all__):
        kind = getattr(randomizers, name)
        abstract = getattr(kind, "__abstractmethods__", ())
        if isinstance(kind, type) and issubclass(kind, Randomizer) and not abstract:
            given = [_named(f.name, True) for f in fields(kind) if f.init]
            yield f"| `{name}` | {', '.join(given)} |"


def _transformations() -> list[type[TransformedQuestion]]:
    found = {kind: None for form in WIRE_TYPES.values() for kind in form.kinds[:-1]}
    return [kind for kind in found if issubclass(kind, TransformedQuestion)]


def _named(name: str, required: bool) -> str:
    return f"`{name}`" if required else f"(`{name}`)"


TABLES = {"questions": questions, "transformations": transformations, "mechanisms": mechanisms}

if __name__ == "__main__":
    for name, lines in TABLES.items():
        print(f"<!-- {name} -->", *lines(), "<!-- end -->", sep="\n")
