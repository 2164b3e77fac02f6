"""Deterministic leaks: replies that are the same on every run, and differ between neighbours."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...validation import Floats
from .findings import Finding
from .node import LAST_BITS, LENGTH, AuditedNode, Seen, Transcript
from .variants import BASE, Variant

_CONFIRMING = 40  # runs on each data set that confirm a difference that noise may have caused
_MAX_SECONDS = 10.0  # CPU time for these runs if no number of runs is given
_MISTAKEN = 1e-5  # probability that a randomised answer is mistaken for one without noise
_MAX_EPSILON = 20.0  # larger claims are treated as this one
_SHOWN = 90  # largest number of shown characters of a text
_NOTHING = "nothing"


@dataclass(frozen=True)
class Difference:
    """Difference: a piece of a reply that distinguishes two data sets on every run."""

    message: int
    path: str
    first: str
    second: str
    size: float = 0.0  # largest difference of numbers
    how_many: int = 0  # count of numbers that differ; 0 for a piece of the form

    @property
    def is_text(self) -> bool:
        """True if the pieces are texts or errors."""
        if self.path == "reply":
            return "content" not in (self.first, self.second)
        return not self.how_many and all(s[:1] in "'\"" for s in (self.first, self.second))

    @property
    def is_answer(self) -> bool:
        """True if the pieces can be randomised answers: integers, or texts."""
        if self.how_many:
            return "." not in self.first + self.second
        return self.path.endswith(LENGTH) or (self.is_text and self.path != "reply")

    @property
    def what(self) -> str:
        """Description of what the difference reveals."""
        if self.how_many:
            return "a function of the data, without noise"
        if self.path == "reply" and not self.is_text:
            return "whether it answers depends on data"
        if self.path == "records" or self.path.endswith(": keys"):
            return "names or order of what is sent depend on data"
        return "a text depends on data" if self.is_text else "the form of the reply depends on data"


def differences(first: Sequence[Transcript], second: Sequence[Transcript]) -> Iterator[Difference]:
    """Yield the differences that are the same on all of two sets of runs."""
    for number in range(len(first[0])):
        ours, theirs = [run[number] for run in first], [run[number] for run in second]
        found_at: set[str] = set()
        for path in dict.fromkeys([*ours[0].form, *theirs[0].form]):
            one, two = ({reply.form.get(path, _NOTHING) for reply in of} for of in (ours, theirs))
            known = "reply" in found_at or path.removesuffix(LENGTH) in found_at
            # A missing piece is already a difference in the names of keys.
            known |= _NOTHING in one | two and not path.endswith("not finite")
            if len(one) == len(two) == 1 and one != two and not known:
                found_at.add(path)
                yield Difference(number, path, one.pop()[:_SHOWN], two.pop()[:_SHOWN])
        for path in ours[0].numbers:
            rows, others = stacked(ours, path), stacked(theirs, path)
            if not rows.size or rows.shape[1:] != others.shape[1:]:
                continue
            fixed = (rows == rows[0]).all(axis=0) & (others == others[0]).all(axis=0)
            away = np.where(fixed, np.abs(rows[0] - others[0]), 0.0)
            if away.any() and path.removesuffix(LAST_BITS) not in found_at:
                found_at.add(path)
                i, many = int(np.argmax(away)), int(np.count_nonzero(away))
                seen = f"{rows[0, i]:.9g}", f"{others[0, i]:.9g}"
                yield Difference(number, path, *seen, float(away[i]), many)


def stacked(replies: Sequence[Seen], path: str) -> Floats:
    """Return the numbers at a path, one row per reply.

    The array is empty if a reply lacks the numbers, or if replies have different counts of them.
    """
    found = [reply.numbers[path] for reply in replies if path in reply.numbers]
    fit = len(found) == len(replies) and len({len(values) for values in found}) == 1
    return np.stack(found) if fit else np.zeros((0, 0))


class Leaks:
    """Comparison of replies on variants of the data with ``base``, the replies on the real data."""

    def __init__(
        self, node: AuditedNode, base: Sequence[Transcript], runs: int | None, seconds: float
    ) -> None:
        self._node, self._base, self._runs, self._seconds = node, base, runs, seconds
        #: Observed variants with their differences, by type of message and path.
        self.by: dict[tuple[str, str], list[tuple[Variant, Difference]]] = {}

    def add(self, variant: Variant, runs: Sequence[Transcript]) -> None:
        """Compare runs on a variant of the data with those on the real data."""
        for found in differences(self._base, runs):
            key = (self._node.kinds[found.message], found.path)
            self.by.setdefault(key, []).append((variant, found))

    def findings(self) -> Iterator[Finding]:
        """Yield findings; those that noise may have caused are confirmed by more runs."""
        worst = {key: max(seen, key=lambda each: each[1].size) for key, seen in self.by.items()}
        doubtful = {k for k, (_, found) in worst.items() if found.how_many or found.is_answer}
        answers = {key for key in doubtful if worst[key][1].is_answer}
        tried = {worst[key][0] for key in doubtful}
        # So many runs that a randomised answer with the claimed epsilon is not the same on all.
        odds = math.exp(min(self._node.claims.epsilon or 0.0, _MAX_EPSILON))
        chance = min(odds / (1 + odds) + self._node.claims.of_run()[1], 1 - 1e-9)
        needed = math.log(_MISTAKEN) / (2 * math.log(chance)) if answers and odds > 1 else 0
        wanted = max(_CONFIRMING, math.ceil(needed))
        affordable = self._runs or int(_MAX_SECONDS / (self._seconds * (1 + len(tried))))
        runs = max(min(wanted, affordable), len(self._base))
        base = self._node.runs(BASE, runs) if tried else []
        again = {
            (v, found.message, found.path)
            for v in tried
            for found in differences(base, self._node.runs(v, runs))
        }
        for key, (variant, found) in worst.items():
            if key in answers and runs < wanted:
                continue  # the answer may be the same by chance, so the classifier compares it
            if key not in doubtful or (variant, found.message, found.path) in again:
                others = len({v for v, _ in self.by[key]}) - 1
                rounds = len({each.message for _, each in self.by[key]})
                where = ": ".join(key) + (f", in {rounds} messages" if rounds > 1 else "")
                evidence = f"{found.first} became {found.second} with {variant.name}"
                evidence += f" (and {others} other changes)" if others else ""
                evidence += f", on all of {runs} runs" if key in doubtful else ""
                # LocalDpMod itself divides by an update's length, and does not remove NaN.
                by_mod = "ZeroDivisionError" in evidence or found.path.endswith("not finite")
                if not (by_mod and key[0] in self._node.claims.local):
                    yield Finding(found.what, where, evidence)
