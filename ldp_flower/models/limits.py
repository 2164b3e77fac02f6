"""Bounds on a network, all checked before anything of it runs on data."""

from dataclasses import dataclass, fields

from ..validation import check_integer


@dataclass(frozen=True)
class Limits:
    """What a node accepts of a network; a U-Net of 2 million parameters on 128 x 128 fits.

    Attributes
    ----------
    text_bytes : int (default: 4,194,304)
        Bytes of the network's text. One operation takes some 100.
    operations : int (default: 20,000)
        Number of operations. A recurrent layer has some ten for each step of a sequence.
    parameters : int (default: 4,194,304)
        Numbers in all parameters and constants together.
    tensor : int (default: 4,194,304)
        Numbers in one intermediate value of one record.
    intermediates : int (default: 67,108,864)
        Numbers in all intermediate values of one record together.
    flops : int (default: 50,000,000,000)
        Floating-point operations to evaluate one record.

    Raises
    ------
    ValueError
        If one is not a positive integer.
    """

    text_bytes: int = 1 << 22
    operations: int = 20_000
    parameters: int = 1 << 22
    tensor: int = 1 << 22
    intermediates: int = 1 << 26
    flops: int = 50_000_000_000

    def __post_init__(self) -> None:
        for each in fields(self):
            check_integer(each.name, getattr(self, each.name), 1)
