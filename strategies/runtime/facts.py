"""Facts of a run: what became of each question, and what it cost."""

from collections import Counter
from dataclasses import dataclass

#: Key of a round's metrics: what all answers so far cost one user, or record, at most.
SPENT = "epsilon-spent"


@dataclass(frozen=True)
class Step:
    """What became of one question.

    Attributes
    ----------
    number : int
        From 1.
    statistic : str
        What was asked.
    mechanism : str
        The randomizer that answered.
    report_bytes : int
        Size of one user's report.
    asked : int
        Users in the cohort.
    reports : int
        Users whose report was used.
    errors : int
        Nodes that answered with an error.
    rejected : int
        Nodes whose answer could not come from the randomizer that was asked for.
    silent : int
        Nodes that did not answer in time.
    reasons : Counter of str
        The texts of the error replies.
    no_budget : int (default: 0)
        Users who had no budget left: those asked on nodes that answered who did not report; of
        the census, those whom no run can ask any more.
    lost : int (default: 0)
        Users whose reports are not used and who may have spent budget all the same: those asked on
        nodes whose answer was lost, late or left out, or an error that does not say that nobody
        has paid.
    """

    number: int
    statistic: str
    mechanism: str
    report_bytes: int
    asked: int
    reports: int
    errors: int
    rejected: int
    silent: int
    reasons: Counter[str]
    no_budget: int = 0
    lost: int = 0

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        names = ("asked", "reports", "no_budget", "lost", "errors", "rejected", "silent")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        reasons = "".join(
            f"; {times} x {text.rstrip('.')}" for text, times in self.reasons.most_common(3)
        )
        who = f", {self.no_budget:,} users" if self.number == 0 else f", {self.no_budget:,}"
        spent = f"{who} had no budget left" if self.no_budget else ""
        lost = f", {self.lost:,} may have spent budget all the same" if self.lost else ""
        return (
            f"Step {self.number} ({self.statistic}): {self.reports} of {self.asked} answered"
            f"{spent}{lost}; nodes: {self.errors} errors, {self.rejected} rejected, "
            f"{self.silent} silent{reasons}"
        )


@dataclass(frozen=True)
class PrivacySpent:
    """What one user spent, at most, by answering this run.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee of everything that the run asked of one user.
    unit : str
        Who is protected.
    exact : bool
        Whether all mechanisms have finite outputs, free of floating-point caveats.
    seeded : bool
        Whether reports were drawn from a known seed: then nobody is protected, and
        the run is a simulation.
    part : str
        What of its data is protected, as "labels"; all of it if this is empty.
    """

    epsilon: float
    delta: float
    unit: str
    exact: bool
    seeded: bool
    part: str = ""

    def __str__(self) -> str:
        delta = f", delta = {self.delta:g}" if self.delta else ""
        part = f" ({self.part} only)" if self.part else ""
        return f"epsilon = {self.epsilon:g}{delta} per {self.unit}{part}"
