"""What an audit of an app found."""

from dataclasses import dataclass, field


class CannotAuditError(ValueError):
    """The app cannot be audited; the text says what to give."""


@dataclass(frozen=True)
class Finding:
    """One way in which replies reveal data, or in which a claim does not hold."""

    what: str
    where: str  # which messages, and what of their replies
    evidence: str


@dataclass(frozen=True)
class Worth:
    """Epsilon of a run, at a delta."""

    where: str
    claimed: float | None
    measured: float  # a lower bound of the true one, with a confidence of 99.9 %
    exact: float | None  # the true one, where the mechanism is known
    delta: float


@dataclass
class AppAudit:
    """Result of an audit of an app: findings, epsilons, and what was and was not tried."""

    name: str
    found: list[Finding] = field(default_factory=list)
    worth: list[Worth] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
