"""HTML in which no text can become markup: whatever is no element is escaped."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from .words import numbers

if TYPE_CHECKING:
    from pandas import DataFrame

_MOST_ROWS = 40


class Markup(str):
    """Text that is HTML already."""


def element(tag: str, *content: object, **attributes: str) -> Markup:
    """Return an element; content that is no :class:`Markup` is escaped, as attributes are."""
    # class_ and aria_label become class and aria-label.
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    opened = "".join(f' {name}="{escape(value)}"' for name, value in names.items())
    inner = "".join(c if isinstance(c, Markup) else escape(str(c), quote=False) for c in content)
    return Markup(f"<{tag}{opened}>{inner}</{tag}>")


def joined(*parts: Markup) -> Markup:
    """Return elements one after the other."""
    return Markup("".join(parts))


def table_of(table: "DataFrame", most_rows: int = _MOST_ROWS) -> Markup:
    """Return a table, numbers in some four digits, with at most so many of its rows."""
    numeric = [kind.kind in "iuf" for kind in table.dtypes]
    sides = ["number" if right else "text" for right in numeric]

    def row(tag: str, cells: Iterable[object]) -> Markup:
        pairs = zip(cells, sides, strict=True)
        return element("tr", *(element(tag, cell, class_=side) for cell, side in pairs))

    shown = table.head(most_rows)
    columns = [numbers(shown.iloc[:, i].tolist()) for i in range(shown.shape[1])]
    body = [row("td", cells) for cells in zip(*columns, strict=True)]
    made = element("table", element("thead", row("th", table.columns)), element("tbody", *body))
    parts = [element("div", made, class_="wide")]
    if (hidden := len(table) - len(shown)) > 0:
        parts.append(element("p", f"and {hidden:,} rows more", class_="quiet"))
    return joined(*parts)
