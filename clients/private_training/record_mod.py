"""RecordDpSgdMod: a mod that sends only a model trained by DP-SGD; the app calls dp_sgd for this.

PyTorch is imported with the first training only.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from copy import deepcopy
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context, RecordDict

from ldp_flower.guarantee.budget import PrivacyPolicy
from ldp_flower.guarantee.messages import MessageError, Report, Slots
from ldp_flower.guarantee.training import RIDER, digest, flattened
from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan

from ..effective_policy import Seed
from ..node import Node
from ..reply import Received, Refusal, with_own_metadata
from ..train_messages import CallNext, log_failure, metrics_in, model_in, reply_of, training_kind
from ..update_mod import LdpUpdateMod
from .plan_rounds import NUM_EXAMPLES, as_reply, asked_round, check_plan, report_of
from .round import RecordTraining

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset


#: The round that :func:`dp_sgd` trains, while the mod runs the app's train function.
current: ContextVar[RecordTraining | None] = ContextVar("current", default=None)


def dp_sgd(
    model: "torch.nn.Module",
    optimizer: "torch.optim.Optimizer",
    dataset: "Dataset[Any]",
    loss: "Callable[[torch.nn.Module, Any], torch.Tensor]",
) -> None:
    """Train a model for one round by DP-SGD, instead of an app's loop over batches.

    The function trains all parameters of the optimiser with ``requires_grad``, starting from the
    arrays that the server sent. The app's :class:`RecordDpSgdMod` sets the number of steps and the
    noise. Afterwards the model has the result, and the mod sends it.

    Parameters
    ----------
    model : torch.nn.Module
        The model. The message's arrays are loaded into it by name (of its state_dict).
    optimizer : torch.optim.Optimizer
        Any optimiser of the model's parameters that needs no closure. It gets noisy mean gradients.
    dataset : torch.utils.data.Dataset
        Records, with a length. If there are more than the operator has declared, the first are
        used. A record with another structure, shapes or types than the first one counts as 0.
    loss : callable
        Function from the model and one record, as a batch of one, to its loss: one number. It is
        first tried with zeros instead of the first record's numbers, unless records hold anything
        but numbers (texts, say). It is called under ``vmap`` of ``torch.func``. If ``vmap`` fails
        for records of zeros, all records are processed one by one, which is slower.

    Raises
    ------
    RuntimeError
        If the app has no :class:`RecordDpSgdMod`, or if this is a second call for one message.
    ValueError
        If model, optimiser, data set and loss do not fit together, or if the model has a
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
    """A Flower mod for silos that sends only models trained by DP-SGD.

    It protects each single record of the node, in all rounds together. The app's train function
    calls :func:`dp_sgd` instead of its loop over batches, with any model, loss and optimiser of
    PyTorch::

        app = ClientApp(mods=[RecordDpSgdMod(epsilon=1.0, delta=1e-5, num_rounds=20)])

    The server runs any strategy of Flower that averages the results of ``train``.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of a record, for all rounds together.
    num_rounds : int
        Number of rounds. The first round pays for all of them. Further rounds are refused.
    steps : int (default: 10)
        Number of steps of the optimiser in a round.
    sampling_rate : float (default: 0.05)
        Probability that a record is drawn for a step. For N records, the mean size of a batch is
        this rate times N.
    max_grad_norm : float (default: 1.0)
        Length to which the gradient of a record's loss is clipped.
    policy, seed, public_metrics
        As in :class:`LdpUpdateMod`.

    Raises
    ------
    ValueError
        If an argument is invalid.
    ImportError
        If PyTorch or dp-accounting is not installed (the extra ``torch``).

    Attributes
    ----------
    plan : DpSgdPlan
        The privacy cost of all rounds, with the noise that it needs.

    Notes
    -----
    In a deployment, ``node_config`` (set by the node's operator) must hold ``max-epsilon``,
    ``max-delta``, ``ledger-path``, ``unit="record"``, ``num-records`` (public),
    ``allow-inexact=true`` and ``user-id``, the silo's name on the ledger. It also needs
    ``max-width`` if the model has more than 1,048,576 parameters. With ``rehearsal``, no record is
    drawn.

    PyTorch (``torch.func``) computes the per-record gradients. The noise and the draws of records
    come from the operating system's generator, and noisy sums are rounded to a grid. Source: Abadi
    et al. (2016).

    Guarantee
    ---------
    1. Protected: a record's values against any other values of that record, including absent ones,
       at (``epsilon``, ``delta``) for all rounds together, against the server and everyone who sees
       the replies; in real arithmetic. The structure, shapes and types of the first record that the
       data set returns (nothing, if it raises) are public, and so is ``num-records``.
    2. Noise is calibrated by privacy loss distributions for records that are replaced. Opacus
       states the loss for records that are added or removed, which is about half as much
       (:attr:`DpSgdPlan.epsilon_of_presence`).
    3. The reply holds the parameters that :func:`dp_sgd` trained from those that the server sent.
       This does not depend on what the train function does with its model or returns. All other
       arrays are the server's. Metrics that app and operator declare public are sent beside the
       parameters and are not protected at all. ``num-examples`` is the declared number of records.
    4. Each record's gradient is computed from the record and parameters alone. It is 0 if the
       computation fails or is not finite. It is clipped before it is added to a sum, both in
       doubles: one record moves a sum by twice ``max_grad_norm`` at most. Blocks of a public size
       run the same kernels for any contents of records: on a CPU, no record changes a bit of
       another record's gradient. A record that has another form than the first, or makes the loss
       fail, is replaced by zeros and counts as 0. The number of steps, and the number by which sums
       are divided, do not depend on data.
    5. The whole plan's (``epsilon``, ``delta``) is on the ledger before the app trains for the
       first time in a run, and a reply is on the ledger before it is sent. The plan gives
       ``num_rounds`` replies. Another run, or a plan with any other number in it, is paid again,
       within ``max_epsilon`` and ``max_delta``, or refused before it trains. An app that raises
       before :func:`dp_sgd` is done is called once more with no record drawn, so that the reply is
       noise. If it raises again, or does not call :func:`dp_sgd`, the reply is an error with a
       fixed text, which costs the same as another reply: rehearse first.
    6. The same message (model and the app's other records) in the same run gets the same bytes and
       trains nothing.
    7. The mod never raises. If it is given to the ClientApp, it refuses all messages except train
       messages: evaluation would send numbers that are not private.
    8. Not covered: an app whose ``loss``, model or data set remembers records from one call to the
       next, or was made from all records (rows minus their mean; weights trained before that the
       message does not hold); an app that raises before :func:`dp_sgd` for some records and not for
       others (the error is visible, once for each message); an app whose optimiser's settings come
       from data, or that raises at some noisy gradients; and an app that sends data by itself. Vet
       the app. Also not covered: kernels that read memory behind their input, or a GPU that stops,
       if an index is out of range; the time that training takes, except by ``reply-after``; a
       person with several records.
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
        if RIDER in content:
            raise MessageError("This client trains for Flower's own strategies.")
        name, sent = model_in(content)
        if not len(flat := flattened(sent)) or not np.isfinite(flat).all():
            raise MessageError("Expected a model of finite parameters.")
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
            training = RecordTraining(plan, arrays, declared, randomness, rehearsal or own.blind)
            token = current.set(training)
            try:
                reply = reply_of(inner, context, call_next, _log_failure)
            finally:
                current.reset(token)
            if training.trained is None:
                if own.blind:
                    return Report({})
                raise RuntimeError("Training failed, or did not use dp_sgd.")
            # A rehearsal shows no data, and a metric declared public may show some.
            public = {} if rehearsal else metrics_in(reply, self._public(received))
            return report_of(training.trained, {NUM_EXAMPLES: training.count} | public)

        check_plan(node.terms.policy, plan, len(flat))
        round_of = asked_round(node, plan, node.run_id, kind, asked)
        report = node.answer_once(round_of, trained)
        if not report.arrays:
            raise Refusal(Refusal.FAILED, "Training failed on the node; its log says why.")
        return as_reply(report, name, model)


def _log_failure(_: str) -> None:
    log_failure("The train function failed.")
