"""Refusals: why a run of so many users asks nobody, and what would do."""

from dataclasses import dataclass
from typing import Literal

#: What is missing: users for all cohorts; users for an answer that noise does not hide; entries
#: that could be told of; answers of those who were asked.
Reason = Literal["cohorts", "noise", "data", "answers"]


@dataclass(frozen=True)
class TooFew:
    """Why a run does not start, or does not go on.

    Attributes
    ----------
    why : str
        A sentence.
    reason : {"cohorts", "noise", "data", "answers"}
        What is missing.
    needed : int, optional
        From how many users on a run starts.
    useful : int, optional
        From how many on it finds most of what there is to find.
    epsilon : float, optional
        At which epsilon the run starts with these users.
    unit : str (default: "users")
        What is counted.
    advice : str
        Sentences: what else would do.
    """

    why: str
    reason: Reason
    needed: int | None = None
    useful: int | None = None
    epsilon: float | None = None
    unit: str = "users"
    advice: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        told = [self.why]
        if self.needed is not None:
            told.append(f"At least {self.needed:,} {self.unit} are needed.")
        if self.useful is not None:
            told.append(f"From {self.useful:,} {self.unit} on most relations show.")
        if self.epsilon is not None:
            told.append(f"With these {self.unit} epsilon {self.epsilon:g} would do.")
        return " ".join(filter(None, [*told, self.advice]))
