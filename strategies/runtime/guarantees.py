"""What protocols guarantee, in the numbered points of their docstrings."""

import inspect
import textwrap

# Whom a protocol protects.
USER = "Protected: all records of a user, against any others (user-level), at pure ``epsilon``."
USER_BY_METHOD = (
    'Protected: all records of a user, against any others. ``"auto"``: pure ``epsilon``; '
    '``"paper"``: (``epsilon``, ``delta``), in real arithmetic.'
)

#: What of a user's data is protected where features are public.
LABELS = "labels"

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
