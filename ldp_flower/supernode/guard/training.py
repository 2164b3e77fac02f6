"""A guarded node: the run's own code trains, and the operator's own side reports."""

import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MessageType, RecordDict

from ldp_flower.clients import LdpUpdateMod
from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.parameters import parameters_of

from ..run import Operator, Run
from .sandbox import Sandbox, SandboxError

_NUMBER: Final = np.dtype("<f8")
_AFTERWARDS: Final = 5  # seconds to end what training has started, to randomise and to pay
_log = logging.getLogger("flwr")  # what a node logs


@dataclass(frozen=True)
class Guarded:
    """Answers training messages: the run's app trains in a sandbox, one report leaves.

    The app needs no mod. What it returns is taken apart in the sandbox; out of it comes one
    float64 for each parameter of the model that the server sent, and nothing else. From
    there on it is what :class:`~ldp_flower.clients.LdpUpdateMod` does with an update: clip,
    randomise, pay, reply.

    Parameters
    ----------
    sandbox : Sandbox
        Where the app trains.
    queries : Operator, optional
        What answers all messages but those that train; by default they are refused.

    Guarantee
    ---------
    1. That of :class:`~ldp_flower.clients.LdpUpdateMod`, whatever app is submitted: the code
       of a run is never imported, or unpacked, by the process that has ledger and network.
    2. What the sandboxed process returns has a size that the message alone decides. Fewer
       bytes, or none in time, count as the update 0.
    3. The app runs only for a message whose cost is on the ledger already. The census, a
       refused query, a repeated one and a rehearsal run nothing of it: their content depends on
       no code of a run. An app that cannot be loaded trains to the update 0, at the same cost.
    4. No metric leaves, whatever the operator or the app call public; no file and no process is
       kept from one message to the next; the app is not told the operator's limits, ledger or
       user.
    5. Not covered: what training changes on the machine outside its own message. These are the
       kernel's page cache (which files below ``/usr`` and Python are in memory), the load of
       processor, memory and disk, the size of the node's log, and so the time of other replies,
       free ones too. ``reply-after`` hides only the part of the time after the answering process
       has read the message. Training for another user on the same machine can read the page
       cache and report it at that user's expense: the guarantee for a user then needs the sum
       over all guarded nodes of the machine.
    6. Not covered either: how long training takes, where it is longer than ``reply-after``; holes
       of the kernel; and all of 1 for an operator who takes ``Sandbox(kind="none")``.
    """

    sandbox: Sandbox
    queries: Operator | None = None

    @property
    def name(self) -> str:
        """What the log says has answered."""
        return LdpUpdateMod.__name__

    @property
    def fate(self) -> str:
        """What the log says has become of the run's own app."""
        where = "a sandbox" if self.sandbox.kind != "none" else "a process of its own"
        return f"may have trained, in {where}"

    def check(self, node_config: Mapping[str, object]) -> None:
        """Raise SandboxError if training would not be kept apart under an operator's settings."""
        if "public-metrics" in node_config:
            raise SandboxError(
                "Expected no public-metrics in node_config: with guarded training their values "
                "are whatever a run's code takes from the data."
            )
        policy = PrivacyPolicy.from_node_config(node_config)
        seconds = self.sandbox.limits.seconds
        if policy is not None and 0 < policy.reply_after < seconds + _AFTERWARDS:
            raise SandboxError(
                f"Expected training to be ended {_AFTERWARDS} s before replies leave "
                f"(reply-after, {policy.reply_after:g} s), got {seconds} s for it."
            )
        ledger = node_config.get("ledger-path")
        self.sandbox.check([Path(ledger).expanduser()] if isinstance(ledger, str) else [])

    def answer(self, message: Message, context: Context, run: Run) -> Message:
        """Return a report of what the run's app learns."""
        trains = message.metadata.message_type.partition(".")[0] == MessageType.TRAIN
        if self.queries is not None and not trains:
            return self.queries.answer(message, context, run)
        rehearses = context.node_config.get("rehearsal", False)  # which the mod checks

        def train(inner: Message, own: Context) -> Message:
            return inner if rehearses else self._train(inner, own, run)

        return LdpUpdateMod()(message, context, train)

    def _train(self, message: Message, context: Context, run: Run) -> Message:
        """Let the run's app train, and return the model that it made."""
        ((name, model),) = message.content.array_records.items()
        shapes = {key: array.shape for key, array in parameters_of(model).items()}
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        request = pickle.dumps(  # for the sandbox; nothing that comes out of it is unpickled
            {
                "fab": run.fab,
                "message": message,
                "context": _for_strangers(context),
                "name": name,
                "shapes": shapes,
            }
        )
        answer = _answer(self.sandbox, request, sum(sizes) * _NUMBER.itemsize)
        parts = np.split(np.frombuffer(answer, _NUMBER), np.cumsum(sizes)[:-1])
        arrays = {
            key: Array(part.reshape(shape))
            for (key, shape), part in zip(shapes.items(), parts, strict=True)
        }
        return Message(RecordDict({name: ArrayRecord(arrays)}), reply_to=message)


def _answer(sandbox: Sandbox, request: bytes, size: int) -> bytes:
    """Return what a process in the sandbox answers; what it prints goes to the log."""
    stranger = sandbox.start()
    try:
        with stranger:
            return stranger.answer(request, size)
    finally:
        if stranger.output:
            _log.info("The run's app has printed:\n%s", stranger.output)


def _for_strangers(context: Context) -> Context:
    """Return a context without state, and without what the operator tells this library."""
    config = context.node_config
    own = {key: config[key] for key in PrivacyPolicy.unknown_settings(config)}
    return replace(context, node_config=own, state=RecordDict())
