"""Progress of a run, which callbacks receive after the census and after each step."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ldp_flower.monitoring.gauges import Gauge, Sample

from .live_run import LiveRun
from .result import Result

logger = logging.getLogger("flwr")

#: Number of estimates that gauges have; the result has all.
MAX_ESTIMATES = 20
# Codes of errors that are labels: another schema (-1), Flower's, and ours. A hostile node may send
# any number, and each would be a time series.
_CODES = range(-1, 128)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """State of a run after the census, after a step or at its end.

    It holds what the server knows: counts of replies, costs, and what the strategy releases.

    Attributes
    ----------
    strategy : str
        Name of the strategy's class.
    result : Result
        Facts of the run so far; in a finished run the strategy's result.
    finished : bool
        True if the run has its result.
    error : BaseException, optional
        The exception that ended the run, if one did.
    seconds : float
        Seconds since the call of ``start``.
    planned_steps : int, optional
        Number of steps to come and so far, if the protocol knows it.
    needed : int
        Number of reports with which the last step goes on.
    errors : Counter of int
        Number of error replies of nodes by code, the census included.
    """

    strategy: str
    result: Result
    finished: bool = False
    error: BaseException | None = None
    seconds: float = 0.0
    planned_steps: int | None = None
    needed: int = 0
    errors: Counter[int] = field(default_factory=Counter)

    @property
    def source(self) -> str:
        """The strategy's name, under which monitoring systems list the run."""
        return self.strategy

    @property
    def number(self) -> int:
        """Number of steps so far, without the census."""
        return max(0, len(self.result.steps) - 1)

    def metrics(self) -> dict[str, float]:
        """Return the last step's metrics, and those of the server's own evaluation.

        The names of the latter begin with ``evaluate.``.
        """
        own: dict[str, Any] = {**self.result.train_metrics_clientapp.get(self.number, {})}
        evaluated: Any = self.result.evaluate_metrics_serverapp.get(self.number, {})
        own |= {f"evaluate.{name}": value for name, value in evaluated.items()}
        return {name: float(each) for name, each in own.items() if isinstance(each, int | float)}

    def gauges(self) -> list[Gauge]:
        """Return the state as gauges for monitoring systems; docs/monitoring.md lists them."""
        result, last = self.result, self.result.steps[-1:]
        running, cost = not self.finished and self.error is None, result.privacy
        numbers: dict[str, tuple[str, float | None]] = {
            "running": ("1 while the run is under way.", running),
            "failed": ("1 if an error ended the run.", self.error is not None),
            "users": ("Users in the census.", result.num_users),
            "steps": ("Steps so far.", self.number),
            "steps_planned": ("Planned steps.", self.planned_steps),
            "seconds": ("Seconds from the start to the last step.", self.seconds),
            "reports": ("Reports used so far.", result.num_reports),
            "reports_needed": ("Reports with which the last step goes on.", self.needed),
            "epsilon": ("Largest epsilon of one person so far.", cost.epsilon if cost else None),
            "delta": ("Largest delta of one person so far.", cost.delta if cost else None),
        }
        found = [
            self._gauge(name, text, [({}, float(value))])
            for name, (text, value) in numbers.items()
            if value is not None
        ]
        counts = [({"count": name}, n) for step in last for name, n in step.counts().items()]
        codes = Counter[str]()
        for code, times in self.errors.items():
            codes[str(code) if code in _CODES else "other"] += times
        errors = [({"code": code}, times) for code, times in codes.items()]
        return [
            *found,
            self._gauge("last_step", "Counts of the last step, of nodes in the census.", counts),
            self._gauge("errors", "Error replies of nodes so far, by code.", errors),
            *self._estimates(),
        ]

    def _estimates(self) -> list[Gauge]:
        try:
            known = self.result.estimates()
        except NotImplementedError:
            return []
        values = zip(known.names, known.values, known.std_errors, strict=True)
        shown = [(name, *each) for name, *each in values if all(map(math.isfinite, each))]
        labelled = [({"name": name}, *each) for name, *each in shown[:MAX_ESTIMATES]]
        estimates, errors = [each[:2] for each in labelled], [each[::2] for each in labelled]
        return [
            self._gauge("estimate", "Estimates of the result.", estimates),
            self._gauge("std_error", "Standard errors of the estimates.", errors),
        ]

    def _gauge(self, name: str, text: str, samples: Iterable[Sample]) -> Gauge:
        own = [({"strategy": self.strategy, **labels}, float(n)) for labels, n in samples]
        return Gauge(f"ldp_flower_server_{name}", own, text)


#: Function that is called with the progress of a run.
Callback = Callable[[Progress], object]


class Reporter:
    """The callbacks of one run. A run that ends by an exception is reported, too.

    A failing callback is logged and not called again: users have paid for the run, and it goes on.
    """

    def __init__(self, strategy: object, callbacks: Iterable[Callback]) -> None:
        if not isinstance(callbacks, Iterable) or not all(map(callable, own := list(callbacks))):
            raise ValueError(f"Expected callbacks to be a list of functions, got {callbacks!r}.")
        self._callbacks = own
        self._began = time.monotonic()
        name = type(strategy).__name__
        self._known: dict[str, Any] = {"strategy": name, "result": Result(strategy=name)}

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def report(self, run: LiveRun, result: Result | None = None) -> None:
        """Call all callbacks with the state of a run; at the end ``result`` is its result."""
        if not self._callbacks:
            return
        facts = replace(run.facts, steps=[*run.facts.steps])  # later steps are not added to these
        self._known |= {
            "result": facts if result is None else result,
            "planned_steps": run.planned_steps,
            "needed": run.needed,
            "errors": run.kept.error_codes(),
        }
        self._tell(finished=result is not None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._tell(error=error)

    def _tell(self, **state: Any) -> None:
        progress = Progress(seconds=self.seconds, **self._known, **state)
        for callback in list(self._callbacks):
            try:
                callback(progress)
            except Exception:
                logger.exception("A callback failed and is not called again: %r", callback)
                self._callbacks.remove(callback)
