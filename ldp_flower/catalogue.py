"""What the command line tells of each protocol."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """One row of the table of protocols."""

    name: str
    guarantee: str
    rounds: str
    report: str
    use: str


PROTOCOLS = [
    Protocol(
        "LdpIht",
        "user-level, pure epsilon",
        "up to 6; up to 10 with several records per user (a norm, gradients, curvatures), 19 with "
        "a schema (sizes, centres, judges besides)",
        "1-2",
        "linear regression, sparse or on real tables, one or several records per user",
    ),
    Protocol(
        "SparseRegression",
        "user-level, pure epsilon",
        "8 (a scale, a vote, 6 waves); 7 with a declared scale or few features; up to 17 with a "
        "schema",
        "1; votes some bytes",
        "sparse linear or logistic regression, many records per user, sparsity and sizes unknown",
    ),
    Protocol(
        "SparseMean",
        "user-level, pure epsilon",
        "8 (a scale, a vote, 6 waves); 7 with a declared scale or few features",
        "1; votes some bytes",
        "mean of a long vector most of which is zero, one or several records per user",
    ),
    Protocol(
        "LdpFedAvg",
        "node-level, pure epsilon",
        "20-100",
        "1-2",
        "any model that an existing app trains: some 5 nodes a parameter at epsilon 2, 19 at 1",
    ),
    Protocol(
        "HeavyHitters",
        "user-level, pure epsilon",
        "1",
        "1-2, in small domains up to 64; more for sets of items",
        "most frequent items and their counts, strings too; sparse distributions",
    ),
    Protocol(
        "UserLevelMean",
        "user-level, pure epsilon",
        "up to 8 (a coarse mean, its users' spread, 4 re-centred waves); paper: 2",
        "1; paper: 1-2",
        "mean of a vector, one or several records per user",
    ),
    Protocol(
        "TwoRoundRegression",
        "user-level, pure epsilon",
        "up to 7 (a scale, a vote, 3 waves of coefficients); paper: a vote, then 2",
        "1; votes up to the number of features in bits",
        "comparison with Ma, Jia & Yang (2024); many records per user, known sparsity",
    ),
    Protocol(
        "MultiRoundRegression",
        "user-level, pure epsilon",
        "up to 9 (a scale, a vote, 5 gradient steps); paper: 14",
        "1; votes up to the number of features in bits",
        "comparison with Ma, Jia & Yang (2024); users with few records each",
    ),
    Protocol(
        "NonInteractiveIht",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1",
        "1-2; paper: 4 a feature",
        "sparse linear regression in one round",
    ),
    Protocol(
        "LabelLdpIht",
        "labels only, pure epsilon or (epsilon, delta)",
        "1, or 2 with a bought scale",
        "4 a label (a bit: 1), and the public features",
        "sparse linear regression where features are public and answers are not",
    ),
    Protocol(
        "DpIht",
        "record-level in silos, (epsilon, delta)",
        "50, all silos in each",
        "4 a feature",
        "sparse linear or logistic regression over silos with many records each",
    ),
    Protocol(
        "PeelingDpIht",
        "record-level in silos, (epsilon, delta)",
        "5, all silos in each",
        "8 a coefficient",
        "the same with very many features and one or few silos",
    ),
    Protocol(
        "ConstrainedMean",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1, non-interactive",
        "1; paper: 4 per dimension",
        "sparse mean of hundreds or thousands of features, in one message",
    ),
    Protocol(
        "ConstrainedRegression",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1, non-interactive",
        "1; paper: 4 per dimension",
        "linear regression with up to 98 features (more: projected), in one message",
    ),
    Protocol(
        "KernelRidgeRegression",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1, non-interactive",
        "1; paper: 4 per Fourier feature",
        "a smooth function of one or two features, in one message",
    ),
    Protocol(
        "SmoothGlm",
        "user-level, pure epsilon; paper: (epsilon, delta)",
        "1, non-interactive",
        "1; paper: 12 per dimension and more",
        "logistic regression with few features, in one message",
    ),
    Protocol(
        "KnowledgeTransfer",
        "silo-level, pure epsilon",
        "3 (waves of silos)",
        "1",
        "silos hand over sparse models, each protected as a whole: some 1,000 silos or more",
    ),
    Protocol(
        "PeelingTransfer",
        "record-level in silos, (epsilon, delta)",
        "5 for each silo",
        "8 a coefficient",
        "the same with a few silos, whose records are protected one by one",
    ),
    Protocol(
        "PrivateFrankWolfe",
        "record-level in silos, (epsilon, delta)",
        "2 a coefficient, all silos in each",
        "8",
        "sparse regression over silos with correlated features, of which few records speak",
    ),
    Protocol(
        "TwoStageRegression",
        "record-level in silos, (epsilon, delta)",
        "6, all silos in each",
        "some 4 a coefficient",
        "sparse logistic regression over silos with few records",
    ),
    Protocol(
        "PrivateEvaluation",
        "user-level, pure epsilon",
        "3 (a baseline, two differences)",
        "1",
        "R2 and loss of a given linear model over users, with a standard error",
    ),
]
