"""Runs every kernel twice, with arrays that lie between two kinds of numbers of somebody else.

Neither may show in a result, and both are there afterwards: a kernel reads and writes nothing but
its own arrays.
"""

from collections import Counter
from functools import cache

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ZONE = 64  # numbers on both sides
_FILLS = {"f": (torch.nan, -7.25), "i": (1 << 40, -3), "b": (True, False)}


def bits(tensor):
    """Return a tensor's bits, of which NaN equals itself."""
    kinds = {4: torch.int32, 8: torch.int64}
    floats = tensor.is_floating_point()
    return tensor.contiguous().view(kinds[tensor.element_size()]) if floats else tensor


class Guarded(TorchDispatchMode):
    """While it is on, every kernel is checked; ``checked`` counts them, and what was ``written``.

    Kernels that write into their arguments, or return views of them, run as they are.
    """

    def __init__(self):
        super().__init__()
        self.checked, self.written = Counter(), Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        shares = any(each.alias_info is not None for each in function._schema.arguments)
        if shares or "empty" in function._schema.name:
            return function(*args, **kwargs)
        name = str(function)
        found = []
        for number in range(2):
            zones = []
            given = torch.utils._pytree.tree_map(
                lambda value, zones=zones, number=number: _between(value, number, zones),
                (args, kwargs),
            )
            found.append(function(*given[0], **given[1]))
            _unchanged(name, zones)
        first, second = (_tensors(each) for each in found)
        for one, other in zip(first, second, strict=True):
            assert torch.equal(bits(one), bits(other)), f"{name} reads beside its arrays"
        self.checked[name] += 1
        whole = found[0] if isinstance(found[0], tuple) else (found[0],)
        self._write(function, name, args, kwargs, whole)
        return found[0]

    def _write(self, function, name, args, kwargs, expected):
        """Let a kernel write its results between other numbers, if it has a form for that."""
        form, names = _into(function)
        if form is None or any(each is None for each in expected):
            return  # or a gradient is left out that nobody wants
        zones = []
        places = [_between(torch.empty_like(each), 1, zones) for each in expected]
        form(*args, **kwargs, **dict(zip(names, places, strict=True)))
        _unchanged(name, zones)
        for place, each in zip(places, expected, strict=True):
            assert torch.equal(bits(place), bits(each)), f"{name} writes something else"
        self.written[name] += 1


def _tensors(value):
    return [each for each in torch.utils._pytree.tree_leaves(value) if torch.is_tensor(each)]


def _between(value, number, zones):
    """Return a copy that lies between numbers of one kind, in the same layout."""
    if not torch.is_tensor(value) or not value.numel() or value.device.type != "cpu":
        return value
    sizes, strides = value.shape, value.stride()
    span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    kind = "f" if value.is_floating_point() else "b" if value.dtype == torch.bool else "i"
    fill = _FILLS[kind][number]
    whole = torch.full((span + 2 * ZONE,), fill, dtype=value.dtype)
    inner = whole.as_strided(sizes, strides, ZONE)
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
    inner[once] = value[once]
    zones.append((whole, fill))
    return inner


def _unchanged(name, zones):
    for whole, fill in zones:
        for zone in (whole[:ZONE], whole[-ZONE:]):
            same = torch.full_like(zone, fill)
            assert torch.equal(bits(zone), bits(same)), f"{name} writes beside its arrays"


@cache
def _into(function):
    """Return the form of a kernel that writes into given arrays, and their names; or None."""
    packet = function._overloadpacket
    own = [(each.name, str(each.type)) for each in function._schema.arguments]
    for overload in packet.overloads():
        form = getattr(packet, overload)
        outs = [each.name for each in form._schema.arguments if each.is_out]
        others = [(e.name, str(e.type)) for e in form._schema.arguments if not e.is_out]
        if outs and others == own and len(outs) == len(function._schema.returns):
            return form, outs
    return None, []
