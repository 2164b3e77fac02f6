"""The old name of :mod:`ldp_flower.data.schema`."""

from .renamed import now_in

__getattr__ = now_in("ldp_flower.data.schema", old=__name__)
