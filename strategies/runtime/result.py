"""Result of a protocol: the estimate, counts of answers by step, and each user's privacy cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import flwr.serverapp.strategy as flower
import numpy as np
from numpy.typing import NDArray

from ldp_flower.data.schema import Schema
from ldp_flower.presentation import charts, page
from ldp_flower.validation import Floats

from .facts import PrivacySpent, Step
from .plain import made, to_plain
from .result_page import answered, asked, guarantee_of, sentences_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

# Half-widths of central intervals of a normal distribution, in standard errors.
HALF_WIDTH_95, HALF_WIDTH_80 = 1.959964, 1.2816


def frame(columns: Mapping[str, object]) -> "DataFrame":
    """Return columns, by name, as a DataFrame.

    Pandas is imported only when this is called, since it takes long.
    """
    from pandas import DataFrame

    return DataFrame(columns)


def first_of(lines: Sequence[str], most: int) -> list[str]:
    """Return the first ``most`` lines, and a line that says how many more there are, if any."""
    more = len(lines) - most
    return [*lines[:most], *([f"  and {more} more"] if more > 0 else [])]


def interval(values: Floats, std_errors: Floats) -> dict[str, Floats]:
    """Return the ends of 95 % intervals as two columns of a table, by name."""
    reach = HALF_WIDTH_95 * std_errors
    return dict(zip(page.INTERVAL, (values - reach, values + reach), strict=True))


class Estimates(NamedTuple):
    """Named estimates, each with its standard error for the population.

    ``users_std_errors`` are those among the users who were asked. A series needs them if it asks
    the same users each time, with noise at the node.
    """

    names: list[str]
    values: Floats
    std_errors: Floats
    users_std_errors: Floats | None = None


@dataclass(repr=False, kw_only=True)
class Result(flower.Result):
    """A Flower ``Result`` with the facts of its run; subclasses add the estimate.

    :meth:`to_dict` returns the fields of a subclass. They may be numbers, texts, NumPy arrays of
    numbers, Flower's records, a schema, dataclasses, and lists, tuples and mappings of these. A
    subclass implements :meth:`table` and ``_draw(axes)``, and returns in ``_findings`` the first
    lines of its representation.

    Attributes
    ----------
    strategy, question : str
        Name of the strategy, and the quantity that it estimates.
    schema : Schema, optional
        Public facts about the users' tables, if the strategy was given them.
    privacy : PrivacySpent
        Largest privacy cost of a user.
    num_users : int
        Number of users in the census.
    num_reports : int
        Number of reports that were used.
    no_budget : int
        Number of users who were asked and could not afford the report: what is left of their
        budget, or of the study's, is smaller than its cost.
    ended_early : bool
        True if the run ended before its last step for lack of answers; the notes say why.
    steps : list of Step
        For each step, the number of users asked and of reports.
    notes : list of str
        Caveats for users of the estimate.
    """

    #: Properties that :meth:`to_dict` returns in addition to the fields.
    _derived: ClassVar[tuple[str, ...]] = ()
    #: True if the result concerns the schema's target; a page then names the target.
    _predicts: ClassVar[bool] = False
    #: Kind of respondents: users, after a census, or silos.
    _answerers: ClassVar[str] = "users"

    strategy: str = ""
    question: str = ""
    schema: Schema | None = None
    privacy: PrivacySpent | None = None
    num_users: int = 0
    num_reports: int = 0
    no_budget: int = 0
    ended_early: bool = False
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def table(self) -> "DataFrame":
        """Return the estimate as a table; by default the numbers or the arrays of the result.

        Returns
        -------
        DataFrame
            The first columns are names, the others numbers in the units that the names state.
        """
        if own := self._own_numbers():
            return frame({"name": list(own), "value": list(own.values())})
        arrays = {name: array.numpy() for name, array in self.arrays.items()}
        return frame(
            {
                "array": list(arrays),
                "shape": [" x ".join(map(str, each.shape)) for each in arrays.values()],
                "numbers": [each.size for each in arrays.values()],
                "root mean square": [_root_mean_square(each) for each in arrays.values()],
            }
        )

    def estimates(self) -> Estimates:
        """Return the estimates that a series of collections tracks, with their standard errors.

        Raises
        ------
        NotImplementedError
            If the class has no such estimates.
        """
        raise NotImplementedError(f"{type(self).__name__} has no estimates to follow.")

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the estimate.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            Axes to draw on; by default those of a new figure, ``plot().figure``. No window opens.
        """
        return charts.drawn(self._draw, self._height, axes)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a page for a reviewer, and write it if a path is given.

        The page states the question, the guarantee in words, the result with its figure, the notes
        and the counts of answers. It needs no other file, supports light and dark mode, and can be
        printed.
        """
        return page.page(self._title(), self._sections(), path)

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        return page.fragment(self._title(), self._sections())

    def _title(self) -> str:
        """Return the question, capitalised, or the class's name if there is no question."""
        question = self.question or type(self).__name__
        return question[:1].upper() + question[1:]

    def _sections(self) -> list[page.Section]:
        """Return the sections of the page, in reading order."""
        tables = self._tables()
        target = self.schema.target if self.schema is not None and self._predicts else None
        drawn = charts.picture(self._draw, self._height, self._title())
        counts = self.num_reports, self.num_users, self.no_budget
        return [
            page.Section("", [asked(self.strategy, target, self.privacy), *self._headline()]),
            page.Section("Result", [*map(page.table_of, tables), *sentences_on(tables[0]), drawn]),
            page.Section("Notes", [page.listed(self.notes)] if self.notes else []),
            page.Section("What is protected", [*guarantee_of(self.privacy), *self._statement()]),
            page.Section("Who answered", answered(self._answerers, *counts, self.steps)),
        ]

    @property
    def _height(self) -> float:
        """Height in inches of a figure with this result alone."""
        return 3.6

    def _draw(self, axes: "Axes") -> None:
        table = Result.table(self)
        names, values = table.columns[0], table.columns[-1]
        axes.barh(list(map(charts.label, table[names])), table[values], color=charts.BLUE)
        axes.invert_yaxis()
        axes.set_xlabel(values)

    def _own_numbers(self) -> dict[str, float]:
        """Return a result's numeric fields by name, or none if the result has arrays."""
        if len(self.arrays):
            return {}
        known = {each.name for each in fields(Result)}
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in known}
        return {name: value for name, value in own.items() if isinstance(value, int | float)}

    def _tables(self) -> "list[DataFrame]":
        """Return the tables of a page, the most important one first."""
        return [self._shown(self.table())]

    def _shown(self, table: "DataFrame") -> "DataFrame":
        """Return a table as pages show it, with the most important rows first."""
        return table

    def _headline(self) -> list[str]:
        """Return the sentence at the top of a page in a list, which is empty if there is none."""
        return self._findings()[:1]

    def _findings(self) -> list[str]:
        """Return the lines of text that state what was estimated."""
        return []

    def _statement(self) -> list[str]:
        """Return sentences that explain the guarantee on a page, in addition to epsilon."""
        return []

    def __repr__(self) -> str:
        spent = f"; {self.no_budget:,} could not afford a report" if self.no_budget else ""
        lines = [
            *self._findings(),
            f"{self.privacy}" + (" (seeded simulation)" if self.privacy.seeded else "")
            if self.privacy
            else "nothing spent",
            f"{self.num_reports} reports of {self.num_users} {self._answerers} in "
            f"{len(self.steps)} steps" + spent,
        ]
        return "\n".join(lines + self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON; see :meth:`from_dict`."""
        # If a class builds ``arrays`` from other fields, these fields are enough.
        made_of_others = hasattr(self, "__post_init__")
        names = (each.name for each in fields(self) if each.name != "arrays" or not made_of_others)
        plain = {name: to_plain(getattr(self, name)) for name in names}
        derived = {name: to_plain(getattr(self, name)) for name in self._derived}
        return {"kind": type(self).__name__, **plain, **derived}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the result of this class or a subclass from a dict of :meth:`to_dict`.

        Only results are made from the dict, even if it comes from an untrusted source.

        Raises
        ------
        ValueError
            If the kind is unknown, or if a value is missing, unknown or of another type.
        """
        family: list[type[Result]] = [*_family(cls), cls]
        kinds = {kind.__name__: kind for kind in family}
        name = plain.get("kind") if isinstance(plain, Mapping) else None
        if not isinstance(name, str) or name not in kinds:
            known = ", ".join(sorted(kinds))
            raise ValueError(f"Expected a result as to_dict gives it ({known}), got kind {name!r}.")
        kind = kinds[name]
        values = {k: v for k, v in plain.items() if k not in ("kind", *kind._derived)}
        try:
            found: Self = made(kind, values)
        except ValueError as error:
            raise ValueError(f"Expected a {name} as to_dict gives it. {error}") from None
        return found


def _family(kind: type[Result]) -> Iterator[type[Result]]:
    for each in kind.__subclasses__():
        yield each
        yield from _family(each)


def _root_mean_square(array: NDArray[Any]) -> float:
    numbers = np.asarray(array, np.float64)
    return float(np.sqrt(np.mean(numbers**2))) if numbers.size else 0.0
