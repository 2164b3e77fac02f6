"""Gauges: named numbers with labels, in the form that all exports share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

#: Labels by name, and the number that they belong to.
Sample = tuple[dict[str, str], float]

# Escapes in Prometheus' labels.
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True)
class Gauge:
    """Metric with a value for each set of labels, such as the epsilon spent by each run.

    Attributes
    ----------
    name : str
        Name of the metric, the same for all exports.
    samples : sequence of Sample
        Values, each with its labels.
    help : str
        Sentence that describes the metric.
    """

    name: str
    samples: Sequence[Sample]
    help: str = ""


class Measured(Protocol):
    """Protocol of what exports show: the state of a run or of a ledger, as gauges."""

    @property
    def source(self) -> str:
        """Name of what is measured. A later state of the same source replaces this one."""

    def gauges(self) -> list[Gauge]:
        """Return the gauges of this state."""


def as_text(gauges: Iterable[Gauge]) -> str:
    """Return gauges in Prometheus' text format."""
    lines = []
    for gauge in gauges:
        if gauge.help:
            lines.append(f"# HELP {gauge.name} {gauge.help}")
        lines.append(f"# TYPE {gauge.name} gauge")
        for labels, value in gauge.samples:
            shown = (f'{name}="{text.translate(_ESCAPED)}"' for name, text in labels.items())
            braced = f"{{{','.join(shown)}}}" if labels else ""
            lines.append(f"{gauge.name}{braced} {value:.10g}")
    return "\n".join(lines) + "\n"


def library(module: str, package: str) -> Any:
    """Return an optional library; raise ImportError with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(f"{module} is not installed: pip install {package}") from error
