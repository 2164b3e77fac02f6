"""Replies of neighbours compared, piece by piece: what is the same on every run, and differs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...validation import Floats
from .replies import IN_TEXT, LENGTH, Seen

Runs = Sequence[list[Seen]]
_NOTHING = "nothing"


@dataclass(frozen=True)
class Difference:
    """A piece of a reply that tells two data sets apart on every run.

    Attributes
    ----------
    message : int
        Number of the message.
    path : str
        What of the reply.
    kind : str
        ``form``, ``numbers`` (the same on every run, without noise) or ``noise`` (which of
        the numbers have any).
    first, second : str
        What was seen, in short.
    size : float
        The largest difference of numbers.
    how_many : int
        How many numbers differ.
    """

    message: int
    path: str
    kind: str
    first: str
    second: str
    size: float = 0.0
    how_many: int = 1

    @property
    def is_answer(self) -> bool:
        """Whether these are whole numbers, or texts, which can be randomised answers."""
        if self.kind == "form":
            return self.path.endswith(LENGTH) or (self.is_text and self.path != "error text")
        return self.kind == "numbers" and "." not in self.first + self.second

    @property
    def is_text(self) -> bool:
        """Whether these are texts that somebody wrote."""
        quoted = all(seen[:1] in "'\"" for seen in (self.first, self.second))
        return self.kind == "form" and self.path != "reply" and quoted


def differences(first: Runs, second: Runs) -> Iterator[Difference]:
    """Yield what tells two sets of runs apart for sure."""
    for number in range(len(first[0])):
        ours, theirs = [run[number] for run in first], [run[number] for run in second]
        of_form = list(_of_form(number, ours, theirs))
        told = {found.path for found in of_form}
        yield from (found for found in of_form if not _is_implied(found, told))
        for path in ours[0].numbers:
            if path.removesuffix(IN_TEXT) in told or path in ours[0].clocks:
                continue
            one, two = stacked(ours, path), stacked(theirs, path)
            # Of another shape, which is part of the form; or not on every run.
            if one is not None and two is not None and one.shape[1] == two.shape[1]:
                of_numbers = list(_of_numbers(number, path, one, two))
                yield from of_numbers or _of_low_bits(number, path, ours, theirs)


def only_errors(kinds: Sequence[str], runs: Runs) -> dict[str, str]:
    """Return what those types of messages get instead of content that never get any."""
    found: dict[str, str] = {}
    answered = set()
    for run in runs:
        for kind, reply in zip(kinds, run, strict=True):
            if reply.form["reply"] == "content":
                answered.add(kind)
            found.setdefault(kind, str(reply.form.get("error text", reply.form["reply"])))
    return {kind: error for kind, error in found.items() if kind not in answered}


def stacked(replies: Sequence[Seen], path: str) -> Floats | None:
    """Return numbers of all replies, shape (replies, numbers); None if they do not fit."""
    found = [reply.numbers.get(path) for reply in replies]
    kept = [values for values in found if values is not None]
    if len(kept) < len(found) or len({values.shape for values in kept}) > 1:
        return None
    return np.stack(kept)


def _of_form(number: int, ours: list[Seen], theirs: list[Seen]) -> Iterator[Difference]:
    for path in dict.fromkeys([*ours[0].form, *theirs[0].form]):
        one = {repr(reply.form[path]) if path in reply.form else _NOTHING for reply in ours}
        two = {repr(reply.form[path]) if path in reply.form else _NOTHING for reply in theirs}
        if not one & two and max(len(one), len(two)) == 1:
            yield Difference(number, path, "form", _short(one), _short(two))


def _is_implied(found: Difference, told: set[str]) -> bool:
    """Whether other differences tell as much: of names that are missing, of a text."""
    if found.path.endswith(LENGTH):
        return found.path.removesuffix(LENGTH) in told
    if _NOTHING not in (found.first, found.second):
        return False
    record, slash, _ = found.path.partition("/")
    if slash:
        return bool({"records", f"{record}: keys"} & told)
    return found.path.endswith(": keys") and "records" in told


def _of_low_bits(
    number: int, path: str, ours: list[Seen], theirs: list[Seen]
) -> Iterator[Difference]:
    first = [reply.low_bits[path] for reply in ours if path in reply.low_bits]
    second = [reply.low_bits[path] for reply in theirs if path in reply.low_bits]
    if len(first) == len(ours) and len(second) == len(theirs):
        for found in _of_numbers(number, path, np.stack(first), np.stack(second)):
            if found.kind == "numbers":
                yield replace(found, path=f"{path}: last bits")


def _short(values: set[str]) -> str:
    text = sorted(values)[0]
    return text if len(text) <= 90 else f"{text[:89]}…"


def _of_numbers(number: int, path: str, one: Floats, two: Floats) -> Iterator[Difference]:
    fixed, others = _constant(one), _constant(two)
    with np.errstate(all="ignore"):
        away = np.abs(one[0] - two[0])
    both = fixed & others & (away > 0)
    if both.any():
        worst = int(np.argmax(np.where(both, away, -1)))
        yield Difference(
            number,
            path,
            "numbers",
            f"{one[0, worst]:.9g}",
            f"{two[0, worst]:.9g}",
            float(away[worst]),
            int(both.sum()),
        )
    never = (fixed & ~others & ~(two == one[0]).any(axis=0)) | (
        others & ~fixed & ~(one == two[0]).any(axis=0)
    )
    if never.any():
        worst = int(np.argmax(never))
        shown = [
            f"{rows[0, worst]:.6g}" + ("" if same[worst] else " and others")
            for rows, same in ((one, fixed), (two, others))
        ]
        yield Difference(number, path, "noise", shown[0], shown[1], 0.0, int(never.sum()))


def _constant(rows: Floats) -> NDArray[np.bool_]:
    return np.asarray((rows == rows[0]).all(axis=0))
