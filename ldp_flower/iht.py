"""The old name of :mod:`ldp_flower.questions.sparse`."""

from .renamed import now_in

__getattr__ = now_in("ldp_flower.questions.sparse", old=__name__)
