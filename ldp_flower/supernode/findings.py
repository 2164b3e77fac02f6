"""Results of the checks of a node or of an app."""

from dataclasses import dataclass, field


@dataclass
class Findings:
    """Results of the checks, in sentences for the operator.

    Problems keep the node from answering, or from answering correctly. Doubts are settings and data
    that may be unintended. Facts describe the parts without a problem.
    """

    problems: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
