"""Facts of a run: counts of answers to each question, and the privacy cost."""

from collections import Counter
from dataclasses import dataclass

#: Key in a round's metrics of the largest epsilon that one user, or record, has spent so far.
SPENT = "epsilon-spent"


@dataclass(frozen=True)
class Step:
    """Counts of the answers to one question.

    Attributes
    ----------
    number : int
        Number of the step, from 1; the census is step 0.
    statistic : str
        Name of the question.
    mechanism : str
        Name of the randomizer.
    report_bytes : int
        Size of one user's report in bytes.
    asked : int
        Number of users in the cohort.
    reports : int
        Number of users whose report was used.
    errors : int
        Number of nodes that answered with an error.
    rejected : int
        Number of nodes whose answer could not come from the requested randomizer.
    silent : int
        Number of nodes that did not answer in time.
    reasons : Counter of str
        Texts of the error replies, each with the number of nodes that sent it.
    no_budget : int (default: 0)
        Number of users who were asked and could not afford the report: what is left of their
        budget, or of the study's, is smaller than its cost. In the census, these are the users who
        have no budget left for any report.
    lost : int (default: 0)
        Number of users who may have spent budget though their reports are not used. The answer of
        their node was lost, late or left out, or was an error that does not rule out that a user
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
        """Return the counts of users and nodes by name, as metrics and gauges list them."""
        names = ("asked", "reports", "no_budget", "lost", "errors", "rejected", "silent")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        reasons = "".join(
            f"; {times} x {text.rstrip('.')}" for text, times in self.reasons.most_common(3)
        )
        spent = " users had no budget left" if self.number == 0 else " could not afford it"
        spent = f", {self.no_budget:,}{spent}" if self.no_budget else ""
        lost = f", {self.lost:,} may have spent budget all the same" if self.lost else ""
        return (
            f"Step {self.number} ({self.statistic}): {self.reports} of {self.asked} answered"
            f"{spent}{lost}; nodes: {self.errors} errors, {self.rejected} rejected, "
            f"{self.silent} silent{reasons}"
        )


@dataclass(frozen=True)
class PrivacySpent:
    """The largest privacy cost that one user incurs by answering this run.

    Attributes
    ----------
    epsilon, delta : float
        Privacy parameters of all reports of one user in the run together.
    unit : str
        Unit of protection, such as "user".
    exact : bool
        True if all mechanisms have finite outputs, free of floating-point caveats.
    seeded : bool
        True if reports were drawn from a known seed. Then the run is a simulation, and no user is
        protected.
    part : str
        Protected part of a unit's data, such as "labels"; empty if all data are protected.
    noise : str
        Place where noise was added: "user" (to each user's value), "node" (once to each node's
        sum) or "shared" (each node adds a part, and the server sees only the sum of all nodes).
    alone : float, optional
        With shared noise, the epsilon that a user loses if all other nodes collude.
    """

    epsilon: float
    delta: float
    unit: str
    exact: bool
    seeded: bool
    part: str = ""
    noise: str = "user"
    alone: float | None = None

    def __str__(self) -> str:
        delta = f", delta = {self.delta:g}" if self.delta else ""
        part = f" ({self.part} only)" if self.part else ""
        where = ", noise at the node" if self.noise != "user" else ""
        if self.alone is not None:
            where = f", noise shared by nodes (epsilon {self.alone:.3g} if all others collude)"
        return f"epsilon = {self.epsilon:g}{delta} per {self.unit}{part}{where}"
