"""Names of the protocols, which help and completion show without importing the protocols."""

from collections.abc import Callable, Iterable

#: All protocols, in the order of every list of them.
PROTOCOLS = tuple(
    "PrivateClassification PrivateEvaluation PrivateRegression SparseMean SparseRegression "
    "LabelLdpIht LdpIht NonInteractiveIht MultiRoundRegression TwoRoundRegression UserLevelMean "
    "Correlation Counts Describe Difference Distribution HeavyHitters Means Quantiles Synthesize "
    "TwoWay LdpFedAvg RecordDpSgd ConstrainedMean ConstrainedRegression KernelRidgeRegression "
    "SmoothGlm Series DpIht KnowledgeTransfer PeelingDpIht PeelingTransfer "
    "PrivateFrankWolfe".split()
)
#: The protocol whose nodes train networks; its audit is another one.
OF_NETWORKS = "RecordDpSgd"
#: Protocols that ``ldp-flower audit`` knows by name. An app with LdpFedAvg is audited with --app.
AUDITED = tuple(name for name in PROTOCOLS if name != "LdpFedAvg")

#: Where noise may be added.
NOISE = ("user", "node", "shared")


def completion(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function for the shell's completion: from a beginning to the names that have it."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]
