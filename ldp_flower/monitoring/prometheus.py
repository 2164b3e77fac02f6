"""Export of gauges to Prometheus, which fetches them over HTTP."""

from collections.abc import Iterable
from typing import Any

from ..validation import check_integer, plain_arguments
from .gauges import Gauge, Measured, library


class PrometheusExport:
    """Export to Prometheus: a callback of runs, whose last states are served as metrics.

    Parameters
    ----------
    port : int or None (default: 9464)
        Port of the page with the metrics. With 0, a free port is taken. With None, nothing is
        served, for a server of the registry that runs already.
    address : str (default: "127.0.0.1")
        Address on which the page is served. By default, it is read on this machine only.
    registry : prometheus_client.CollectorRegistry, optional
        Registry of the metrics; by default a new one.

    Attributes
    ----------
    port : int or None
        Port of the page.

    Raises
    ------
    ImportError
        If prometheus_client is not installed (the extra ``monitoring``).
    """

    @plain_arguments
    def __init__(
        self, port: int | None = 9464, address: str = "127.0.0.1", registry: Any = None
    ) -> None:
        if port is not None:
            check_integer("port", port, 0, 65535)
        self._client = library("prometheus_client", '"ldp-flower[monitoring]"')
        self._latest: dict[str, list[Gauge]] = {}
        registry = self._client.CollectorRegistry() if registry is None else registry
        registry.register(self)
        self._server, self.port = None, port
        if port is not None:
            self._server, _ = self._client.start_http_server(port, address, registry)
            self.port = self._server.server_port

    def __call__(self, measured: Measured) -> None:
        """Replace the metrics of this source by those of its present state."""
        # A new mapping, since a thread of the server may be reading the one before.
        self._latest = {**self._latest, measured.source: measured.gauges()}

    def collect(self) -> Iterable[Any]:
        """Return the metrics of all sources, as prometheus_client asks for them."""
        families: dict[str, Any] = {}
        for gauge in (each for gauges in self._latest.values() for each in gauges):
            family = self._client.Metric(gauge.name, gauge.help, "gauge")
            family = families.setdefault(gauge.name, family)
            for labels, value in gauge.samples:
                family.add_sample(gauge.name, labels, value)
        return families.values()

    def close(self) -> None:
        """Stop serving the page."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
