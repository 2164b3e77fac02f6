"""Attacks on a Flower app that somebody else wrote: what it sends, and what its noise is worth.

``loading`` imports the app, ``conversation`` hears what its own server asks, ``sources`` finds
where its data come in and ``variants`` makes neighbours of them; a ``node`` answers as often as
is asked. ``deterministic_leaks`` finds replies that differ on every run, ``measured`` bounds the
epsilon of noise from below, ``repeats`` finds noise that is the same twice, ``claims`` reads the
claimed epsilon and delta.
"""

from .attack import Options, audit_app
from .errors import CannotAuditError
from .findings import AppAudit, Finding, Worth

__all__ = ["AppAudit", "CannotAuditError", "Finding", "Options", "Worth", "audit_app"]
