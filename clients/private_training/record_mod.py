"""RecordDpSgdMod lets nothing leave but a model trained by DP-SGD, which an app calls dp_sgd for.

PyTorch is imported with the first training only.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord, RecordDict

from ldp_flower.guarantee.budget import Cost, PrivacyPolicy
from ldp_flower.guarantee.messages import MessageError, Report, Slots
from ldp_flower.guarantee.training import RIDER, digest, flattened
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan

from ..node import Asked, Node, Seed, forbid
from ..reply import Received, Refusal, with_own_metadata
from ..update_mod import (
    CallNext,
    LdpUpdateMod,
    _metrics,
    _model,
    log_failure,
    reply_of,
    training_kind,
)
from .round import Arrays, Training

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset


_NAME = "RecordDpSgd"  # in the operator's books, where what protects records begins with Record
_MODEL, _METRIC = "model:", "metric:"  # of what is kept of a reply
NUM_EXAMPLES = "num-examples"


current: ContextVar[Training | None] = ContextVar("current", default=None)


def dp_sgd(
    model: "torch.nn.Module",
    optimizer: "torch.optim.Optimizer",
    dataset: "Dataset[Any]",
    loss: "Callable[[torch.nn.Module, Any], torch.Tensor]",
) -> None:
    """Train for one round by DP-SGD, in place of an app's own loop over batches.

    All parameters that the optimiser holds, with ``requires_grad``, are trained from what
    the server sent, by as many steps, with as much noise, as the app's
    :class:`RecordDpSgdMod` says. Afterwards the model has the result, and the mod sends it.

    Parameters
    ----------
    model : torch.nn.Module
        The model. What the message holds is loaded into it by name (of its state_dict).
    optimizer : torch.optim.Optimizer
        Any optimiser of its parameters that needs no closure; it gets noisy mean gradients.
    dataset : torch.utils.data.Dataset
        Records, with a length. Of more than the operator has declared the first are used.
        A record with another structure, shapes or types than the first one counts as 0.
    loss : callable
        Function from the model and one record, as a batch of one, to its loss: one number. It is
        tried out first with zeros in place of the first record's numbers, unless records hold
        anything but numbers (texts, say). It is called under ``vmap`` of ``torch.func``; where that
        fails for records of zeros, all are taken one by one, which is slower.

    Raises
    ------
    RuntimeError
        If the app has no :class:`RecordDpSgdMod`, or this is a second call for one message.
    ValueError
        If model, optimiser, data set and loss do not fit together, or the model has a
        BatchNorm, which mixes records.
    """
    training = current.get()
    if training is None:
        raise RuntimeError(
            "Expected dp_sgd to be called by the train function of an app with "
            "ClientApp(mods=[RecordDpSgdMod(...)])."
        )
    if training.started:
        raise RuntimeError("Expected one call of dp_sgd for one message, got a second.")
    training.started = True
    from .steps import train

    training.trained, training.count = train(training, model, optimizer, dataset, loss)


class RecordDpSgdMod(LdpUpdateMod):
    """A Flower mod for silos: the model that leaves a node was trained by DP-SGD.

    Each single record of the node is protected, in all rounds together. The app's train
    function calls :func:`dp_sgd` in place of its loop over batches, with any model, loss
    and optimiser of PyTorch::

        app = ClientApp(mods=[RecordDpSgdMod(epsilon=1.0, delta=1e-5, num_rounds=20)])

    The server runs any strategy of Flower's that averages what ``train`` returns.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of a record, for all rounds together.
    num_rounds : int
        Number of rounds, all of which are paid for in the first. Further ones are refused.
    steps : int (default: 10)
        Number of steps of the optimiser in a round.
    sampling_rate : float (default: 0.05)
        Probability of a record to be drawn for a step; of N records a batch has this
        times N, on average.
    max_grad_norm : float (default: 1.0)
        Length that the gradient of a record's loss is shortened to.
    policy, seed, public_metrics
        As those of :class:`LdpUpdateMod`.

    Raises
    ------
    ValueError
        If an argument is not as it should be.
    ImportError
        If PyTorch or dp-accounting is not installed (the extra ``torch``).

    Attributes
    ----------
    plan : DpSgdPlan
        What is spent, with the noise that it takes.

    Notes
    -----
    In a deployment ``node_config`` (set by the node's operator) must hold ``max-epsilon``,
    ``max-delta``, ``ledger-path``, ``unit="record"``, ``num-records`` (public),
    ``allow-inexact=true`` and ``user-id``, the silo's name on the ledger; ``max-width`` where
    the model has more than 1,048,576 parameters. With ``rehearsal`` nobody's record is drawn.

    Per-record gradients are PyTorch's (``torch.func``). Noise, and which records are drawn, come
    from the operating system's generator, and noisy sums are put on a grid. Source: Abadi et
    al. (2016).

    Guarantee
    ---------
    1. Protected: a record's values against any other values of that record, absent ones
       included, at (``epsilon``, ``delta``) for all rounds together, against the server and
       everyone who sees the replies; in real arithmetic. Of the first record, the structure,
       shapes and types of what the data set returns (nothing, if it raises) are public, and
       ``num-records`` is.
    2. Noise is calibrated by privacy loss distributions for records that are replaced.
       Opacus states what is lost where records are added or removed, about half as much
       (:attr:`DpSgdPlan.epsilon_of_presence`).
    3. What leaves are the parameters that :func:`dp_sgd` trained, from those that the server
       sent, whatever the train function does with its model or returns. All other arrays are
       the server's own. Metrics that app and operator declare public leave beside it and
       are not protected at all; ``num-examples`` is the declared number of records.
    4. Each record's gradient is computed from the record and parameters alone, is 0 where
       that fails or is not finite, and is shortened before it is added up, both in doubles:
       one record moves a sum by twice ``max_grad_norm`` at most. Blocks of a
       public size run the same kernels whatever records hold: on a CPU no record moves
       a bit of another's gradient. One that is not of the first one's form, or makes the
       loss fail, is replaced by zeros and counts as 0. The number of steps, and the number
       that sums are divided by, do not depend on data.
    5. The whole plan's (``epsilon``, ``delta``) is on the ledger before the app trains for the
       first time in a run, and a reply before it leaves. The plan gives ``num_rounds`` replies.
       Another run, or a plan with any other number in it, is paid anew, within ``max_epsilon``
       and ``max_delta``, or refused before it trains. An app that raises before :func:`dp_sgd`
       is done is called once more with nobody drawn, so that what leaves is noise; if it raises
       again, or does not call :func:`dp_sgd`, an error of fixed text leaves, which is paid for
       like a reply: rehearse first.
    6. The same message (model and the app's other records) in the same run gets the same
       bytes and trains nothing.
    7. The mod never raises. Given to the ClientApp, it refuses all but train messages:
       evaluation would send numbers that are not private.
    8. Not covered: an app whose ``loss``, model or data set remembers records from one call
       to the next, or was made from all of them (rows less their own mean; weights trained
       before that the message does not hold), that raises before :func:`dp_sgd` for some
       records and not for others (the error is seen, once for each message), whose
       optimiser's settings come from data or that raises at some noisy gradients, or that
       sends things by itself: vet it. Kernels that read memory behind their input, or a GPU
       that stops, where an index is out of range. How long training takes, as
       ``reply-after`` has it; a person with several records.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        num_rounds: int,
        steps: int = 10,
        sampling_rate: float = 0.05,
        max_grad_norm: float = 1.0,
        policy: PrivacyPolicy | None = None,
        seed: Seed = None,
        public_metrics: Sequence[str] = (),
    ) -> None:
        super().__init__(policy, seed, public_metrics)
        self.plan = DpSgdPlan(epsilon, delta, num_rounds, steps, sampling_rate, max_grad_norm)
        if missing := [n for n in ("torch", "dp_accounting") if find_spec(n) is None]:
            raise ImportError(
                f'RecordDpSgdMod needs {", ".join(missing)}: pip install "ldp-flower[torch]"'
            )

    def _answer(self, received: Received, context: Context, call_next: CallNext) -> RecordDict:
        kind = training_kind(received)
        content = received.message.content
        try:
            if RIDER in content:
                raise MessageError("This client trains for Flower's own strategies.")
            name, sent = _model(content)
            if not len(flat := flattened(sent)) or not np.isfinite(flat).all():
                raise MessageError("Expected a model of finite parameters.")
        except MessageError as error:
            raise Refusal.malformed(error) from error
        node = self._open(received, context)
        plan, model = self.plan, content.array_records[name]
        asked = digest(content)

        def trained(own: Node, slots: Slots) -> Report:
            inner = with_own_metadata(received.message)
            inner.content = deepcopy(content)  # the app may write into what it gets
            randomness = own.private_randomness(int(asked[:15], 16), slots)
            arrays = {key: array.numpy() for key, array in model.items()}
            rehearsal = own.terms.rehearsal
            declared = own.terms.policy.num_records
            training = Training(plan, arrays, declared, randomness, rehearsal or own.blind)
            token = current.set(training)
            try:
                reply = reply_of(inner, context, call_next, _log_failure)
            finally:
                current.reset(token)
            if training.trained is None:
                if own.blind:
                    return Report({})
                raise RuntimeError("Training failed, or did not use dp_sgd.")
            # A rehearsal shows no data, and what is declared public may be some.
            public = {} if rehearsal else _metrics(reply, self._public(received))
            return report_of(training.trained, {NUM_EXAMPLES: training.count} | public)

        round_of = asked_round(node, plan, node.run_id, len(flat), kind, asked)
        report = node.answer_once(round_of, trained)
        if not report.arrays:
            raise Refusal(Refusal.FAILED, "Training failed on the node; its log says why.")
        return as_reply(report, name, model)


def _log_failure(_: str) -> None:
    log_failure("The train function failed.")


def asked_round(
    node: Node, plan: DpSgdPlan, run: int, num_parameters: int, kind: str, content: str
) -> Asked:
    """Return the question for one round, at the cost of a run's plan.

    ``content`` is the digest of the message's. Refusal if the operator does not allow the plan.
    """
    cost = Cost(plan.epsilon, plan.delta, f"{run} {plan.name}", plan.num_rounds)
    forbid(_NAME, node.terms.policy.objection_to(cost, num_parameters, True, False))
    whole = json.dumps([kind, node.accounts.tolist(), cost.plan, content])
    identity = hashlib.sha256(whole.encode()).hexdigest()
    return Asked(np.zeros(1, np.int64), cost, identity, (kind, _NAME))


def report_of(trained: Arrays, metrics: Mapping[str, int | float]) -> Report:
    """Return what is kept of a reply: what was trained, and metrics that are public."""
    return Report(
        {f"{_MODEL}{key}": array for key, array in trained.items()}
        | {f"{_METRIC}{key}": np.array(value) for key, value in metrics.items()}
    )


def as_reply(report: Report, name: str, model: Mapping[str, Array]) -> RecordDict:
    """Return the reply as Flower's strategies expect it: a model's arrays, and metrics."""
    found = report.arrays
    trained = {
        key.removeprefix(_MODEL): Array(array)
        for key, array in found.items()
        if key.startswith(_MODEL)
    }
    arrays = {**model, **trained}
    metrics = {
        key.removeprefix(_METRIC): value.item()
        for key, value in found.items()
        if key.startswith(_METRIC)
    }
    return RecordDict({name: ArrayRecord(arrays), "metrics": MetricRecord(metrics)})
