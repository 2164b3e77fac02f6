"""Cells: a method at an epsilon and a seed, how it is filled, and what is kept of it."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, MetricRecord

from ..guarantee.training import flattened, parameters_of, with_parameters
from ..validation import Floats
from .jobs import METHODS, Job, Plan
from .nodes import App, AppNodes, CannotCompareError

_MEASURED = 50  # nodes whose updates say how long updates are
_JUDGES = 500  # nodes that evaluate, if the server does not
KEY = ("settings", "method", "epsilon", "seed")
COLUMNS = (
    *KEY,
    *("metric", "score", "true_epsilon", "delta", "unit", "trusted", "rounds"),
    *("bytes_per_node", "failures", "seconds", "notes"),
)


@dataclass(frozen=True)
class Cell:
    """A method at an epsilon and a seed; ``settings`` is the digest of all else."""

    settings: str
    method: str
    epsilon: float
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies its row in the file."""
        return self.settings, self.method, f"{self.epsilon:g}", str(self.seed)

    @property
    def label(self) -> str:
        """What to show while it runs."""
        epsilon = f", epsilon {self.epsilon:g}" if math.isfinite(self.epsilon) else ""
        return f"{self.method}{epsilon}, seed {self.seed}"


class Runner:
    """Fills cells by a plan, with the app that ``load`` returns at a seed."""

    def __init__(self, load: Callable[[int], App], plan: Plan) -> None:
        self._plan = plan
        self._load = lru_cache(maxsize=1)(load)
        self._clip = lru_cache(maxsize=1)(self._measured_clip)

    def check(self) -> None:
        """Train some nodes and judge the initial model; raise CannotCompareError if that fails."""
        app = self._load(0)
        if not len(flattened(parameters_of(app.initial_arrays))):
            raise CannotCompareError(
                "Expected initial_arrays with at least one array of floats, got none."
            )
        AppNodes(app, self._plan.num_nodes).check()
        self._clip(0)
        self._judged(app, app.initial_arrays, 0)

    def __call__(self, cell: Cell) -> dict[str, Any]:
        """Return the row of a cell."""
        app = self._load(cell.seed)
        job = Job(app, self._plan, cell.seed, self._clip)
        started = time.perf_counter()
        outcome = METHODS[cell.method][0](job, cell.epsilon)
        seconds = time.perf_counter() - started
        metric, score = self._plan.metric or "", math.nan
        if outcome.model is not None:
            arrays = with_parameters(app.initial_arrays, outcome.model)
            metric, score = self._judged(app, arrays, outcome.rounds)
        promised = outcome.guarantee
        return {
            **dict(zip(KEY, cell.key, strict=True)),
            "metric": metric,
            "score": score,
            "true_epsilon": promised.epsilon,
            "delta": promised.delta,
            "unit": promised.unit,
            "trusted": promised.trusted,
            "rounds": outcome.rounds,
            "bytes_per_node": outcome.bytes_per_node,
            "failures": job.nodes.failures,
            "seconds": round(seconds, 3),
            "notes": " ".join(f"{outcome.notes} {job.nodes.reason}".split()),
        }

    def _measured_clip(self, seed: int) -> float:
        """Return the clip: the median length of updates of the initial model, unless one is given.

        Nobody paid for it, and it helps the methods that need a clip.
        """
        if self._plan.clip is not None:
            return self._plan.clip
        app = self._load(seed)
        nodes = np.arange(min(_MEASURED, self._plan.num_nodes))
        initial: Floats = flattened(parameters_of(app.initial_arrays))
        updates = AppNodes(app, self._plan.num_nodes).updates(initial, nodes, 1)
        clip = float(np.median([np.linalg.norm(some, axis=1) for some in updates]))
        if not clip > 0:
            raise CannotCompareError(
                "Expected training that changes the model, got updates of length 0 from half of "
                "the nodes: nothing to clip by. Set clip, or look at the train function."
            )
        return clip

    def _judged(self, app: App, arrays: ArrayRecord, number: int) -> tuple[str, float]:
        found: MetricRecord | None
        if app.evaluate_fn is not None:
            try:
                found = app.evaluate_fn(number, arrays)
            except Exception as error:
                raise CannotCompareError(
                    f"evaluate_fn failed: {type(error).__name__}: {error}"
                ) from error
        else:
            found = AppNodes(app, self._plan.num_nodes).evaluated(arrays, number, _JUDGES)
        numbers = {k: v for k, v in (found or {}).items() if isinstance(v, int | float)}
        if not numbers:
            raise CannotCompareError(
                "Expected metrics of a model, from evaluate_fn or from the app's own function for "
                "messages of type evaluate, got none: pass evaluate_fn=, or "
                "--evaluate MODULE:FUNCTION, with the arguments of Flower's evaluate_fn."
            )
        name = self._plan.metric or _main_metric(numbers)
        if name not in numbers:
            raise CannotCompareError(f"Expected metric in {sorted(numbers)}, got {name!r}.")
        return name, float(numbers[name])


def _main_metric(names: Iterable[str]) -> str:
    """Return the first metric that is not a loss, or else the first."""
    found = list(names)
    return next((name for name in found if "loss" not in name.lower()), found[0])
