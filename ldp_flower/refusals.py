"""Refusals: reasons why a run does not start or continue, and what would suffice."""

from dataclasses import dataclass
from typing import Literal

#: Names of what is missing. "cohorts": users for all cohorts. "noise": users for a result above the
#: noise. "data": entries that could be reported. "answers": answers of the users who were queried.
#: "nodes": nodes that share their noise.
Reason = Literal["cohorts", "noise", "data", "answers", "nodes"]


@dataclass(frozen=True)
class TooFew:
    """Reason why a run does not start, or does not continue.

    Attributes
    ----------
    why : str
        The reason, as a sentence.
    reason : {"cohorts", "noise", "data", "answers", "nodes"}
        What is missing.
    needed : int, optional
        Smallest number of users with which a run starts.
    useful : int, optional
        Smallest number of users with which a run finds most of the relations in the data.
    epsilon : float, optional
        Epsilon at which a run with these users starts.
    unit : str (default: "users")
        Unit of ``needed`` and ``useful``.
    advice : str
        Sentences that say what else would suffice.
    """

    why: str
    reason: Reason
    needed: int | None = None
    useful: int | None = None
    epsilon: float | None = None
    unit: str = "users"
    advice: str = ""

    def __str__(self) -> str:
        """Return the refusal as a text."""
        sentences = [self.why]
        if self.needed is not None:
            sentences.append(f"At least {self.needed:,} {self.unit} are needed.")
        if self.useful is not None:
            sentences.append(f"Most relations are found from {self.useful:,} {self.unit} on.")
        if self.epsilon is not None:
            sentences.append(f"With these {self.unit} epsilon {self.epsilon:g} would do.")
        return " ".join(filter(None, [*sentences, self.advice]))
