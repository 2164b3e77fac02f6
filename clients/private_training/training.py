"""What the app's train function calls, and what the mod hands to it behind the app's back."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ldp_flower.randomizers.real_valued.dp_sgd import DpSgdPlan
from ldp_flower.randomness import RandomSource

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset

Arrays = Mapping[str, NDArray[Any]]


@dataclass
class Training:
    """One round's training on one node, as the mod wants it.

    Attributes
    ----------
    plan : DpSgdPlan
        Noise, sampling rate and number of steps.
    sent : mapping of str to ndarray
        The model that the server sent.
    num_records : int or None
        Declared number of records, of which the first are used; None: as many as there are.
    randomness : RandomSource
        Source of noise and of who is drawn, for one user.
    blind : bool
        Whether nobody is drawn, as in a rehearsal.
    trained : mapping of str to ndarray or None
        Afterwards, what has been trained. Nothing else can leave.
    count : int
        Afterwards, the number of records by which gradients were divided.
    """

    plan: DpSgdPlan
    sent: Arrays
    num_records: int | None
    randomness: RandomSource
    blind: bool
    started: bool = False
    trained: Arrays | None = None
    count: int = 0


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
        Any optimiser of its parameters that needs no closure. Each step gives it the noisy
        mean gradient.
    dataset : torch.utils.data.Dataset
        Records, with a length. Of more than the operator has declared the first are used.
        One that has not the first one's structure, shapes and types counts as 0.
    loss : callable
        Function from the model and one record, as a batch of one, to its loss: one number.
        It is tried out first, with zeros in place of the first record's numbers; where
        records hold anything but numbers (texts, say) it is not.

    Raises
    ------
    RuntimeError
        If the app has no :class:`RecordDpSgdMod`, or this is a second call for one message.
    ValueError
        If model, optimiser, data set and loss do not fit together, or the model has a
        BatchNorm, which mixes records.

    Notes
    -----
    Per-record gradients are PyTorch's (``torch.func``). ``loss`` is called under ``vmap``; where
    that fails for records of zeros, all are taken one by one, which is slower.
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
