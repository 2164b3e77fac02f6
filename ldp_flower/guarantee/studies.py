"""Approved studies: the questions that an operator allows, each study with its share of the budget.

A node sees questions, not strategies. So a study lists names of questions, columns and places of
noise, and every message is compared with them. The server names the study. Any server may name any
study, but the study's share on the ledger, its steps and its end hold in any case. If a study lists
keys, one of them must have signed the query.
"""

import os
import re
import stat
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import date
from math import fsum, inf
from typing import Any, Final, Self

from ..validation import check_integer, check_number, check_truth
from .budget import NOISE, PrivacyPolicy
from .messages import Query
from .peers import encode, has_signed, is_name

_FORMAT: Final = 1
_QUESTION: Final = re.compile(r"[a-z][a-z0-9_]*")
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_LISTS: Final = {"questions", "columns", "noise", "signed_by"}
_DAY: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()
#: Names of the three limits of a study, in the order of :attr:`Study.limits`.
LIMITS: Final = ("epsilon", "delta", "epsilon-alone")


class StudiesError(ValueError):
    """Error of a studies file that cannot be used."""


@dataclass(frozen=True)
class Study:
    """One table of a studies file.

    Attributes
    ----------
    id : str
        Name of the study: lowercase letters, digits and hyphens. The ledger keeps spending by it.
    questions : tuple of str
        Names of the approved questions on the wire.
    columns : tuple of str
        Names of the columns that may be read, exactly as the node's table has them.
    noise : tuple of str
        Places at which noise may be added.
    epsilon, delta, epsilon_alone : float
        Largest sums over all answers of a user in this study, for life. ``epsilon_alone`` is for
        the case that all other nodes collude. It is given with shared noise, and only with it.
    steps : int
        Largest number of questions that the node answers.
    until : date
        Last day of the study, in UTC.
    signed_by : tuple of str
        Ed25519 keys, of which one has to sign each query; empty if no signature is needed.
    census : bool
        True if the node answers the census until the study ends, and if reports may name users by
        their numbers on the ledger.
    """

    id: str
    questions: tuple[str, ...]
    columns: tuple[str, ...]
    noise: tuple[str, ...]
    epsilon: float
    steps: int
    until: date
    delta: float = 0.0
    epsilon_alone: float | None = None
    signed_by: tuple[str, ...] = ()
    census: bool = False

    def __post_init__(self) -> None:
        if not is_name(self.id):
            raise StudiesError(
                f"Expected an id of 1 to 40 lowercase letters, digits or hyphens, got {self.id!r}."
            )
        try:
            self._check()
        except ValueError as error:
            raise StudiesError(f"Study {self.id}: {error}") from None

    def _check(self) -> None:
        for name in self.questions:
            if not _QUESTION.fullmatch(name):
                raise ValueError(f"Expected names of questions, got {name!r}.")
        if "*" in self.columns:
            raise ValueError("Expected exact names of columns, got '*'.")
        if unknown := set(self.noise) - set(NOISE):
            raise ValueError(f"Expected noise among {list(NOISE)}, got {sorted(unknown)}.")
        for key in self.signed_by:
            if not _KEY.fullmatch(key):
                raise ValueError(f"Expected keys of 64 hexadecimal digits, got {key!r}.")
        if ("shared" in self.noise) != (self.epsilon_alone is not None):
            raise ValueError("Expected epsilon-alone with shared noise, and only with it.")
        for name, number in zip(LIMITS, self.limits, strict=True):
            check_number(name, number)
        if not 0 < self.epsilon < inf:
            raise ValueError(f"Expected 0 < epsilon < inf, got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"Expected 0 <= delta < 1, got {self.delta}.")
        if not self.epsilon <= self.limits[-1] < inf:
            raise ValueError(f"Expected epsilon <= epsilon-alone < inf, got {self.epsilon_alone}.")
        check_integer("steps", self.steps, 1)
        if type(self.until) is not date:  # a time of day is a date, too
            raise ValueError(f"Expected until as a date such as 2027-03-31, got {self.until!r}.")
        check_truth("census", self.census)

    @property
    def ends(self) -> int:
        """Second at which the study ends: the first one in UTC after its last day."""
        return (self.until.toordinal() + 1 - _EPOCH) * _DAY

    @property
    def limits(self) -> tuple[float, float, float]:
        """Largest epsilon, delta and epsilon alone of a user in the study, see :data:`LIMITS`."""
        alone = self.epsilon if self.epsilon_alone is None else self.epsilon_alone
        return self.epsilon, self.delta, alone

    def objection(
        self, query: Query, columns: Collection[str] | None, noise: str
    ) -> tuple[str, list[str]] | None:
        """Return the reason why the study does not approve a query; None if it approves it.

        The reason comes with the names of the columns that are not approved. ``columns`` are the
        names of the columns that the query reads; None if a column has no name, or if the names are
        not known. ``noise`` is the place at which the query's mechanism adds noise.
        """
        if query.statistic not in self.questions:
            return f"question {query.statistic}", []
        if noise not in self.noise:
            return f"noise {noise}", []
        if query.numbered and not self.census:
            return "users' numbers", []
        if columns is None:
            return "columns without names", []
        others = list(dict.fromkeys(name for name in columns if name not in self.columns))
        return ("columns", others) if others else None

    def accepts_signature(self, query: Query) -> bool:
        """Return True if one of the study's keys has signed the query, or if it lists no key."""
        if not self.signed_by:
            return True
        text, signature = signed_text(query.digest(), self.id), query.signature or b""
        return any(has_signed(bytes.fromhex(key), signature, text) for key in self.signed_by)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Return a study from a table of the file; raise StudiesError if it is not valid."""
        own = {_key(each.name): each.name for each in fields(cls)}
        if unknown := set(plain) - set(own):
            raise StudiesError(f"Expected the keys {', '.join(own)} of a study, got {unknown}.")
        needed = ("id", "questions", "columns", "noise", "epsilon", "steps", "until")
        if missing := [key for key in needed if key not in plain]:
            raise StudiesError(f"Expected {', '.join(missing)} of study {plain.get('id')!r}.")
        values = {own[key]: value for key, value in plain.items()}
        for name in _LISTS & set(values):  # empty, signed_by would allow any analyst
            listed = values[name]
            if not (isinstance(listed, list) and listed and {str} == set(map(type, listed))):
                raise StudiesError(f"Expected a list of texts as {_key(name)}, got {listed!r}.")
            values[name] = tuple(listed)
        return cls(**values)


def _key(name: str) -> str:
    return name.replace("_", "-")


@dataclass(frozen=True)
class Studies:
    """The studies that an operator has approved, by id."""

    approved: Mapping[str, Study]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Return the studies in a file.

        Raise StudiesError if the file is not valid, or if other accounts can write it.
        """
        try:
            plain = tomllib.loads(_content(path).decode())
        except (OSError, ValueError, RuntimeError) as error:
            raise StudiesError(f"Expected {path} to be a studies file, but {error}.") from error
        if set(plain) != {"format", "study"} or plain["format"] != _FORMAT:
            raise StudiesError(f"Expected format = {_FORMAT} and [[study]] tables in {path}.")
        tables = plain["study"]
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise StudiesError(f"Expected studies to be [[study]] tables in {path}.")
        studies = [Study.of(each) for each in tables]
        approved = {each.id: each for each in studies}
        if len(approved) < len(studies):
            raise StudiesError(f"Expected each id once in {path}, got an id twice.")
        return cls(approved)

    def check(self, policy: PrivacyPolicy) -> None:
        """Raise StudiesError if the studies' shares add up to more than a policy allows."""
        largest = (policy.max_epsilon, policy.max_delta, policy.epsilon_alone)
        shares = zip(*(each.limits for each in self.approved.values()), strict=True)
        for name, share, most in zip(LIMITS, map(fsum, shares), largest, strict=False):
            if share > most:
                raise StudiesError(
                    f"Expected shares of {name} of at most max-{name} {most:g} together, got "
                    f"{share:g}."
                )

    def allow_census(self, now: float) -> bool:
        """Return True if a study that has not ended allows the census, with which runs begin.

        ``now`` is the time in seconds.
        """
        return any(each.census and now < each.ends for each in self.approved.values())


def _content(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file that only its owner can write: root or the node's account."""
    with open(os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is not a file")
        if about.st_mode & _OTHERS_WRITE:
            raise ValueError(f"other accounts can write it: chmod go-w {path}")
        if about.st_uid not in (0, os.geteuid()):
            raise ValueError("it belongs to another account than the node's or root's")
        return file.read()


def signed_text(digest: str, study: str) -> bytes:
    """Return the bytes that an analyst's key signs to name a study in the query of this digest."""
    return encode("study", bytes.fromhex(digest), study)
