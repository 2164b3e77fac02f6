"""Options of an audit of an app."""

from dataclasses import dataclass

from ...validation import Count, PlainFields, Positive, check_fraction
from .loading import RunConfig


@dataclass(frozen=True)
class Options(PlainFields):
    """Options of an audit of an app.

    ``loader`` names the app's function that returns its data. The default is the declared function,
    or the function with a usual name (``load_data``). ``config`` and ``node_config`` are settings
    of the app and of a node's operator. ``nodes`` is the number of nodes, by default the project's
    number, or 10. ``claim``, ``delta`` and ``unit`` (``node`` or ``record``) are the claim for a
    whole run, by default the claim of the attached mechanisms. ``runs`` is the number of compared
    runs with noise on each data set. The default is as many runs as take ``seconds`` of CPU time.
    With a given number of runs, the audit is the same on any machine.
    """

    loader: str | None = None
    config: RunConfig | None = None
    node_config: RunConfig | None = None
    nodes: Count | None = None
    claim: Positive | None = None
    delta: float | None = None
    unit: str | None = None
    seconds: Positive = 10.0
    runs: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if "ledger-path" in (self.node_config or {}):
            raise ValueError(
                "Expected node_config without ledger-path: an audit would spend the budgets there."
            )
        if self.delta is not None and self.delta != 0:
            check_fraction("delta", self.delta)
        if self.unit not in (None, "node", "record"):
            raise ValueError(f"Expected unit in ['node', 'record'], got {self.unit!r}.")
