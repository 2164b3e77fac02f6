"""Attacks on a node that trains networks: the effect of one record, and the law of the noise.

With a linear network and one step on all records, the noisy sum of clipped gradients can be
computed from a reply: the sent parameters minus the returned ones, times the number of records,
divided by the learning rate.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray
from scipy.stats import kstest

from ..clients import NetworkClientApp
from ..guarantee.training import ARRAYS, NETWORK, NetworkRound
from ..models import Graph, Network
from ..models.graph import Operation, Reference, Tensor
from ..randomizers.real_valued.dp_sgd import DpSgdPlan
from ..randomness import KeyedRandom, derive
from ..simulation import InProcessGrid
from ..simulation.grid import silenced
from ..validation import Floats, Fraction, check_integer, check_seed, plain_arguments
from .distinguish import bound_from_sums
from .extreme_users import one_changed
from .handler import Checked
from .probe import replies_to

Records = tuple[NDArray[np.float32], NDArray[np.float32]]
LoadRecords = Callable[[Context], tuple[Any, Any]]
MakeApp = Callable[[LoadRecords, int | None], ClientApp]

_DELTA, _RATE = 1e-3, 1.0
_COUNTS = (1, 3, 40)  # numbers of records of a silo
_MAGNITUDES = (1e-3, 1.0, 1e3, 1e9, 1e30, np.inf, np.nan)


@dataclass(frozen=True, kw_only=True)
class NetworkAudit(Checked):
    """Result of an audit of one step of a node that trains networks.

    The checks:

    * ``loss``: the measured lower bound of the privacy loss is not above the claimed epsilon;
    * ``record bound``: the replacement of one record moved the sum of clipped gradients by no more
      than twice the clipping norm, except for rounding of a reply;
    * ``noise``: the noise is normal with the plan's standard deviation (Kolmogorov & Smirnov);
      honest noise passes with probability ``confidence``;
    * ``replay``: the same message got the same bytes again, and another message got other bytes.
    """

    #: Delta of the plan.
    delta: float
    #: Largest distance between the sums of two silos that differ in one record, divided by the
    #: bound to which gradients are clipped. It must be at most 2.
    moved: float


@plain_arguments
def audit_network(
    epsilon: float,
    dim: int,
    *,
    make_app: MakeApp | None = None,
    num_reports: int = 1000,
    confidence: Fraction = 0.999,
    seed: int | None = None,
) -> NetworkAudit:
    """Return the result of an audit of a node that trains networks, by one step of a linear one.

    Parameters
    ----------
    epsilon : float
        The plan's epsilon.
    dim : int
        Number of parameters.
    make_app : callable, optional
        Function from ``load_records`` and ``seed`` to the ClientApp under audit; by default
        :class:`ldp_flower.clients.NetworkClientApp`.
    num_reports : int (default: 1000)
        Number of replies about each of two silos.
    confidence : float (default: 0.999)
        See :class:`NetworkAudit`.
    seed : int, optional
        Seed that makes the audit reproducible; by default, the system's randomness is used.

    Raises
    ------
    ValueError
        If an argument is out of range.
    RuntimeError
        If the node refuses to answer.
    """
    check_integer("num_reports", num_reports, 100)
    check_integer("dim", dim, 2)
    check_seed("seed", seed)
    plan = DpSgdPlan(epsilon, _DELTA, 1, 1, 1.0, 1.0)
    node = _Silo(plan, dim, make_app or (lambda load, own: NetworkClientApp(load, seed=own)))
    alpha = 1 - confidence
    with silenced("ldp_flower"):  # the data are invalid on purpose, so nodes would log warnings
        moved = max(node.diameter(silos) for silos in _neighbouring(dim))
        first, second = _opposite(dim)
        ours = node.sums(first, num_reports, seed)
        theirs = node.sums(second, num_reports, None if seed is None else seed + num_reports)
        replayed = node.replays(first)
    first_numbers = {"ours": ours[:, :1], "theirs": theirs[:, :1]}
    measured, _ = bound_from_sums(first_numbers, 1, plan.delta, alpha)
    sigma = plan.noise_multiplier * plan.max_grad_norm
    half = num_reports // 2
    noise = (ours[:half] - ours[half : 2 * half]) / (np.sqrt(2) * sigma)  # same records in both
    return NetworkAudit(
        claimed=plan.epsilon,
        delta=plan.delta,
        measured=measured,
        confidence=confidence,
        moved=moved,
        checks={
            "loss": measured <= plan.epsilon,
            "record bound": bool(moved <= 2 + node.rounding),
            "noise": bool(kstest(noise.ravel(), "norm").pvalue > alpha),
            "replay": replayed,
        },
    )


class _Silo:
    """Silo that is asked for one training step on its records."""

    def __init__(self, plan: DpSgdPlan, dim: int, make_app: MakeApp) -> None:
        self._plan, self._make_app = plan, make_app
        product = Operation("aten.mm.default", (Reference(None), Reference("w")), {})
        weight = Tensor("float32", (dim, 1), True)
        graph = Graph(Tensor("float32", (dim,)), {"w": weight}, (product,), Reference(0), "mse")
        self._network = Network(graph, {"w": np.zeros((dim, 1), np.float32)})
        # Bound on the rounding error of a reply of four-byte numbers, if the noise has up to ten
        # standard deviations; it is in units of the clipping norm.
        self.rounding = 2.0**-23 * 10 * plan.noise_multiplier * np.sqrt(dim)

    def _grid(self, records: Records, seed: int | None) -> InProcessGrid:
        return InProcessGrid(self._make_app(lambda _: records, seed), 1)

    def _sum(self, grid: InProcessGrid, records: Records, salt: int) -> Floats:
        """Return the noisy sum of a silo's gradients, computed from the model in its reply."""
        text = self._network.graph.to_text()
        asked = NetworkRound(text, self._plan, "sgd", _RATE, salt, 1)
        start = ArrayRecord({"w": Array(self._network.arrays["w"])})
        content = RecordDict({ARRAYS: start, NETWORK: asked.to_config()})
        (reply,) = replies_to(grid, "train", [content])
        found = reply.content.array_records[ARRAYS]["w"].numpy().astype(np.float64)
        return np.asarray(-found[:, 0] * len(records[0]) / _RATE)

    def sums(self, records: Records, number: int, seed: int | None) -> Floats:
        """Return ``number`` noisy sums of the same silo's gradients, shape (number, dim)."""
        seeds = [None if seed is None else seed + i for i in range(number)]
        return np.array([self._sum(self._grid(records, own), records, 1) for own in seeds])

    def diameter(self, silos: list[Records]) -> float:
        """Return the largest distance between silos' sums with the same noise.

        It is in units of the length to which gradients are clipped.
        """
        sums = np.array([self._sum(self._grid(records, 1), records, 1) for records in silos])
        distances = np.linalg.norm(sums[:, None] - sums[None], axis=-1)
        return float(distances.max()) / self._plan.max_grad_norm

    def replays(self, records: Records) -> bool:
        """Return True if the same message gets the same sum, and a new message another sum."""
        grid = self._grid(records, None)
        one, again, other = (self._sum(grid, records, salt) for salt in (1, 1, 2))
        return bool((one == again).all() and (one != other).any())


def _opposite(dim: int) -> tuple[Records, Records]:
    """Return two silos of one record each, with opposite gradients of the largest length."""
    row = np.zeros((1, dim), np.float32)
    row[0, 0] = 10.0
    target = np.full(1, 10.0, np.float32)
    return (row, target), (row, -target)


def _neighbouring(dim: int) -> Iterator[list[Records]]:
    """Yield lists of silos; any two silos in a list differ in one record."""
    for count in _COUNTS:
        drawn = KeyedRandom(derive(np.arange(count))).normals((count, dim + 1)).astype(np.float32)
        rows, targets = drawn[:, :dim], drawn[:, dim]
        for place in sorted({0, count - 1}):
            yield list(one_changed(rows, targets, place, _MAGNITUDES))
