"""The old name of :mod:`ldp_flower.questions`."""

from ..renamed import now_in

__getattr__ = now_in("ldp_flower.questions", old=__name__)
