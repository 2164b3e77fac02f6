"""A head of a network for one site, fitted on the site's own records, which do not leave it."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import ArrayLike

from ..validation import check_positive, plain_arguments
from .graph import FLOATS, Graph, Limits, need
from .network import Network

_MOST_STEPS = 200  # largest number of steps of L-BFGS
_AT_ONCE = 256  # number of records in memory at a time


@plain_arguments
def personal_head(
    network: Network,
    records: ArrayLike,
    targets: ArrayLike,
    head: Sequence[str] = (),
    penalty: float = 1.0,
) -> Network:
    """Return a network whose last layer is fitted to one site's own records.

    The owner of the records calls it after a training. The result is not private: it is for the
    site that holds the records, and should not leave it.

    Parameters
    ----------
    network : Network
        The network that all sites trained together.
    records : array_like, shape (records, ...)
        The site's records.
    targets : array_like, shape (records, ...)
        The targets of the records.
    head : sequence of str, optional
        Names of the parameters to fit, with ``*`` for any text. By default they are those of the
        last layer that has trained parameters.
    penalty : float (default: 1.0)
        Weight of half of the squared distance from the common head, which is added to the sum of
        the records' losses. With few records, the head stays near the common head.

    Returns
    -------
    Network
        The same network with another head.

    Raises
    ------
    NetworkError
        If ``records`` or ``targets`` do not fit the network or are not finite, or if ``head`` names
        no parameter of floats.

    Notes
    -----
    The head is fitted by L-BFGS, on all records at once. The part below it runs once for each
    record. It needs PyTorch (the extra ``torch``).
    """
    import torch
    from torch.func import vmap

    from .interpreter import RecordLoss

    check_positive("penalty", penalty)
    graph = _with_head(network.graph, head)
    target = network.target(Limits.none())
    given = []
    for name, values, tensor in (("records", records, graph.record), ("targets", targets, target)):
        array = np.asarray(values)
        need(
            array.shape[1:] == tensor.shape and len(array) > 0 and bool(np.isfinite(array).all()),
            f"{name} that are finite, of shape {list(tensor.shape)} each, got an array of shape "
            f"{list(array.shape)}",
        )
        given.append(torch.tensor(array.astype(tensor.dtype)))
    sizes = [len(each) for each in given]
    need(sizes[0] == sizes[1], f"a target for each of {sizes[0]} records, got {sizes[1]}")
    tensors = {name: torch.tensor(array) for name, array in network.arrays.items()}
    common = {name: tensors.pop(name) for name in graph.trainable}
    loss = RecordLoss.of(graph, tensors)
    with torch.no_grad():
        given += vmap(loss.known, chunk_size=_AT_ONCE)(given[0])
    own = {name: value.clone().requires_grad_() for name, value in common.items()}
    each = vmap(loss, in_dims=(None, *[0] * len(given)), chunk_size=_AT_ONCE)
    optimizer = torch.optim.LBFGS(
        [*own.values()], max_iter=_MOST_STEPS, line_search_fn="strong_wolfe"
    )

    def objective() -> torch.Tensor:
        optimizer.zero_grad()
        moved = sum((own[name] - common[name]).square().sum() for name in own)
        total = each(own, *given).sum() + penalty / 2 * moved
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(objective)  # type: ignore[no-untyped-call]
    return network.with_arrays({name: value.detach().numpy() for name, value in own.items()})


def _with_head(graph: Graph, head: Sequence[str]) -> Graph:
    """Return a graph in which only the parameters of the head are trained.

    Raise NetworkError if a name in ``head`` matches no parameter of floats.
    """
    need(not isinstance(head, str), f"head to be a list of names, got {head!r}")
    floats = [name for name, tensor in graph.parameters.items() if tensor.dtype in FLOATS]
    named: set[str] = set()
    for pattern in head:
        found = {name for name in floats if fnmatchcase(name, pattern)}
        need(bool(found), f"head to name some of {floats}, got {pattern!r}")
        named |= found
    names = named or _last_layer(graph)
    parameters = {n: replace(t, trainable=n in names) for n, t in graph.parameters.items()}
    return replace(graph, parameters=parameters)


def _last_layer(graph: Graph) -> set[str]:
    """Return the names of the trained parameters in the network's last layer.

    This layer is the last operation that combines trained parameters with values that depend on the
    record.
    """
    of_record: set[int | str | None] = {None}
    behind: dict[int | str | None, set[str]] = {name: {name} for name in graph.parameters}
    last: set[str] = set()
    for number, operation in enumerate(graph.operations):
        sources = {reference.source for reference in operation.references()}
        names = set[str]().union(*(behind.get(source, set()) for source in sources))
        if sources & of_record:
            of_record.add(number)
            last = names & set(graph.trainable) or last
        else:  # such as a transposed weight
            behind[number] = names
    return last
