"""Sums of records' gradients, each of which moves a sum by no more than a bound."""

from collections.abc import Iterator

import torch

Tensors = dict[str, torch.Tensor]

_PIECE = 1 << 17  # numbers that are held as doubles at a time: 1 MiB, which stays in a cache
_MARGIN = 1e-9  # of the bound, far above what doubles round


def clipped_sums(each: Tensors, used: torch.Tensor, bound: float) -> tuple[Tensors, torch.Tensor]:
    """Return sums of gradients, each shortened first, and which records count.

    Parameters
    ----------
    each : dict of str to Tensor
        Gradients by parameter, shape (records, *parameter's).
    used : Tensor of bool, shape (records,)
        Which places hold a record.
    bound : float
        Euclidean length, over all parameters together, that each is shortened to.

    Returns
    -------
    dict of str to Tensor
        Sums in doubles. They are the same operations whatever gradients hold, and their order
        follows from shapes alone.
    Tensor of bool, shape (records,)
        A gradient that is not finite counts as 0.

    Notes
    -----
    In four bytes the length of a gradient with many entries, and a sum of many, are wrong by so
    much that one record moves a sum by more than twice its bound.
    """
    rows = {name: gradient.reshape(len(used), -1) for name, gradient in each.items()}
    squares = torch.zeros(len(used), dtype=torch.float64, device=used.device)
    for gradient in rows.values():
        for piece in _pieces(gradient):
            squares += piece.square().sum(1)
    counted = used & squares.isfinite()
    # A gradient of 0 is not divided by: the factor is at most 1.
    factors = (bound * (1 - _MARGIN) / squares.sqrt()).clamp(max=1.0)
    factors = torch.where(counted, factors, torch.zeros_like(factors))
    dropped = ~counted[:, None]  # not by a product: NaN times 0 is NaN
    sums = {
        name: torch.cat([factors @ piece.masked_fill_(dropped, 0.0) for piece in _pieces(gradient)])
        for name, gradient in rows.items()
    }
    return {name: total.view(each[name].shape[1:]) for name, total in sums.items()}, counted


def _pieces(gradient: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield its columns as doubles, some at a time."""
    for piece in torch.split(gradient, max(1, _PIECE // len(gradient)), dim=1):
        yield piece.to(torch.float64, copy=True)
