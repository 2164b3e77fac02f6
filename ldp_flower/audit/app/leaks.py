"""Deterministic leaks: replies that are the same on every run, and differ between neighbours."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .findings import Finding
from .looks import LAST_BITS, LENGTH, Look, Place
from .node import AuditedNode
from .variants import BASE, Variant

_CONFIRMING = 40  # runs on each data set that confirm a difference that noise may have caused
_MAX_SECONDS = 10.0  # CPU time for these runs if no number of runs is given
_MISTAKEN = 1e-5  # probability that a randomised answer is taken for an answer without noise
_MAX_EPSILON = 20.0  # larger claims are treated as a claim of this epsilon
_SHOWN = 90  # largest number of shown characters of a text
_NOTHING = "nothing"


@dataclass(frozen=True)
class RevealingPiece:
    """A piece of a reply that distinguishes a variant of the data on every run."""

    variant: Variant
    place: Place
    first: str
    second: str
    size: float = 0.0  # largest difference of numbers
    how_many: int = 0  # count of numbers that differ; 0 for a piece of the form

    @property
    def path(self) -> str:
        """Name of the part of the reply."""
        return self.place[1]

    @property
    def is_text(self) -> bool:
        """True if both versions of the piece are texts, or one is an error."""
        if self.path == "reply":
            return "content" not in (self.first, self.second)
        return not self.how_many and all(s[:1] in "'\"" for s in (self.first, self.second))

    @property
    def is_answer(self) -> bool:
        """True if the piece may be a randomised answer: integers, texts or a length.

        Such an answer can be constant in a few runs by chance, so more runs have to confirm the
        difference.
        """
        if self.how_many:
            return "." not in self.first + self.second
        return self.path.endswith(LENGTH) or (self.is_text and self.path != "reply")

    @property
    def what(self) -> str:
        """Text for a report: what the difference between the two versions reveals."""
        if self.how_many:
            return "a function of the data, without noise"
        if self.path == "reply" and not self.is_text:
            return "whether it answers depends on data"
        if self.path == "records" or self.path.endswith(": keys"):
            return "names or order of what is sent depend on data"
        return "a text depends on data" if self.is_text else "the form of the reply depends on data"


def differences(base: Look, look: Look) -> Iterator[RevealingPiece]:
    """Yield the parts of replies that are constant on each data set, but differ between the two.

    From such a part of one reply, a server knows which of the two data sets a node has.
    """
    found_at: set[Place] = set()
    forms, others = base.certain(), look.certain()
    for place in forms | others:
        one, two = forms.get(place, _NOTHING), others.get(place, _NOTHING)
        number, path = place
        known = {(number, "reply"), (number, path.removesuffix(LENGTH))} & found_at
        # A missing piece is already a difference in the names of keys.
        missing = _NOTHING in (one, two) and not path.endswith("not finite")
        if one is not None and two is not None and one != two and not known and not missing:
            found_at.add(place)
            yield RevealingPiece(look.variant, place, one[:_SHOWN], two[:_SHOWN])
    for place, (ours, noise) in base.numbers.items():
        theirs, other_noise = look.numbers.get(place, (np.zeros(0), np.zeros(0)))
        if ours.shape != theirs.shape:
            continue
        away = np.where((noise == 0) & (other_noise == 0), np.abs(ours - theirs), 0.0)
        if away.any() and (place[0], place[1].removesuffix(LAST_BITS)) not in found_at:
            found_at.add(place)
            i, many = int(np.argmax(away)), int(np.count_nonzero(away))
            seen = f"{ours[i]:.9g}", f"{theirs[i]:.9g}"
            yield RevealingPiece(look.variant, place, *seen, float(away[i]), many)


def leaks(node: AuditedNode, seen: Sequence[RevealingPiece], few: int) -> Iterator[Finding]:
    """Yield findings from ``seen``, the differences between data sets in ``few`` runs on each.

    Differences that noise may have caused are confirmed by more runs.
    """
    by: dict[tuple[str, str], list[RevealingPiece]] = {}
    for each in seen:
        by.setdefault((node.kinds[each.place[0]], each.path), []).append(each)
    worst = {key: max(of, key=lambda each: each.size) for key, of in by.items()}
    doubtful = [each for each in worst.values() if each.how_many or each.is_answer]
    tried = {each.variant for each in doubtful}
    # The runs are so many that an answer with the claimed epsilon is not the same on all of them.
    odds = math.exp(min(node.claims.epsilon or 0.0, _MAX_EPSILON))
    chance = min(odds / (1 + odds) + node.claims.of_run()[1], 1 - 1e-9)
    answers = odds > 1 and any(each.is_answer for each in doubtful)
    needed = math.log(_MISTAKEN) / (2 * math.log(chance)) if answers else 0
    wanted = max(_CONFIRMING, math.ceil(needed))
    affordable = node.options.runs or int(_MAX_SECONDS / (node.seconds * (1 + len(tried))))
    count = max(min(wanted, affordable), few)
    fresh = node.look(BASE, count) if tried else None
    again = {
        (variant, found.place)
        for variant in tried
        if fresh is not None
        for found in differences(fresh, node.look(variant, count))
    }
    for key, found in worst.items():
        if found.is_answer and count < wanted:
            continue  # the answer may be the same by chance, so the classifier compares it
        if found in doubtful and (found.variant, found.place) not in again:
            continue
        others = len({each.variant for each in by[key]}) - 1
        rounds = len({each.place for each in by[key]})
        where = ": ".join(key) + (f", in {rounds} messages" if rounds > 1 else "")
        evidence = f"{found.first} became {found.second} with {found.variant.name}"
        evidence += f" (and {others} other changes)" if others else ""
        evidence += f", on all of {count} runs" if found in doubtful else ""
        # LocalDpMod itself divides by an update's length, and does not remove NaN.
        by_mod = "ZeroDivisionError" in evidence or found.path.endswith("not finite")
        if not (by_mod and key[0] in node.claims.local):
            yield Finding(found.what, where, evidence)
