"""What was found, in words with numbers."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """One way in which data show, or a claim does not hold.

    Attributes
    ----------
    what : str
        What it is.
    where : str
        Which messages, and what of their replies.
    evidence : str
        What was seen.
    counts : bool
        Whether it is one; else it is worth knowing, and the exit code stays 0.
    bare : bool
        Whether data show for sure, so that no epsilon is large enough.
    """

    what: str
    where: str
    evidence: str
    counts: bool = True
    bare: bool = False


@dataclass(frozen=True)
class Worth:
    """What noise is worth.

    Attributes
    ----------
    where : str
        A type of message, or the whole run.
    claimed : float or None
        Epsilon.
    measured : float
        The true epsilon is at least this, with the audit's confidence.
    exact : float or None
        The true epsilon, where the mechanism is known.
    delta : float
        At which.
    """

    where: str
    claimed: float | None
    measured: float
    exact: float | None
    delta: float


@dataclass
class AppAudit:
    """All that an audit of an app found and tried.

    Attributes
    ----------
    name : str
        Of the app.
    findings : list of Finding
        What was found, and what is worth knowing.
    worth : list of Worth
        What noise is worth.
    tried, untried : list of str
        What was attacked, and what was not.
    """

    name: str
    findings: list[Finding] = field(default_factory=list)
    worth: list[Worth] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    @property
    def found(self) -> list[Finding]:
        """The findings that count."""
        return [finding for finding in self.findings if finding.counts]
