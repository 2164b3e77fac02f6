"""Approved studies at a client: whether a study of the operator's file approves a query.

The checks need the message, the file and the names of the columns, and no data. They are made with
every message, since the file may have changed since the last one.
"""

from collections.abc import Sequence
from typing import Final

from ldp_flower.guarantee.budget import PrivacyPolicy, place_of
from ldp_flower.guarantee.messages import ErrorCode, Query
from ldp_flower.guarantee.studies import Studies, StudiesError, Study

from .reply import Refusal

# Largest number of columns that a refusal names, and of characters of a name. Servers cut longer
# texts.
_MAX_NAMED: Final = 3
_MAX_CHARS: Final = 30


def studies_of(policy: PrivacyPolicy) -> Studies | None:
    """Return the approved studies; None if the operator has no file of them.

    Raise Refusal if the file cannot be used.
    """
    if policy.studies is None:
        return None
    try:
        studies = Studies.read(policy.studies)
        studies.check(policy)
    except StudiesError as error:
        text = "The operator's file of approved studies is not valid."
        raise Refusal(ErrorCode.STUDIES_FILE, text, str(error)) from error
    return studies


def approved(
    studies: Studies | None, query: Query, columns: Sequence[str] | None, *, named: bool
) -> Study | None:
    """Return the approved study of a query; None if the operator has no file of studies.

    ``columns`` are the names of all columns that the query reads, or None if they are not known.
    Raise Refusal if no study approves the query. Its text names columns only if ``named`` is True.
    """
    if studies is None:
        return None
    study = studies.approved.get(query.study or "")
    if study is None:
        text = "The query belongs to no study that the operator has approved."
        raise Refusal(ErrorCode.NOT_APPROVED, text, f"Study {query.study!r}.")
    objection = study.objection(query, columns, place_of(query.randomizer))
    if objection is not None:
        what, others = objection
        names = some_of(others, _MAX_NAMED, _MAX_CHARS) if named else ""
        text = "The operator has not approved this query for its study"
        public, detail = (f"{what} {each}".rstrip() for each in (names, ", ".join(others)))
        raise Refusal(ErrorCode.NOT_APPROVED, f"{text}: {public}.", f"Study {study.id}: {detail}.")
    if not study.accepts_signature(query):
        text = "The query is not signed by a key that the operator has approved for its study."
        raise Refusal(ErrorCode.NOT_SIGNED, text, f"Study {study.id}.")
    return study


def some_of(names: Sequence[str], most: int, chars: int | None = None) -> str:
    """Return the first ``most`` names as a text for an operator or a server.

    Each name is cut to ``chars`` characters.
    Characters that cannot be printed become ``?``. The number of the other names comes last.
    """
    shown = [
        "".join(sign if sign.isprintable() else "?" for sign in name[:chars])
        for name in names[:most]
    ]
    if more := len(names) - len(shown):
        shown.append(f"{more} more")
    return ", ".join(shown)


def refuse_training(studies: Studies | None) -> None:
    """Raise Refusal if there is a file of studies, since no study can approve training."""
    if studies is not None:
        text = "The operator has approved no training."
        raise Refusal(ErrorCode.NOT_APPROVED, text)


def check_census(studies: Studies, now: float) -> None:
    """Raise Refusal unless an open study allows the census at the time ``now``, in seconds."""
    if not studies.allow_census(now):
        text = "The operator has approved no study that begins with a census."
        raise Refusal(ErrorCode.NOT_APPROVED, text)
