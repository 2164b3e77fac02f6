"""Claims of an app's mechanisms, read when they run, and their exact cost."""

import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp.mod import LocalDpMod

from ...accounting import noise_multiplier_epsilon
from ...clients.node import Node
from ...clients.private_training.record_mod import RecordDpSgdMod
from ...randomness import SystemRandom
from ..probe import replaced


@dataclass(frozen=True)
class LocalNoise:
    """Parameters of Flower's LocalDpMod, as the app under audit sets them."""

    clip: float
    sensitivity: float
    epsilon: float
    delta: float

    @property
    def noise(self) -> float:
        """Standard deviation of the mod's noise, divided by its clip."""
        if not (self.epsilon and self.sensitivity and 0 < self.delta < 1.25):
            return 0.0 if self.epsilon else math.inf
        noise = self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
        return noise / self.clip

    def true_epsilon(self, answers: int, delta: float) -> float:
        """Return the exact epsilon of ``answers`` answers together, at ``delta``.

        It may be larger than the epsilon that the mod states for one answer.
        """
        if not self.noise or not 0 < delta < 1:
            return math.inf
        if math.isinf(self.noise):
            return 0.0
        return noise_multiplier_epsilon([self.noise] * answers, delta)


@dataclass
class Claims:
    """Privacy that the app's owner claims for a whole run, and mechanisms that the app has run.

    The audit observes which privacy mechanisms run.
    """

    epsilon: float | None = None
    delta: float | None = None
    asked_unit: str | None = None
    seen_unit: str = "node"  # unit of the observed mechanisms
    kind: str = ""  # type of the message that is being answered
    local: dict[str, LocalNoise] = field(default_factory=dict)  # by type of message
    own_kinds: set[str] = field(default_factory=set)  # types of messages this library answers
    opacus: set[str] = field(default_factory=set)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record the parameters of every privacy mechanism that runs inside this context.

        Flower's LocalDpMod, this library's clients and Opacus are recognised.
        """
        called = LocalDpMod.__call__

        def local(mod: Any, message: Message, context: Context, call_next: Any) -> Message:
            numbers = (mod.clipping_norm, mod.sensitivity, mod.epsilon, mod.delta)
            self.local[message.metadata.message_type] = LocalNoise(*map(float, numbers))
            reply: Message = called(mod, message, context, call_next)
            return reply

        def own(original: Any) -> Any:
            def answered(*args: Any, **kwargs: Any) -> Any:
                if self.kind:  # unknown while the server runs
                    self.own_kinds.add(self.kind)
                return original(*args, **kwargs)

            return answered

        def make_private(opacus: Any, *args: Any, **kwargs: Any) -> Any:
            noise, norm = (kwargs.get(name, "?") for name in ("noise_multiplier", "max_grad_norm"))
            self.opacus.add(f"Opacus (noise_multiplier={noise}, max_grad_norm={norm})")
            self.seen_unit = "record"
            return made(opacus, *args, **kwargs)

        engine: Any = getattr(sys.modules.get("opacus"), "PrivacyEngine", None)
        made: Any = getattr(engine, "make_private", None)
        answers = {name: own(getattr(Node, name)) for name in ("answer_once", "census")}
        # A simulation's seed, which deployments refuse, would let noise repeat.
        answers["private_randomness"] = lambda *_: SystemRandom()
        with ExitStack() as stack:
            stack.enter_context(replaced(LocalDpMod, __call__=local))
            stack.enter_context(replaced(Node, **answers))
            stack.enter_context(replaced(RecordDpSgdMod, _answer=own(RecordDpSgdMod._answer)))
            if engine is not None:
                stack.enter_context(replaced(engine, make_private=make_private))
            yield

    def of_run(self) -> tuple[float | None, float]:
        """Return the epsilon and delta that are claimed for a whole run; epsilon may be None."""
        local = self.local.values()
        delta = sum(each.delta for each in local) if self.delta is None else self.delta
        if self.epsilon is not None or not local:
            return self.epsilon, delta
        return sum(each.epsilon for each in local), delta

    @property
    def unit(self) -> str:
        """Unit whose data differ between neighbours, ``node`` or ``record``."""
        return self.asked_unit or self.seen_unit
