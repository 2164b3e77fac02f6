"""The claimed epsilon and delta, read from DP mods and wrappers at run time."""

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)

from ...accounting import noise_multiplier_epsilon
from ...clients.node import Node
from ...clients.private_training.record_mod import RecordDpSgdMod
from ...guarantee.budget import Cost
from ...guarantee.messages import Query
from ...randomizers import RecordMechanism
from ...randomness import RandomSource, SystemRandom
from ..entering import replaced

_WRAPPERS = (
    DifferentialPrivacyServerSideFixedClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyClientSideAdaptiveClipping,
)


@dataclass(frozen=True)
class LocalNoise:
    """A LocalDpMod as it was attached."""

    clip: float
    sensitivity: float
    epsilon: float
    delta: float

    @property
    def noise(self) -> float:
        """Standard deviation of its noise over its clip."""
        if not 0 < self.delta < 1.25 or not self.sensitivity:
            return 0.0 if self.epsilon else math.inf
        if not self.epsilon:
            return math.inf
        return (
            self.sensitivity / self.clip * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
        )

    def true_epsilon(self, answers: int, delta: float | None = None) -> float:
        """Return what so many answers truly cost, at a delta or its own."""
        delta = self.delta if delta is None else delta
        if not self.noise or not 0 < delta < 1:
            return math.inf
        if math.isinf(self.noise):
            return 0.0
        return noise_multiplier_epsilon([self.noise] * answers, delta)

    def __str__(self) -> str:
        return (
            f"LocalDpMod(clipping_norm={self.clip:g}, sensitivity={self.sensitivity:g}, "
            f"epsilon={self.epsilon:g}, delta={self.delta:g})"
        )


@dataclass(frozen=True)
class Paid:
    """What a question cost each user whose hash, with a salt, lies in ``[low, high)``."""

    cost: Cost
    salt: int
    low: int
    high: int


def per_user(paid: Iterable[Paid]) -> Cost:
    """Return what questions cost one user at most.

    Costs add up where cohorts overlap; the sum is largest at the low end of one. A plan is paid
    once. Hashes with another salt are independent: a user may lie in the dearest place of each.
    """
    found: dict[int, list[Paid]] = {}
    for each in paid:
        found.setdefault(each.salt, []).append(each)
    dearest = []
    for those in found.values():
        places = [
            {
                each.cost.plan or number: each.cost
                for number, each in enumerate(those)
                if each.low <= place.low < each.high
            }
            for place in those
        ]
        dearest.append([list(costs.values()) for costs in places])
    return Cost(
        sum(max(sum(float(c.epsilon) for c in costs) for costs in own) for own in dearest),
        sum(max(sum(c.delta for c in costs) for costs in own) for own in dearest),
    )


