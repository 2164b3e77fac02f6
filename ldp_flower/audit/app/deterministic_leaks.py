"""Find replies that differ between neighbouring data on every run, and group them into findings."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .compared import Difference, Runs, differences
from .data.variants import BASE, Variant
from .findings import Finding
from .node import Node

_CONFIRMING = 60  # runs of either data set that confirm a difference of numbers
_SLOW = 8  # where fewer were affordable to find it, as many confirm it
_LONGEST = 60.0  # seconds that those take of whole numbers, which may be answers seldom wrong
_MISTAKEN = 1e-5  # probability with which such answers are said to have no noise
_LARGEST = 20.0  # epsilon that is told from none
_MOD_FAILED = "ZeroDivisionError"
_PERHAPS = "no noise was seen, and the claim allows that in so few runs"

_OF_FAILURE = ("reply", "error text")
_OF_FORM = (": type", ": shape", "keys")
_FORMS = {
    "reply": "whether it answers depends on data",
    "error text": "an error's text tells data",
    "records": "names or order of records tell data",
}


@dataclass
class _Group:
    """Differences of one piece of one type of message."""

    rounds: set[int] = field(default_factory=set)
    by: dict[Variant, Difference] = field(default_factory=dict)

    def add(self, variant: Variant, difference: Difference) -> None:
        self.rounds.add(difference.message)
        if variant not in self.by or difference.size > self.by[variant].size:
            self.by[variant] = difference

    @property
    def needs_more(self) -> bool:
        """Whether noise may have made it: of numbers, and of texts that may be drawn."""
        worst = self.worst[1]
        return worst.kind != "form" or worst.is_answer

    @property
    def worst(self) -> tuple[Variant, Difference]:
        return max(self.by.items(), key=lambda item: item[1].size)


class Comparison:
    """Replies on other data, compared with those on the data as they are.

    Parameters
    ----------
    node : Node
        Who answered.
    base : sequence of runs
        Its replies on the data as they are.
    seconds : float
        How long one run takes.
    """

    def __init__(self, node: Node, base: Runs, seconds: float) -> None:
        self._node, self._base, self._seconds = node, base, seconds
        self._groups: dict[tuple[str, str, str], _Group] = {}
        self._invalid: dict[Variant, Runs] = {}
        self.any = False

    def add(self, variant: Variant, runs: Runs) -> None:
        """Compare runs on other data."""
        if not variant.valid:
            self._invalid[variant] = runs
            return
        found = list(differences(self._base, runs))
        failed = {difference.message for difference in found if difference.path == "reply"}
        for difference in found:
            # What a failed reply lacks is the same finding.
            if difference.message in failed and difference.path not in _OF_FAILURE:
                continue
            kind = self._node.messages[difference.message].metadata.message_type
            if difference.kind != "form" and kind in self._node.claims.own_kinds:
                continue  # reports of few values: what they tell is measured
            key = (kind, difference.path, difference.kind)
            self._groups.setdefault(key, _Group()).add(variant, difference)
            self.any = True

    def findings(self) -> Iterator[Finding]:
        """Yield what was found."""
        confirmed = self._confirmed()
        for (kind, path, of), group in self._groups.items():
            if group.needs_more and (kind, path, of) not in confirmed:
                continue
            yield self._told(kind, path, of, group)
        yield from self._of_invalid()

    def _confirmed(self) -> set[tuple[str, str, str]]:
        """Return those groups that are still found with many more runs."""
        numbers = {key: group for key, group in self._groups.items() if group.needs_more}
        found = set()
        few = len(self._base)
        wanted_runs = self._wanted(numbers)
        more = max(wanted_runs - few, 0)
        wanted = {group.worst[0] for group in numbers.values()}
        base = self._node.runs(BASE, more) if wanted and more else []
        for variant in wanted:
            again = list(differences(base, self._node.runs(variant, more))) if more else []
            for key, group in numbers.items():
                worst_variant, worst = group.worst
                if worst_variant != variant:
                    continue
                if any((d.message, d.path, d.kind) == (worst.message, worst.path, worst.kind)
                       for d in again):  # fmt: skip
                    found.add(key)
        self.confirming = few + more
        return found

    def _wanted(self, groups: Mapping[tuple[str, str, str], _Group]) -> int:
        """Return how many runs confirm that numbers have no noise, which answers may have."""
        few = len(self._base)
        if not any(self._may_have_noise(group.worst[1]) for group in groups.values()):
            return 2 * few if few < _SLOW else _CONFIRMING
        needed = math.log(_MISTAKEN) / (2 * math.log(self._same_by_chance()))
        data_sets = 1 + len({group.worst[0] for group in groups.values()})
        affordable = int(_LONGEST / max(self._seconds, 1e-9) / data_sets)
        return max(2 * few, min(max(_CONFIRMING, math.ceil(needed)), affordable))

    def _may_have_noise(self, worst: Difference) -> bool:
        """Whether this is an answer, of an owner who claims an epsilon for it."""
        return worst.is_answer and self._node.claims.epsilon is not None

    def _same_by_chance(self) -> float:
        """Return the largest probability of an answer that differs on two data sets."""
        epsilon, delta = self._node.claims.of_run()
        odds = math.exp(min(epsilon or 0.0, _LARGEST))
        return min((odds + delta) / (1 + odds), 1 - math.exp(-_LARGEST))

    def _told(self, kind: str, path: str, of: str, group: _Group) -> Finding:
        variant, worst = group.worst
        count = len(group.rounds)
        where = f"{kind}: {path}" + (f", in {count} messages" if count > 1 else "")
        how, others = f"with {variant.name}", len(group.by) - 1
        how += f" (and {others} other change{'s' * (others > 1)})" if others else ""
        seen = f"{worst.first} became {worst.second} {how}"
        if of == "numbers":
            some = f"{worst.how_many:,} numbers without noise; " if worst.how_many > 1 else ""
            evidence = f"{some}{seen}, on all of {self.confirming} runs"
            if self._may_be_chance(worst):
                return Finding(_PERHAPS, where, evidence, counts=False)
            return Finding("a function of the data, without noise", where, evidence, bare=True)
        if of == "noise":
            return Finding("which numbers vary depends on data", where, seen, bare=True)
        local = self._node.claims.local.get(kind)
        if local is not None and self._of_the_mod(kind, path, group):
            return Finding(
                "LocalDpMod's own weakness", where, f"{seen}: data like that show", counts=False
            )
        if worst.is_answer and self._may_be_chance(worst):
            return Finding(_PERHAPS, where, seen, counts=False)
        what = _FORMS.get(path, "the form of the reply tells data")
        if path.endswith("keys"):
            what = "names or order of what is sent tell data"
        return Finding(what, where, seen, bare=True)

    def _may_be_chance(self, worst: Difference) -> bool:
        """Whether a randomised answer could look like this, by the claim and so few runs."""
        chance = self._same_by_chance() ** (2 * self.confirming)
        return self._may_have_noise(worst) and chance > _MISTAKEN

    def _of_the_mod(self, kind: str, path: str, group: _Group) -> bool:
        """Whether this is Flower's: it divides by an update's length, and lets NaN through."""
        if path.endswith("not finite"):
            return True
        if path not in _OF_FAILURE:
            return False
        texts = self._groups.get((kind, "error text", "form"), _Group()).by
        return all(
            variant in texts and _MOD_FAILED in texts[variant].first + texts[variant].second
            for variant in group.by
        )

    def _of_invalid(self) -> Iterator[Finding]:
        """Yield what data that are no numbers show: what errors say of them, above all."""
        told: set[object] = set()
        valid = {(kind, path) for kind, path, _ in self._groups}
        runs = list(self._invalid.items())
        for two, second in runs:
            if two.against is None or two.against not in self._invalid:
                continue
            one, first = two.against, self._invalid[two.against]
            for difference in differences(first, second):
                kind = self._node.messages[difference.message].metadata.message_type
                path = difference.path
                if difference.is_text and (kind, path) not in told | valid:
                    told.add((kind, path))
                    yield Finding(
                        "an error's text tells data"
                        if path == "error text"
                        else "a text tells data",
                        f"{kind}: {path}",
                        f"{difference.first} if {one.name}, {difference.second} if {two.name}",
                        bare=True,
                    )
        for variant, runs_of in runs:
            found = list(differences(self._base, runs_of))
            failed = {difference.message for difference in found if difference.path == "reply"}
            for difference in found:
                kind = self._node.messages[difference.message].metadata.message_type
                key = (kind, difference.path)
                in_form = variant.in_form and difference.path.endswith(_OF_FORM)
                if in_form and difference.message not in failed and key not in valid:
                    valid.add(key)
                    yield Finding(
                        "the form of the reply tells data",
                        f"{kind}: {difference.path}",
                        f"{difference.first} became {difference.second} with {variant.name}",
                        bare=True,
                    )
                    continue
                known = (kind, "reply") in valid or {kind, (kind, "error text")} & told
                if difference.path == "reply" and not known:
                    told.add(kind)
                    yield Finding(
                        "data that cannot be used show",
                        f"{kind}: reply",
                        f"{difference.first} became {difference.second} if {variant.name}",
                        counts=False,
                    )
                elif difference.path.endswith("not finite") and not known:
                    told.add(kind)
                    yield Finding(
                        "data that cannot be used show",
                        f"{kind}: {difference.path.removesuffix(': not finite')}",
                        f"numbers that are not finite are sent if {variant.name}",
                        counts=False,
                    )
