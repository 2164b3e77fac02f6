"""Export of gauges to OpenTelemetry, which sends them where its provider says."""

from typing import Any

from .gauges import Measured, library


class OpenTelemetryExport:
    """Export to OpenTelemetry: a callback of runs, whose last states are metrics.

    Parameters
    ----------
    provider : opentelemetry.metrics.MeterProvider, optional
        Provider of the meter, with its readers and exporters; by default the global one.

    Raises
    ------
    ImportError
        If opentelemetry is not installed (the extra ``monitoring``).
    """

    def __init__(self, provider: Any = None) -> None:
        metrics = library("opentelemetry.metrics", '"ldp-flower[monitoring]"')
        self._meter = metrics.get_meter("ldp_flower", meter_provider=provider)
        self._gauges: dict[str, Any] = {}

    def __call__(self, measured: Measured) -> None:
        """Set the metrics to those of the present state."""
        for gauge in measured.gauges():
            if gauge.name not in self._gauges:
                own = self._meter.create_gauge(gauge.name, description=gauge.help)
                self._gauges[gauge.name] = own
            for labels, value in gauge.samples:
                self._gauges[gauge.name].set(value, labels)