@dataclass
class Claims:
    """What was seen at work.

    Attributes
    ----------
    epsilon, delta : float or None
        What the app's owner claims of a whole run; None: what is attached claims.
    asked_unit : str or None
        Whose data the owner wants neighbours to differ in, ``node`` or ``record``; None: whose
        data what is attached protects.
    seen_unit : str
        Whose data that is.
    local : dict of str to LocalNoise
        Flower's mod, by type of message.
    own : dict of str to Paid
        This library's clients: who paid for a question that was answered, by its digest, or for
        a plan, by its name.
    own_kinds : set of str
        Types of messages that they answer.
    kind : str
        Type of the message that is being answered.
    wrappers : list of str
        Flower's wrappers for a trusted server.
    opacus : list of str
        Opacus at work, in words.
    engines : list of (str, object)
        Its engines, by the type of message that they were made for.
    """

    epsilon: float | None = None
    delta: float | None = None
    asked_unit: str | None = None
    seen_unit: str = "node"
    local: dict[str, LocalNoise] = field(default_factory=dict)
    own: dict[str, Paid] = field(default_factory=dict)
    wrappers: list[str] = field(default_factory=list)
    own_kinds: set[str] = field(default_factory=set)
    kind: str = ""
    opacus: list[str] = field(default_factory=list)
    engines: list[tuple[str, Any]] = field(default_factory=list)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Notice every protection that runs inside this context.

        A simulation's seed, which deployments refuse, is left aside: its noise would repeat.
        """
        called, answer_once, census = LocalDpMod.__call__, Node.answer_once, Node.census
        trained_by = RecordDpSgdMod._answer

        def local(mod: Any, message: Message, context: Context, call_next: Any) -> Message:
            self.local[message.metadata.message_type] = LocalNoise(
                float(mod.clipping_norm),
                float(mod.sensitivity),
                float(mod.epsilon),
                float(mod.delta),
            )
            reply: Message = called(mod, message, context, call_next)
            return reply

        def answer(node: Node, query: Query, *rest: Any, **how: Any) -> Any:
            self.own_kinds.add(self.kind)
            if isinstance(query.randomizer, RecordMechanism):
                self.seen_unit = "record"
            report = answer_once(node, query, *rest, **how)
            cost = Cost.of(query.randomizer, query.salt)
            self.own[query.digest()] = Paid(cost, query.salt, query.low, query.high)
            return report

        def counted(node: Node) -> dict[str, int]:
            self.own_kinds.add(self.kind)
            return census(node)

        def trained(mod: RecordDpSgdMod, *rest: Any) -> RecordDict:
            self.seen_unit = "record"
            reply = trained_by(mod, *rest)
            self.own[mod.plan.name] = Paid(Cost(mod.plan.epsilon, mod.plan.delta), 0, 0, 1)
            return reply

        def system(node: Node, *_: Any) -> RandomSource:
            return SystemRandom()

        with ExitStack() as stack:
            stack.enter_context(replaced(LocalDpMod, __call__=local))
            stack.enter_context(
                replaced(Node, answer_once=answer, census=counted, private_randomness=system)
            )
            stack.enter_context(replaced(RecordDpSgdMod, _answer=trained))
            for wrapper in _WRAPPERS:
                stack.enter_context(replaced(wrapper, configure_train=self._wrapped(wrapper)))
            self._hear_opacus(stack)
            yield

    def _wrapped(self, wrapper: Any) -> Any:
        original = wrapper.configure_train

        def configure_train(strategy: Any, *args: Any, **kwargs: Any) -> Any:
            told = (
                f"{wrapper.__name__}(noise_multiplier={strategy.noise_multiplier:g}, "
                f"clipping_norm={strategy.clipping_norm:g}, "
                f"num_sampled_clients={strategy.num_sampled_clients})"
            )
            if told not in self.wrappers:
                self.wrappers.append(told)
            return original(strategy, *args, **kwargs)

        return configure_train

    def _hear_opacus(self, stack: ExitStack) -> None:
        import sys

        engine: Any = getattr(sys.modules.get("opacus"), "PrivacyEngine", None)
        if engine is None:
            return
        make_private = engine.make_private

        def made(self_: Any, *args: Any, **kwargs: Any) -> Any:
            told = (
                f"Opacus (noise_multiplier={kwargs.get('noise_multiplier', '?')}, "
                f"max_grad_norm={kwargs.get('max_grad_norm', '?')})"
            )
            if told not in self.opacus:
                self.opacus.append(told)
            self.seen_unit = "record"
            self.engines.append((self.kind, self_))
            return make_private(self_, *args, **kwargs)

        stack.enter_context(replaced(engine, make_private=made))

    def of_run(self) -> tuple[float | None, float]:
        """Return epsilon, or None, and delta that are claimed of a whole run."""
        own = per_user(self.own.values())
        delta = self.delta
        if delta is None:
            delta = sum(local.delta for local in self.local.values()) + own.delta
        if self.epsilon is not None:
            return self.epsilon, delta
        if not self.local and not self.own:
            return None, delta
        return sum(local.epsilon for local in self.local.values()) + float(own.epsilon), delta

    def of_opacus(self, answered: dict[str, int], answers: dict[str, int], delta: float) -> float:
        """Return what Opacus' own accountant says of a run of so many answers, of those heard."""
        from opacus.accountants import PRVAccountant

        accountant = PRVAccountant()
        for kind, engine in self.engines:
            times = answers.get(kind, 1) / max(answered.get(kind, 1), 1)
            for noise, rate, steps in engine.accountant.history:
                accountant.history.append((noise, rate, max(round(steps * times), 1)))
        return float(accountant.get_epsilon(delta=delta))

    @property
    def unit(self) -> str:
        """Whose data neighbours differ in, ``node`` or ``record``."""
        return self.asked_unit or self.seen_unit

    @property
    def named(self) -> list[str]:
        """Every protection in words."""
        told = [f"{local} on {kind}" for kind, local in self.local.items()]
        if self.own:
            told.append(f"{len(self.own)} question(s) or plan(s) of ldp-flower")
        return [*told, *self.opacus, *self.wrappers]
