"""Texts of the privacy guarantees that protocols state as numbered points in their docstrings."""

import inspect
import textwrap

# The unit of protection: all records of a user.
USER = "Protected: all records of a user, against any others (user-level), at pure ``epsilon``."
USER_BY_METHOD = (
    'Protected: all records of a user, against any others. ``"auto"``: pure ``epsilon``; '
    '``"paper"``: (``epsilon``, ``delta``), in real arithmetic.'
)

#: The protected part of a user's data if the features are public.
LABELS = "labels"

# Why all reports of a run together cost no more than epsilon.
ASKED_ONCE = (
    "Every user answers one question, in one of disjoint cohorts that public hashes cut. Later "
    "questions depend on data through earlier reports only: epsilon-LDP by parallel composition."
)
NON_INTERACTIVE = "Every user answers one question, which depends on no data (non-interactive)."

# Where the guarantee is enforced.
ENFORCED = "Clients enforce this by their randomizers and ledgers, whatever the strategy sends."

# Of strategies that can have noise at the node.
_OF_SUMS = (
    "are all records of a user, against everybody but the node that holds them, at "
    "(``epsilon``, ``delta``) for all questions of the run together, which all users answer. With "
    '``noise="shared"`` this holds if at most as many other nodes collude with the server as '
    "operators tolerate (``max-dishonest``). If all other nodes collude, it holds at the epsilon "
    "``privacy.alone`` of the result."
)
AT_NODE = f'With ``noise="node"``, 1 and 2 are instead: protected {_OF_SUMS}'

PER_USER = (USER, ASKED_ONCE, ENFORCED)
AT_NODE_ONLY = (f"Protected {_OF_SUMS}", ENFORCED)


def with_guarantee(docstring: str, points: tuple[str, ...]) -> str:
    """Return a class's docstring with ``points`` added as a numbered last section, Guarantee."""
    numbered = (
        textwrap.fill(point, 88, initial_indent=f"{number}. ", subsequent_indent="   ")
        for number, point in enumerate(points, 1)
    )
    return "\n".join([inspect.cleandoc(docstring), "", "Guarantee", "---------", *numbered, ""])
