"""The old name of :mod:`ldp_flower.compare.sweep`."""

from .renamed import now_in

__getattr__ = now_in("ldp_flower.compare.sweep", old=__name__)
