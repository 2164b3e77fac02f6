"""How the operator's books name the columns that a question is about; all of it is public."""

from collections.abc import Sequence

from .base import Question
from .transformed import OfClasses, Standardised

_MAX_COLUMNS_NAMED = 8  # columns that are named; a server can ask for thousands


def of_columns(question: Question, columns: Sequence[str] | None) -> str:
    """Return the columns that a question names, such as ``" of age, wage"``.

    Parameters
    ----------
    question : Question
        A question that fits the users' rows.
    columns : sequence of str or None
        The names of features and, where it has one, last of the targets.

    Returns
    -------
    str
        Empty if the question names none, which is then about all of them, or they have no names.
    """
    while isinstance(question, Standardised | OfClasses):  # of the same columns
        question = question.inner
    chosen = getattr(question, "coordinates", None)
    if chosen is None or columns is None:
        return ""
    names = dict.fromkeys(columns[i] if i < len(columns) else "the target" for i in chosen)
    shown = [_printable(name) for name in list(names)[:_MAX_COLUMNS_NAMED]]
    if more := len(names) - len(shown):
        shown.append(f"{more} more")
    return f" of {', '.join(shown)}"


def _printable(name: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in name)
