"""HTML pages with sections of text, tables and figures, in one file without dependencies.

Texts cannot become markup: everything that is not an element is escaped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from .words import by_error, numbers

if TYPE_CHECKING:
    from pandas import DataFrame

#: Columns of results: the error of the number before it, and the ends of its interval.
ERROR, USERS_ERROR = "standard error", "of these users"
INTERVAL = "95 % from", "95 % to"
_MOST_ROWS = 40

_STYLE = """
.ldp-flower { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; }
.ldp-flower h1 { font-size: 1.5em; line-height: 1.25; margin: 0 0 .3em; }
.ldp-flower h2 { font-size: 1.1em; margin: 1.6em 0 .4em; }
.ldp-flower p, .ldp-flower ul { margin: .4em 0; }
.ldp-flower .quiet { opacity: .7; }
.ldp-flower .wide { overflow-x: auto; }
.ldp-flower table { border-collapse: collapse; margin: .5em 0; font-variant-numeric: tabular-nums; }
.ldp-flower th, .ldp-flower td { padding: .2em .9em .2em 0; border: 0; background: none;
  border-bottom: 1px solid rgb(128 128 128 / .35); vertical-align: top; }
.ldp-flower .text { text-align: left; overflow-wrap: break-word; max-width: 24em; }
.ldp-flower td.text:first-child { min-width: 9em; }
.ldp-flower .number { text-align: right; white-space: nowrap; }
.ldp-flower th.number, .ldp-flower th { font-weight: 600; white-space: normal;
  vertical-align: bottom; }
.ldp-flower svg { display: block; max-width: 100%; height: auto; margin: .6em 0; }
"""
#: Colours of charts in dark mode, by the names in :data:`.charts.COLOURS`.
DARK = {
    "green": "#37cc83",
    "red": "#cb5321",
    "blue": "#7d88ff",
    "purple": "#936aa8",
    "yellow": "#cbd93b",
    "pink": "#feaeda",
}
PAPER = {"light": "#ffffff", "dark": "#14191f"}  # colours of the page
_PAGE_STYLE = f"""
:root {{ color-scheme: light dark; }}
body > small {{ opacity: .7; font-family: system-ui, sans-serif; }}
body {{ margin: 2rem auto; padding: 0 1.2rem; max-width: 60rem; color: #22313f;
  background: {PAPER["light"]}; }}
@media screen and (prefers-color-scheme: dark) {{
  body {{ color: #dfe4e8; background: {PAPER["dark"]};
    {" ".join(f"--{name}: {colour};" for name, colour in DARK.items())} }}
}}
@media print {{
  body {{ margin: 0; max-width: none; color: #000; background: #fff; }}
  .ldp-flower {{ font-size: 10pt; }}
  .ldp-flower .wide {{ overflow: visible; }}
  .ldp-flower tr, .ldp-flower svg {{ break-inside: avoid; }}
  .ldp-flower h2 {{ break-after: avoid; }}
  .ldp-flower details::details-content {{ content-visibility: visible; block-size: auto; }}
}}
"""


class Markup(str):
    """Text that is already HTML, so that :func:`element` does not escape it."""


def element(tag: str, *content: object, **attributes: str) -> Markup:
    """Return an element; attributes, and content that is not :class:`Markup`, are escaped."""
    # class_ and aria_label become class and aria-label.
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    opened = "".join(f' {name}="{escape(value)}"' for name, value in names.items())
    inner = "".join(c if isinstance(c, Markup) else escape(str(c), quote=False) for c in content)
    return Markup(f"<{tag}{opened}>{inner}</{tag}>")


def joined(*parts: Markup) -> Markup:
    """Return the elements one after the other, as one piece of markup."""
    return Markup("".join(parts))


def table_of(table: "DataFrame", most_rows: int = _MOST_ROWS) -> Markup:
    """Return the HTML of a table, with at most ``most_rows`` rows.

    If the table has a column :data:`ERROR`, the number before it, the error and the ends of the
    interval are shown to the second digit of the error. Other numbers have about four digits.
    """
    numeric = [kind.kind in "iuf" for kind in table.dtypes]
    sides = ["number" if right else "text" for right in numeric]

    def row(tag: str, cells: Iterable[object]) -> Markup:
        pairs = zip(cells, sides, strict=True)
        return element("tr", *(element(tag, cell, class_=side) for cell, side in pairs))

    shown = table.head(most_rows)
    names = shown.columns.tolist()
    errors = shown.iloc[:, names.index(ERROR)].tolist() if ERROR in names else []
    columns = [
        by_error(shown.iloc[:, i].tolist(), errors)
        if errors and (name in (ERROR, USERS_ERROR, *INTERVAL) or ERROR in names[i + 1 : i + 2])
        else numbers(shown.iloc[:, i].tolist())
        for i, name in enumerate(names)
    ]
    body = [row("td", cells) for cells in zip(*columns, strict=True)]
    made = element("table", element("thead", row("th", table.columns)), element("tbody", *body))
    parts = [element("div", made, class_="wide")]
    if (hidden := len(table) - len(shown)) > 0:
        parts.append(element("p", f"and {hidden:,} rows more", class_="quiet"))
    return joined(*parts)


@dataclass(frozen=True)
class Section:
    """Section of a page: a heading (empty for none) and its content.

    The content consists of elements and of texts. Each text becomes a paragraph.
    """

    heading: str
    content: Sequence[Markup | str]

    def markup(self) -> Markup:
        """Return the section as markup; it is empty if there is no content."""
        parts = [c if isinstance(c, Markup) else element("p", c) for c in self.content if c]
        heading = [element("h2", self.heading)] if self.heading else []
        return element("section", *heading, *parts) if parts else Markup()


def folded(summary: str, *content: Markup) -> Markup:
    """Return an element that shows its content if a reader opens it, or prints the page."""
    return element("details", element("summary", summary), *content)


def listed(texts: Sequence[str]) -> Markup:
    """Return a list element with the texts; it is empty if there are no texts."""
    return element("ul", *(element("li", text) for text in texts)) if texts else Markup()


def fragment(title: str, sections: Sequence[Section]) -> Markup:
    """Return sections for embedding in an existing page, such as a notebook."""
    style = joined(Markup(f"<style>{_STYLE}</style>"))
    parts = [section.markup() for section in sections]
    return joined(style, element("div", element("h1", title), *parts, class_="ldp-flower"))


def page(title: str, sections: Sequence[Section], path: str | Path | None = None) -> str:
    """Return sections as a page that needs no other file, and write it if a path is given.

    The page begins with the version of the library and today's date. It suits light and dark mode,
    screens of any width, and print.
    """
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        Markup(f"<style>{_PAGE_STYLE}</style>"),
    )
    made = element("small", f"ldp-flower {version('ldp-flower')}, {date.today().isoformat()}")
    body = element("body", made, fragment(title, sections))
    text = f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
    if path is not None:
        Path(path).write_text(text, "utf-8")
    return text
