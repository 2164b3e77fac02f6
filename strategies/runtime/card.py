"""What is said of a protocol in words: its card, and the points of its guarantee."""

import inspect
import textwrap
from dataclasses import dataclass

# Whom a protocol protects.
USER = "Protected: all records of a user, against any others (user-level), at pure ``epsilon``."
USER_BY_METHOD = (
    'Protected: all records of a user, against any others. ``"auto"``: pure ``epsilon``; '
    '``"paper"``: (``epsilon``, ``delta``), in real arithmetic.'
)

# Why reports cost no more together.
ASKED_ONCE = (
    "Every user answers one question, in one of disjoint cohorts that public hashes cut. Later "
    "questions depend on data through earlier reports only: epsilon-LDP by parallel composition."
)
NON_INTERACTIVE = "Every user answers one question, which depends on no data (non-interactive)."

# Who sees to it.
ENFORCED = "Clients enforce this by their randomizers and ledgers, whatever the strategy sends."

PER_USER = (USER, ASKED_ONCE, ENFORCED)


def with_guarantee(docstring: str, points: tuple[str, ...]) -> str:
    """Return a class's docstring with these points as its last section."""
    numbered = (
        textwrap.fill(point, 88, initial_indent=f"{number}. ", subsequent_indent="   ")
        for number, point in enumerate(points, 1)
    )
    return "\n".join([inspect.cleandoc(docstring), "", "Guarantee", "---------", *numbered, ""])


@dataclass(frozen=True, kw_only=True)
class Card:
    """What to know of a protocol before choosing it; every list of protocols is made of cards.

    Texts are short, with numbers, and go on from the words in brackets. Whom the protocol
    protects is the strategy's ``protects``.

    Parameters
    ----------
    question : str
        What it estimates.
    guarantee : str
        At which privacy parameters.
    rounds : str
        How often the server asks; every user answers once, unless it says otherwise.
    report : str
        Bytes of one report.
    use_when : str
        (Use it when ...)
    fails_when : str
        (It does not work ...)
    page : str
        Name of the page in ``docs`` that has the measurements.
    """

    question: str
    guarantee: str
    rounds: str
    report: str
    use_when: str
    fails_when: str
    page: str
